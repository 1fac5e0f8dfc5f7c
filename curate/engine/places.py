"""Where units run: `--on` and `--job` of the command, as an executor."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from curate.core.errors import PlanError
from curate.engine.context import Context
from curate.engine.jobs import JobShare
from curate.engine.local import Executor, open_executor


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where and how much. `on`: "ray" (started here), "local", "auto" or the address of a Ray cluster."""

    on: str = "ray"
    workers: int | None = None  # None: one a CPU
    job: tuple[int, int] | None = None  # (I, N): the I-th of N shares
    wait: bool = False  # for the other jobs

    def __post_init__(self) -> None:
        if self.wait and self.job is None:
            raise PlanError("--wait goes with --job")


@contextmanager
def open_place(context: Context, place: Place, say: Callable[[str], None]) -> Iterator[Executor]:
    """The executor of a place, which tells with `say` what it waits for. Raises PlanError where it cannot be had."""
    with _open(context, place, say) as executor:
        if place.job is None:
            yield executor
            return
        job, num_jobs = place.job
        seconds = context.plan.run.take_over_after_seconds
        yield JobShare(
            inner=executor,
            storage=context.storage,
            job=job,
            num_jobs=num_jobs,
            wait=place.wait,
            take_over_after_seconds=seconds,
            say=say,
        )


@contextmanager
def _open(context: Context, place: Place, say: Callable[[str], None]) -> Iterator[Executor]:
    if place.on == "local":
        with open_executor(context, place.workers or num_cpus()) as executor:
            yield executor
        return
    from curate.engine.cluster import open_cluster  # Ray takes a second to import

    address = None if place.on == "ray" else place.on
    say("starting Ray on this machine" if address is None else f"joining the Ray cluster at {address!r}")
    with open_cluster(context, address, place.workers or (num_cpus() if address is None else None)) as executor:
        yield executor


def num_cpus() -> int:
    """CPUs that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
