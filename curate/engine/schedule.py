"""What runs when: flows of phases that wait for each other, and one queue of units for the executor.

A flow is a coroutine that awaits phases and other flows, and goes on as soon as what it waits for is there. So phases
overlap wherever none needs the other. Units of the phase that became ready last are given out first: the many short
phases of one exchange end while another source is still being read.
"""

from collections import deque
from collections.abc import Coroutine, Generator, Iterator
from typing import Any, Generic, TypeVar

from curate.core.hashing import canonical_json
from curate.engine.context import Context, Seal, seal_key
from curate.engine.crash import crash_point
from curate.engine.local import Executor
from curate.engine.phase_list import record_phase
from curate.engine.phases import seal_name
from curate.engine.progress import Progress
from curate.engine.receipt import Receipt, load_receipts, outputs_exist
from curate.engine.units import Unit

T = TypeVar("T")


class Flow(Generic[T]):
    """A coroutine under way; any number of others may await its answer."""

    def __init__(self, coroutine: Coroutine[Any, None, T]) -> None:
        self._coroutine = coroutine
        self._answer: list[T] = []

    def __await__(self) -> Generator[None, None, T]:
        while not self._answer:
            yield
        return self._answer[0]

    def advance(self) -> bool:
        """Go as far as it can; whether it came to its end. Raises what the coroutine raises."""
        try:
            self._coroutine.send(None)
        except StopIteration as end:
            self._answer.append(end.value)
        return bool(self._answer)

    def close(self) -> None:
        """Give it up, if it is not done."""
        self._coroutine.close()


class Order:
    """Units that a flow waits for, and the receipts that have come."""

    def __init__(self, receipts: dict[str, Receipt], num_missing: int) -> None:
        self.receipts = receipts
        self.num_missing = num_missing

    def __await__(self) -> Generator[None, None, dict[str, Receipt]]:
        while self.num_missing:
            yield
        return self.receipts


class Queue(Iterator[Unit]):
    """Units that can be begun, those that came last first. It ends where it is empty, and goes on if some are added."""

    def __init__(self) -> None:
        self._groups: list[deque[Unit]] = []

    def add(self, units: list[Unit]) -> None:
        """Units that are to be given out in this order, before all that is here."""
        if units:
            self._groups.append(deque(units))

    def __next__(self) -> Unit:
        if not self._groups:
            raise StopIteration
        unit = self._groups[-1].popleft()
        if not self._groups[-1]:
            self._groups.pop()
        return unit

    def __length_hint__(self) -> int:
        return sum(map(len, self._groups))


class Schedule:
    """Runs flows, and the units that they ask for."""

    def __init__(self, context: Context, executor: Executor, progress: Progress) -> None:
        self._context = context
        self._executor = executor
        self._progress = progress
        self._flows: list[Flow[Any]] = []
        self._queue = Queue()
        self._orders: dict[str, Order] = {}  # by the key of a unit that is missing

    def start(self, coroutine: Coroutine[Any, None, T]) -> Flow[T]:
        """Let a coroutine run beside the others."""
        flow = Flow(coroutine)
        self._flows.append(flow)
        return flow

    def run(self, coroutine: Coroutine[Any, None, None]) -> None:
        """Run a coroutine, and all that it starts, to the end."""
        self.start(coroutine)
        try:
            self._advance()
            while self._orders:
                for receipt in self._executor.execute(self._queue):
                    self._take(receipt)
            if self._flows:
                raise RuntimeError("a flow waits for what nobody does")
        finally:
            for flow in self._flows:
                flow.close()

    def _take(self, receipt: Receipt) -> None:
        self._progress.advance(receipt)
        order = self._orders.pop(receipt["unit"])
        order.receipts[receipt["unit"]] = receipt
        order.num_missing -= 1
        if not order.num_missing:
            self._advance()

    def _advance(self) -> None:
        """Let each flow go as far as it can, until none ends, for which others may wait."""
        while ended := [flow for flow in self._flows if flow.advance()]:  # flows that start meanwhile are met as well
            self._flows = [flow for flow in self._flows if flow not in ended]

    async def phase(self, phase: str, units: list[Unit]) -> Seal:
        """Do the units of a phase and seal it."""
        self.record(phase, units)
        sealed = self.sealed(phase, units)
        if sealed is not None:
            return sealed
        receipts = await self.receipts(units)
        return self.seal(phase, units, [receipts[unit.key] for unit in units])

    async def receipts(self, units: list[Unit]) -> dict[str, Receipt]:
        """The receipts of these units: those that are there, and those made now."""
        receipts = load_receipts(self._context.storage, units)
        missing = [unit for unit in units if unit.key not in receipts]
        self._progress.begin(units, missing)
        order = Order(receipts, len(missing))
        self._orders.update((unit.key, order) for unit in missing)
        self._queue.add(missing)
        return await order

    def record(self, phase: str, units: list[Unit]) -> None:
        """Say that a phase with these units begins."""
        record_phase(self._context.storage, self._context.plan.plan_id, phase, [unit.key for unit in units])

    def sealed(self, phase: str, units: list[Unit]) -> Seal | None:
        """The seal of a phase whose outputs are all there, or None."""
        name = seal_name(phase, units)
        if self._context.storage.stat(seal_key(name)) is None:
            return None
        seal = self._context.seal(name)
        return seal if outputs_exist(self._context.storage, seal["units"]) else None

    def seal(self, phase: str, units: list[Unit], receipts: list[Receipt]) -> Seal:
        """Seal a phase: `units` are what it set out to do, `receipts` what counts of it."""
        name = seal_name(phase, units)
        seal = {"name": name, "phase": phase, "units": receipts}
        crash_point("seal.before-seal")
        self._context.storage.put(seal_key(name), canonical_json(seal))
        crash_point("seal.after-seal")
        return self._context.seal(name)
