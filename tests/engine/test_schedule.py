"""Phases run as soon as what they read is sealed; units go out one after the other, those of the last phase first."""

import io
from collections.abc import Iterable, Iterator
from operator import length_hint
from pathlib import Path

import pytest

from curate.core.errors import StageError, WaitingError
from curate.core.hashing import digest
from curate.engine.context import Context, Seal
from curate.engine.jobs import JobShare
from curate.engine.progress import Progress
from curate.engine.receipt import Receipt, Result, commit
from curate.engine.schedule import Queue, Schedule
from curate.engine.units import Unit
from tests.engine.plans import mixed_plan


class Recorder:
    """An executor that commits an empty receipt for each unit, one after the other, and keeps account."""

    def __init__(self, context: Context) -> None:
        self.done: list[str] = []
        self._storage = context.storage

    def execute(self, units: Iterable[Unit]) -> Iterator[Receipt]:
        """See Executor."""
        for unit in units:
            self.done.append(f"{unit.phase}{unit.spec['number']}")
            yield commit(self._storage, unit, Result())


@pytest.fixture
def context(tmp_path: Path) -> Context:
    return Context(mixed_plan(output=str(tmp_path)))


def units(phase: str, count: int) -> list[Unit]:
    return [Unit(phase=phase, key=digest([phase, number]), spec={"number": number}) for number in range(count)]


def schedule_of(context: Context, executor: Recorder | JobShare) -> Schedule:
    return Schedule(context, executor, Progress(context.plan, context.storage, io.StringIO()))


async def two_sources(schedule: Schedule, seals: list[Seal]) -> None:
    """A long phase beside a chain of short ones, and one that needs both."""

    async def chain() -> Seal:
        for phase in "bcd":
            seal = await schedule.phase(phase, units(phase, 1))
        return seal

    long, short = schedule.start(schedule.phase("a", units("a", 4))), schedule.start(chain())
    seals += [await long, await short, await schedule.phase("e", units("e", 1))]


def test_a_chain_of_phases_does_not_wait_for_a_long_phase(context: Context) -> None:
    executor, seals = Recorder(context), list[Seal]()
    schedule = schedule_of(context, executor)
    schedule.run(two_sources(schedule, seals))
    assert executor.done == ["b0", "c0", "d0", "a0", "a1", "a2", "a3", "e0"]
    assert [seal["phase"] for seal in seals] == ["a", "d", "e"]
    assert [unit["spec"]["number"] for unit in seals[0]["units"]] == [0, 1, 2, 3]


def test_what_is_sealed_is_not_done_again(context: Context) -> None:
    for expected in (8, 0):
        executor, seals = Recorder(Context(context.plan)), list[Seal]()
        schedule = schedule_of(context, executor)
        schedule.run(two_sources(schedule, seals))
        assert (len(executor.done), len(seals)) == (expected, 3)


def test_jobs_do_each_unit_once_whatever_phase_it_is_of(context: Context) -> None:
    done: list[str] = []
    for turn in range(20):
        inner = Recorder(context)
        share = JobShare(
            inner=inner,
            storage=context.storage,
            job=1 + turn % 2,
            num_jobs=2,
            wait=False,
            take_over_after_seconds=900.0,
            say=done.append,
        )
        schedule, seals = schedule_of(context, share), list[Seal]()
        try:
            schedule.run(two_sources(schedule, seals))
        except WaitingError:
            assert not seals or seals[-1]["phase"] != "e"
        done += inner.done
        if len(seals) == 3:
            break
    assert sorted(done) == ["a0", "a1", "a2", "a3", "b0", "c0", "d0", "e0"]
    assert turn > 1


def test_an_error_of_a_flow_ends_all(context: Context) -> None:
    executor, seals = Recorder(context), list[Seal]()
    schedule = schedule_of(context, executor)

    async def fail() -> None:
        raise StageError("no")

    async def everything() -> None:
        schedule.start(fail())
        await two_sources(schedule, seals)

    with pytest.raises(StageError, match="no"):
        schedule.run(everything())
    assert executor.done == []


def test_a_flow_that_waits_for_itself_is_an_error(context: Context) -> None:
    schedule = schedule_of(context, Recorder(context))

    async def forever() -> None:
        await flow

    flow = schedule.start(forever())
    with pytest.raises(RuntimeError, match="waits for what nobody does"):
        schedule.run(forever())


def test_a_queue_ends_and_goes_on() -> None:
    queue = Queue()
    assert next(queue, None) is None
    queue.add(units("a", 2))
    queue.add([])
    assert next(queue).spec["number"] == 0
    queue.add(units("b", 1))
    assert length_hint(queue) == 2
    assert [unit.phase for unit in queue] == ["b", "a"]
    assert next(queue, None) is None
