"""A share of the units is done here, the others come from other jobs or are taken over."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from curate.core.errors import PlanError, WaitingError
from curate.core.hashing import digest
from curate.core.storage import Storage, open_storage
from curate.engine import jobs
from curate.engine.jobs import MAX_ASKED, MAX_DELAY_SECONDS, JobShare, parse_job
from curate.engine.receipt import Artifact, Receipt, Result, commit, receipt_key
from curate.engine.units import Unit

UNITS = [Unit(phase=f"phase{number % 2}", key=digest(number), spec={}) for number in range(30)]


class Recorder:
    """An executor that commits a little for each unit, one after the other, and keeps account."""

    def __init__(self, storage: Storage, news: "dict[str, Unit] | None" = None) -> None:
        self.done: list[str] = []
        self._storage = storage
        self._news = news or {}  # after the unit with this key, another job does this unit

    def execute(self, units: Iterable[Unit]) -> Iterator[Receipt]:
        """See Executor."""
        for unit in units:
            self.done.append(unit.key)
            yield do(self._storage, unit)
            if unit.key in self._news:
                do(self._storage, self._news[unit.key])


def do(storage: Storage, unit: Unit) -> Receipt:
    """An attempt."""
    return commit(storage, unit, Result(artifacts=[Artifact(role="x", data=unit.key.encode(), rows=1)]))


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return open_storage(str(tmp_path))


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def share(storage: Storage, said: list[str]) -> Any:
    """Job 1 of 3, unless said otherwise."""

    def make(**changes: Any) -> JobShare:
        settings: dict[str, Any] = {"job": 1, "num_jobs": 3, "wait": False, "inner": Recorder(storage)}
        settings["take_over_after_seconds"] = 900.0
        return JobShare(storage=storage, say=said.append, **settings | changes)

    return make


def keys(receipts: Iterable[Receipt]) -> list[str]:
    return [receipt["unit"] for receipt in receipts]


@pytest.mark.parametrize(("text", "job"), [("1/1", (1, 1)), ("3/3", (3, 3)), ("2/100", (2, 100))])
def test_a_job_is_i_of_n(text: str, job: tuple[int, int]) -> None:
    assert parse_job(text) == job


@pytest.mark.parametrize(
    "text", ["0/3", "4/3", "0/0", "1", "1/", "/3", "-1/3", "1/3/5", "1.0/3", " 1/3", "\u0661/3", "1/3\n"]
)
def test_other_jobs_are_refused(text: str) -> None:
    with pytest.raises(PlanError, match=r"^--job: want I/N with I from 1 to N"):
        parse_job(text)


def test_each_unit_falls_to_one_job(share: Any) -> None:
    shares = [share(job=job) for job in (1, 2, 3)]
    assert all(sum(one.is_mine(unit) for one in shares) == 1 for unit in UNITS)
    assert all(any(one.is_mine(unit) for unit in UNITS) for one in shares)


def test_one_job_of_one_does_all(share: Any) -> None:
    assert keys(share(num_jobs=1).execute(UNITS)) == [unit.key for unit in UNITS]


def test_without_wait_it_does_its_share_and_says_what_others_hold(share: Any) -> None:
    job = share()
    got: list[Receipt] = []
    with pytest.raises(WaitingError) as error:
        got.extend(job.execute(UNITS))
    theirs = [unit for unit in UNITS if not job.is_mine(unit)]
    counts = [sum(unit.phase == phase for unit in theirs) for phase in ("phase0", "phase1")]
    assert sorted(keys(got)) == sorted(job.inner.done) == sorted(unit.key for unit in UNITS if job.is_mine(unit))
    assert error.value.exit_code == 3
    assert {f"{count} units of phase{phase}" for phase, count in enumerate(counts)} == set(
        str(error.value).removeprefix("other jobs hold ").removesuffix("; run again or use --wait").split(", ")
    )


@pytest.mark.parametrize("num_theirs", [1, MAX_ASKED, MAX_ASKED + 1])
def test_receipts_of_other_jobs_are_taken(num_theirs: int, share: Any, storage: Storage) -> None:
    job = share()
    mine = [unit for unit in UNITS if job.is_mine(unit)]
    theirs = [unit for unit in UNITS if not job.is_mine(unit)][:num_theirs]
    for unit in theirs:
        do(storage, unit)
    assert sorted(keys(job.execute(theirs + mine))) == sorted(unit.key for unit in theirs + mine)
    assert job.inner.done == [unit.key for unit in mine]


def test_a_receipt_without_its_data_does_not_count(share: Any, storage: Storage) -> None:
    job = share()
    (theirs, *_) = [unit for unit in UNITS if not job.is_mine(unit)]
    storage.delete(do(storage, theirs)["outputs"][0]["key"])
    assert storage.stat(receipt_key(theirs.key))
    with pytest.raises(WaitingError, match=r"^other jobs hold 1 unit of phase"):
        list(job.execute([theirs]))


def test_a_unit_that_another_job_did_meanwhile_is_not_done_again(
    share: Any, storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "FRESH_SECONDS", 0.0)
    mine = [unit for unit in UNITS if share().is_mine(unit)]
    job = share(inner=Recorder(storage, {mine[0].key: mine[1], mine[2].key: mine[-1]}))
    assert sorted(keys(job.execute(mine))) == sorted(unit.key for unit in mine)
    assert job.inner.done == [unit.key for unit in mine if unit not in (mine[1], mine[-1])]


def test_it_waits_for_others_and_says_so_once(
    share: Any, said: list[str], storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = share(wait=True)
    theirs = [unit for unit in UNITS if not job.is_mine(unit)]
    left = list(theirs)
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) % 3 == 0:
            do(storage, left.pop())

    monkeypatch.setattr("time.sleep", sleep)
    assert sorted(keys(job.execute(theirs))) == sorted(unit.key for unit in theirs)
    assert job.inner.done == []
    assert len(said) == 1 and said[0].startswith("waits for other jobs: ")
    assert slept[:3] == slept[3:6] == [job.delay_seconds(number) for number in range(3)]


def test_it_takes_over_where_no_receipt_comes(
    share: Any, said: list[str], storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "FRESH_SECONDS", 0.0)
    probe = share()
    theirs = [unit for unit in UNITS if not probe.is_mine(unit)]
    order = probe.from_my_start(theirs)
    job = share(wait=True, take_over_after_seconds=0.0, inner=Recorder(storage, {order[1].key: order[4]}))
    assert sorted(keys(job.execute(theirs))) == sorted(unit.key for unit in theirs)
    assert job.inner.done == [unit.key for unit in order if unit is not order[4]]
    assert said[-1].startswith("no news for 0 s: takes over ")


def test_jobs_take_over_from_different_places(share: Any) -> None:
    orders = [share(job=job).from_my_start(UNITS) for job in (1, 2, 3)]
    assert len({order[0].key for order in orders}) == 3
    assert all(sorted(one.key for one in order) == sorted(one.key for one in UNITS) for order in orders)


def test_delays_grow_to_a_bound_and_differ_between_jobs(share: Any) -> None:
    delays = [[share(job=job).delay_seconds(number) for number in (0, 1, 5, 50, 5000)] for job in (1, 2)]
    assert all(0 < delay <= MAX_DELAY_SECONDS for one in delays for delay in one)
    assert all(one[0] < one[2] < one[3] for one in delays)
    assert not set(delays[0]) & set(delays[1])
