"""Attempts on this machine: in this process, or in worker processes that may die without harm."""

import ctypes
import multiprocessing
import signal
import sys
import time
import traceback
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from typing import Any, Protocol

from curate.core.errors import CurateError, StageError, StorageError
from curate.engine.attempt import attempt
from curate.engine.context import Context
from curate.engine.receipt import Receipt
from curate.engine.units import Unit
from curate.engine.watch import Watch
from curate.plan.plan import Plan

MAX_ATTEMPTS = 3
MAX_KILLED = 16  # records of one unit that may kill their process before the stage is blamed
PR_SET_PDEATHSIG = 1


class Executor(Protocol):
    """Does units, in any order, and gives their receipts as they come."""

    def execute(self, units: Iterable[Unit]) -> Iterator[Receipt]:
        """Receipts of all units, each once. Raises the first CurateError that stays after retries.

        Takes a unit when it can be begun, not before: until then another job may do it.
        """


@contextmanager
def open_executor(context: Context, workers: int) -> Iterator[Executor]:
    """In this process for one worker, else that many processes, ended on the way out."""
    if workers == 1:
        yield InProcess(context)
        return
    pool = Workers(context.plan, workers)
    try:
        yield pool
    finally:
        pool.close()


class InProcess:
    """One attempt after the other, here."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def execute(self, units: Iterable[Unit]) -> Iterator[Receipt]:
        """See Executor."""
        for unit in units:
            yield with_retries(self._context, unit)


def with_retries(context: Context, unit: Unit) -> Receipt:
    """An attempt; again where storage failed. A retry is safe: equal attempts write equal bytes."""
    for number in range(1, MAX_ATTEMPTS):
        try:
            return attempt(context, unit)
        except StorageError:
            time.sleep(2.0**number)
    return attempt(context, unit)


@dataclass
class Suspicion:
    """What is known of a unit whose process died: the records that killed it, and deaths without a suspect."""

    killed: list[str] = field(default_factory=list)
    num_unexplained: int = 0


class Worker:
    """A child process and the unit that it does."""

    def __init__(self, plan: Plan) -> None:
        spawn = multiprocessing.get_context("spawn")
        self.connection, theirs = spawn.Pipe()
        self.process = spawn.Process(target=serve, args=(plan, theirs), daemon=True)
        self.process.start()
        theirs.close()
        self.unit: Unit | None = None
        self.record: str | None = None  # in hand, where records run alone

    def give(self, unit: Unit, suspicion: Suspicion | None) -> bool:
        """Send a unit, under suspicion for its records to run alone. False: the process had died meanwhile."""
        try:
            self.connection.send((unit, suspicion.killed if suspicion else None))
        except OSError:
            return False
        self.unit, self.record = unit, None
        return True

    def answer(self) -> Any:
        """A receipt, an exception, the name of the record now in hand, or None where the process died."""
        try:
            return self.connection.recv()
        except (EOFError, ConnectionResetError):
            self.process.join()
            return None

    def end(self) -> None:
        """End the process now; what it did not commit does not count."""
        self.process.kill()
        self.process.join()
        self.connection.close()


class Workers:
    """Worker processes. A unit whose process died runs again with its records alone, to find the one that kills."""

    def __init__(self, plan: Plan, count: int) -> None:
        self._plan = plan
        self._workers = [Worker(plan) for _ in range(count)]
        self._suspicions: dict[str, Suspicion] = {}

    def execute(self, units: Iterable[Unit]) -> Iterator[Receipt]:
        """See Executor."""
        fresh, again = iter(units), deque[Unit]()
        while True:
            for worker in self._workers:
                if worker.unit is None:
                    following = again.popleft() if again else next(fresh, None)
                    if following is not None and not worker.give(following, self._suspicions.get(following.key)):
                        again.appendleft(following)
                        self._replace(worker)
            if not again and not any(worker.unit for worker in self._workers):
                return
            for worker in self._ready():
                answer = worker.answer()
                if isinstance(answer, str):
                    worker.record = answer
                elif answer is None:
                    again.extendleft(self._bury(worker))
                elif isinstance(answer, BaseException):
                    raise answer
                else:
                    worker.unit = None
                    yield answer

    def suspect(self, unit: Unit) -> None:
        """Let the records of a unit run alone from the start."""
        self._suspicions.setdefault(unit.key, Suspicion())

    def close(self) -> None:
        """End all processes."""
        for worker in self._workers:
            worker.end()

    def _ready(self) -> list[Worker]:
        by_connection: dict[Any, Worker] = {worker.connection: worker for worker in self._workers if worker.unit}
        return [by_connection[connection] for connection in wait(list(by_connection))] if by_connection else []

    def _replace(self, worker: Worker) -> None:
        worker.end()
        self._workers[self._workers.index(worker)] = Worker(self._plan)

    def _bury(self, worker: Worker) -> list[Unit]:
        """Put a fresh process in the place of a dead one; the unit to do again."""
        self._replace(worker)
        if worker.unit is None:
            return []
        suspicion = self._suspicions.setdefault(worker.unit.key, Suspicion())
        if worker.record is not None:
            suspicion.killed.append(worker.record)
        else:
            suspicion.num_unexplained += 1
        if suspicion.num_unexplained == MAX_ATTEMPTS or len(suspicion.killed) > MAX_KILLED:
            code = worker.process.exitcode
            raise StageError(
                f"{worker.unit.phase}: a worker process dies (exit code {code}) at the unit {worker.unit.spec}"
            )
        return [worker.unit]


def serve(plan: Plan, connection: Connection) -> None:
    """A worker process: units in, receipts or errors out, until the driver goes away."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the driver's to handle
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)  # a driver killed by -9 leaves no orphans
    context = Context(plan)
    while True:
        try:
            unit, killed = connection.recv()
        except EOFError:
            return
        context.watch = None if killed is None else Watch(killed, connection.send)
        connection.send(outcome(context, unit))


def outcome(context: Context, unit: Unit) -> Receipt | CurateError:
    """The receipt of a unit, or the error that its attempts ended with."""
    try:
        return with_retries(context, unit)
    except CurateError as error:
        return error
    except Exception:
        return StageError(f"{unit.phase}: a bug in curate:\n{traceback.format_exc()}")


def alone(plan: Plan, unit: Unit) -> Receipt | CurateError:
    """The outcome of a unit that kills its process: done in child processes, its records alone, until it is through."""
    pool = Workers(plan, 1)
    pool.suspect(unit)
    try:
        return next(pool.execute([unit]))
    except CurateError as error:
        return error
    finally:
        pool.close()
