"""What `import curate` offers beside `curate.plan`: load a file, run a plan."""

from curate.engine.jobs import parse_job
from curate.engine.places import Place
from curate.engine.runner import run as run_plan
from curate.plan.build import build as load
from curate.plan.plan import Plan

__all__ = ["Plan", "load", "run"]


def run(
    plan: Plan,
    *,
    on: str = "ray",
    workers: int | None = None,
    job: str | None = None,
    wait: bool = False,
    replace: bool = False,
) -> None:
    """Make the dataset of `plan` at `plan.output`, or go on with it: `curate run` with the same options.

    Raises: CurateError, whose `exit_code` is the command's.
    """
    share = parse_job(job) if job is not None else None
    run_plan(plan, place=Place(on=on, workers=workers, job=share, wait=wait), replace=replace)
