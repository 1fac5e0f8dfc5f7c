"""Independent jobs: several runs of one plan on one output, that share its units and meet in storage alone.

Each job does the units that fall to it by their keys, and takes the receipts of the others as they
come. There is no leader and no lock, and no two clocks are compared. A unit that two jobs do is
harmless: their receipts are equal.
"""

import re
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from itertools import count

from curate.core.errors import PlanError, WaitingError
from curate.core.hashing import digest, order_key
from curate.core.storage import Storage
from curate.engine.local import Executor
from curate.engine.receipt import Receipt, find_receipt, load_receipts
from curate.engine.units import Unit

MIN_DELAY_SECONDS = 0.25  # between two looks at storage
MAX_DELAY_SECONDS = 30.0
FRESH_SECONDS = 5.0  # a look that is not older is not repeated
MAX_ASKED = 16  # units whose receipts are asked for one by one; more are found by a listing


def parse_job(text: str) -> tuple[int, int]:
    """(I, N) of `I/N`. Raises PlanError."""
    match = re.fullmatch(r"([0-9]{1,9})/([0-9]{1,9})", text)
    job, num_jobs = (int(match[1]), int(match[2])) if match else (0, 0)
    if not 1 <= job <= num_jobs:
        raise PlanError(f"--job: want I/N with I from 1 to N, such as 2/8, not {text!r}")
    return job, num_jobs


@dataclass(frozen=True, kw_only=True)
class JobShare:
    """An Executor that does a share of the units with another, and has the others done by other jobs."""

    inner: Executor
    storage: Storage
    job: int  # from 1
    num_jobs: int
    wait: bool
    take_over_after_seconds: float  # without news; many units long: a unit takes about a minute
    say: Callable[[str], None]

    def execute(self, units: Iterable[Unit]) -> Iterator[Receipt]:
        """See Executor. Raises WaitingError where other jobs hold units and it may not wait."""
        theirs: dict[str, Unit] = {}
        mine = filter(lambda unit: self._is_mine_or_in(unit, theirs), iter(units))  # goes on where units come later
        is_announced = False
        while True:
            yield from self._do(mine)
            if not theirs:
                return
            receipts = self._look(theirs.values())
            if not receipts:
                if not self.wait:
                    raise WaitingError(f"other jobs hold {_count(theirs.values())}; run again or use --wait")
                if not is_announced:
                    patience = f"takes over after {self.take_over_after_seconds:g} s without news"
                    self.say(f"waits for other jobs: {_count(theirs.values())}; {patience}")
                    is_announced = True
                receipts = self._wait_for_news(theirs.values())
            if not receipts:
                self.say(f"no news for {self.take_over_after_seconds:g} s: takes over {_count(theirs.values())}")
                yield from self._do(iter(self.from_my_start(theirs.values())))
                theirs.clear()
            for key, receipt in receipts.items():
                del theirs[key]
                yield receipt

    def _is_mine_or_in(self, unit: Unit, theirs: dict[str, Unit]) -> bool:
        """Whether a unit falls to this job; if not, it is put into `theirs`."""
        if not self.is_mine(unit):
            theirs[unit.key] = unit
        return unit.key not in theirs

    def is_mine(self, unit: Unit) -> bool:
        """Whether a unit falls to this job."""
        return int(unit.key[:16], 16) % self.num_jobs == self.job - 1

    def _do(self, units: Iterator[Unit]) -> Iterator[Receipt]:
        """Do units here that were missing a moment ago; later look before each whether another job has done it."""
        found: list[Receipt] = []
        begin = time.monotonic()

        def is_missing(unit: Unit) -> bool:
            is_fresh = time.monotonic() - begin < FRESH_SECONDS
            receipt = None if is_fresh else find_receipt(self.storage, unit)
            found.extend([] if receipt is None else [receipt])
            return receipt is None

        for receipt in self.inner.execute(filter(is_missing, units)):
            yield receipt
            while found:
                yield found.pop()
        yield from found

    def _wait_for_news(self, units: Collection[Unit]) -> dict[str, Receipt]:
        """The receipts that other jobs put, as soon as there are some; none where it took too long."""
        end = time.monotonic() + self.take_over_after_seconds
        for num_looks in count():
            seconds_left = end - time.monotonic()
            if seconds_left <= 0:
                break
            time.sleep(min(seconds_left, self.delay_seconds(num_looks)))
            receipts = self._look(units)
            if receipts:
                return receipts
        return {}

    def _look(self, units: Collection[Unit]) -> dict[str, Receipt]:
        """The receipts that have come, by unit key. A listing may miss some: then they come later."""
        if len(units) > MAX_ASKED:
            return load_receipts(self.storage, units)
        found = ((unit.key, find_receipt(self.storage, unit)) for unit in units)
        return {key: receipt for key, receipt in found if receipt is not None}

    def from_my_start(self, units: Iterable[Unit]) -> list[Unit]:
        """Units in the order of their keys, from a place that differs between jobs."""
        ordered = sorted(units, key=lambda unit: unit.key)
        start = bisect_left([unit.key for unit in ordered], digest(["job", self.job]))
        return ordered[start:] + ordered[:start]

    def delay_seconds(self, num_looks: int) -> float:
        """How long to wait after so many looks that found nothing: doubling, and never two jobs in step."""
        longest = min(MAX_DELAY_SECONDS, MIN_DELAY_SECONDS * 2.0 ** min(num_looks, 32))
        share = order_key(self.job, num_looks.to_bytes(8, "little")) / (1 << 64)
        return longest * (0.5 + 0.5 * share)


def _count(units: Iterable[Unit]) -> str:
    """So many units of which phases, in words."""
    counts = Counter(unit.phase for unit in units)
    return ", ".join(f"{count} unit{'s' * (count > 1)} of {phase}" for phase, count in counts.items())
