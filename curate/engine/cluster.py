"""Attempts on Ray: it places processes on nodes; what counts lies in storage.

    unit -> idle worker -> a receipt, or a CurateError as a value
                 |
                 +-- died with its node:  the unit again, elsewhere
                 +-- died on a live node: the unit again; after the second time with its records alone,
                     in a child process of the worker (curate.engine.local.alone)

An actor is a worker process with one opened plan. Ray is asked neither to retry nor to restart: an
attempt that ran twice is harmless, and only we can tell a bad record from a lost machine. What an
actor returns is a copy of what it has committed, so nothing is lost with Ray's object store.
"""

import logging
import os
import pickle
import secrets
import signal
import socket
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import islice
from operator import length_hint
from typing import Any

from curate import __version__
from curate.core.errors import ClusterError, CurateError, PlanError, StageError
from curate.engine.context import Context
from curate.engine.local import MAX_ATTEMPTS, Executor, alone, outcome
from curate.engine.node import Expected, check_node, expected_of
from curate.engine.receipt import Receipt
from curate.engine.scratch import scratch_folder
from curate.engine.units import Unit
from curate.plan.plan import Plan

# Ray reads these when it is imported: its own node is then 127.0.0.1, so that its servers listen on loopback alone,
# and it does not print what we tell in fewer words (a worker that died).
os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
os.environ.setdefault("RAY_DEDUP_LOGS_SKIP_REGEX", ".")

import ray

LOOPBACK = "127.0.0.1"
TOKEN = secrets.token_hex(32)  # who has it may talk to our Ray; Ray's default lies in the home folder for ever
OBJECT_STORE_BYTES = 80 << 20  # about the least that Ray takes; the plan is the only thing in it
MAX_DEATHS = 2  # of workers on live nodes at one unit, before its records run alone
MAX_LOSSES = 20  # of workers together with their nodes at one unit
MAX_FAILED_STARTS = 10  # of workers, one after the other
SECONDS_BETWEEN_LOOKS = 5.0  # at how many CPUs the cluster has
MAX_SECONDS_IDLE = 900.0  # without any worker: an autoscaler needs minutes for a node
UNREACHABLE = (ray.exceptions.ActorUnavailableError, ray.exceptions.ObjectLostError)
ONE_THREAD = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL", "NUMBA", "RAYON")}


@contextmanager
def open_cluster(context: Context, address: str | None, workers: int | None) -> Iterator[Executor]:
    """Ray as an executor: started here for this run where `address` is None, else joined.

    `address`: "auto", "host:port" or "ray://host:port". `workers`: None for one a CPU that the
    cluster has, however that changes. Raises PlanError where Ray cannot be started or joined, or
    where a node is not fit; ClusterError where the cluster goes away.
    """
    if ray.is_initialized():
        raise PlanError("this process uses Ray already; call ray.shutdown() before a run")
    expected = expected_of(context.plan)
    with _started_here(workers) if address is None else _joined(address):
        if address is None:
            expected = replace(expected, assets=())  # the very files that the plan was built from
        cluster = Cluster(context.plan, expected, workers)
        try:
            yield cluster
        except (ray.exceptions.RayError, ConnectionError) as error:  # the latter where ray:// is cut
            raise ClusterError(f"Ray failed ({_last_line(error)}); the same command goes on from here") from error
        finally:
            cluster.close()


@contextmanager
def _started_here(workers: int | None) -> Iterator[None]:
    """A Ray of our own on loopback, that ends with this process, however it ends; its files go with it."""
    paths = os.pathsep.join(path or os.curdir for path in sys.path)
    with scratch_folder("curate-ray-") as folder:
        try:
            with _environment(RAY_USAGE_STATS_ENABLED="0", RAY_AUTH_TOKEN=TOKEN):
                _init(
                    "Ray cannot start on this machine",
                    address="local",
                    num_cpus=workers,
                    include_dashboard=False,
                    object_store_memory=OBJECT_STORE_BYTES,
                    _temp_dir=str(folder),
                    runtime_env={"env_vars": ONE_THREAD | {"PYTHONPATH": paths}},
                )
            found = [node["NodeManagerAddress"] for node in _live_nodes()]
            if found != [LOOPBACK]:
                raise PlanError(
                    f"Ray was imported too early and listens on {found}; import curate.engine.cluster before it"
                )
            yield
        finally:
            ray.shutdown()


@contextmanager
def _joined(address: str) -> Iterator[None]:
    """A Ray that others started; our workers leave it with us."""
    what = f"cannot join the Ray cluster {address!r}"
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if port.isdecimal():  # else "auto", or an address that Ray refuses in its words
        try:
            socket.create_connection((host, int(port)), timeout=10).close()
        except (OSError, OverflowError) as error:  # Ray would go on trying for two minutes
            raise PlanError(f"{what}: {error}") from None
    try:
        _init(what, address=address, runtime_env={"env_vars": ONE_THREAD})
        yield
    finally:
        ray.shutdown()


@contextmanager
def _environment(**settings: str) -> Iterator[None]:
    """Environment variables, where the user has not set them, for processes that are started meanwhile."""
    added = settings.keys() - os.environ.keys()
    os.environ.update({name: settings[name] for name in added})
    try:
        yield
    finally:
        for name in added:
            del os.environ[name]


def _init(what: str, **options: Any) -> None:
    """Connect, quietly. Raises PlanError that begins with `what`."""
    handler = signal.getsignal(signal.SIGTERM)
    try:
        ray.init(log_to_driver=False, logging_level=logging.ERROR, **options)
    except SystemExit:  # of Ray's handler of SIGTERM
        signal.signal(signal.SIGTERM, handler)
        signal.raise_signal(signal.SIGTERM)
        raise
    except Exception as error:  # Ray has no common class for what can be wrong here
        raise PlanError(f"{what}: {str(error).partition(chr(10))[0] or type(error).__name__}") from error
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, handler)  # Ray's own would end the process without a word


class Attempts:
    """The actor: a worker process on some node, that does units one after the other."""

    def start(self, plan: bytes, expected: Expected) -> tuple[str, PlanError | None]:
        """Check the node and open the plan: the node's id, and what is wrong with it."""
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the driver's to handle
        node = ray.get_runtime_context().get_node_id()
        try:
            check_node(expected)
        except PlanError as error:
            return node, error
        self._context = Context(pickle.loads(plan))
        return node, None

    def attempt(self, unit: Unit) -> Receipt | CurateError:
        """The outcome of a unit."""
        return outcome(self._context, unit)

    def attempt_alone(self, unit: Unit) -> Receipt | CurateError:
        """The outcome of a unit that has killed workers."""
        return alone(self._context.plan, unit)


@dataclass(eq=False)
class Worker:
    """An actor, and the unit that it does."""

    actor: Any
    node: str | None = None  # the id of its node, once it has started
    unit: Unit | None = None


class Cluster:
    """Workers on Ray; as many as asked for, else as the cluster has CPUs, and no more than there are units."""

    def __init__(self, plan: Plan, expected: Expected, workers: int | None) -> None:
        self._plan = ray.put(pickle.dumps(plan))
        self._expected = expected
        self._fixed = workers
        self._actors = ray.remote(Attempts).options(
            num_cpus=1, memory=_memory(plan), max_restarts=0, max_task_retries=0, scheduling_strategy="SPREAD"
        )
        self._workers: list[Worker] = []
        self._calls: dict[Any, Worker] = {}  # by what Ray answers with; one a worker: its start, or its unit
        self._deaths: Counter[str] = Counter()  # of workers on live nodes, by unit key
        self._losses: Counter[str] = Counter()  # of workers whose node was lost, by unit key
        self._num_failed_starts = 0
        self._capacity = 0
        self._next_look = self._last_seen = time.monotonic()

    def execute(self, units: Iterable[Unit]) -> Iterator[Receipt]:
        """See Executor."""
        fresh, again = iter(units), deque[Unit]()
        self._last_seen = time.monotonic()
        try:
            while True:
                idle = [worker for worker in self._workers if worker.node and not worker.unit]
                num_busy = sum(1 for worker in self._workers if worker.unit)
                again.extend(islice(fresh, max(0, max(len(idle), num_busy == 0) - len(again))))
                if not again and not num_busy:
                    return
                self._grow(num_busy, len(again), fresh)
                for worker in idle[: len(again)]:
                    self._send(worker, again.popleft())
                for reference in self._answered():
                    yield from self._settle(reference, again)
        finally:  # also where it is left early
            self._calls = {reference: worker for reference, worker in self._calls.items() if not worker.unit}
            for worker in self._workers:
                worker.unit = None

    def close(self) -> None:
        """End all workers now; what they did not commit does not count."""
        with suppress(ConnectionError):  # with which they end as well
            for worker in self._workers if ray.is_initialized() else ():  # else Ray would start one to kill them in
                ray.kill(worker.actor)

    def _grow(self, num_busy: int, num_waiting: int, fresh: Iterator[Unit]) -> None:
        """Start workers for units that could run at once. Raises ClusterError where none comes to life."""
        now = time.monotonic()
        if now >= self._next_look:
            self._capacity = self._fixed or sum(int(node["Resources"].get("CPU", 0)) for node in _live_nodes())
            self._next_look = now + SECONDS_BETWEEN_LOOKS
        num_units = num_busy + num_waiting + length_hint(fresh, self._capacity)
        while len(self._workers) < min(self._capacity, num_units):
            worker = Worker(self._actors.remote())
            self._workers.append(worker)
            self._calls[worker.actor.start.remote(self._plan, self._expected)] = worker
        if any(worker.node for worker in self._workers):
            self._last_seen = now
        elif now - self._last_seen > MAX_SECONDS_IDLE:
            raise ClusterError(
                f"the Ray cluster gave no worker for {MAX_SECONDS_IDLE:.0f} s: it has {self._capacity} CPUs, "
                "all in use or on nodes without memory; the same command goes on from here"
            )

    def _send(self, worker: Worker, unit: Unit) -> None:
        is_suspect = self._deaths[unit.key] >= MAX_DEATHS
        method = worker.actor.attempt_alone if is_suspect else worker.actor.attempt
        worker.unit = unit
        self._calls[method.remote(unit)] = worker

    def _answered(self) -> list[Any]:
        """Calls that have ended; after a while none."""
        if not self._calls:
            time.sleep(1.0)
            return []
        calls = list(self._calls)
        try:
            ready, _ = ray.wait(calls, timeout=1.0)
            if ready and len(calls) > 1:
                ready, _ = ray.wait(calls, num_returns=len(calls), timeout=0)
        except SystemExit:  # what the handler of SIGTERM raised, but Ray made another one of it
            signal.raise_signal(signal.SIGTERM)
            raise
        return ready

    def _settle(self, reference: Any, again: deque[Unit]) -> Iterator[Receipt]:
        """The receipt of a call, if it gave one; a lost unit goes to `again`. Raises the error that a call returned."""
        worker = self._calls.pop(reference)
        unit, worker.unit = worker.unit, None
        try:
            answer: Any = ray.get(reference)
        except ray.exceptions.RayError as error:
            self._bury(worker, unit, error)
            again.extend([unit] if unit else [])
            return
        if unit is None:
            worker.node, answer = answer
            self._num_failed_starts = 0
        if isinstance(answer, CurateError):
            raise answer
        if unit is not None:
            yield answer

    def _bury(self, worker: Worker, unit: Unit | None, error: Exception) -> None:
        """Forget a worker that did not answer. Raises where that is no death, or where there are too many."""
        if isinstance(error, ray.exceptions.RayTaskError) or getattr(error, "actor_init_failed", False):
            if unit is not None:
                raise StageError(f"{unit.phase}: a bug in curate: {error}")
            raise PlanError(
                f"a worker on Ray cannot open the plan: {_last_line(error)}; every node needs curate-engine "
                f"{__version__} and the modules that the pipeline uses"
            )
        self._workers.remove(worker)
        ray.kill(worker.actor)  # where only the way to it is lost
        if unit is not None:
            self._blame(worker, unit, error)
            return
        self._num_failed_starts += 1
        if self._num_failed_starts == MAX_FAILED_STARTS:
            raise ClusterError(f"workers do not start on Ray: {_last_line(error)}")

    def _blame(self, worker: Worker, unit: Unit, error: Exception) -> None:
        """Note a death. Raises StageError or ClusterError where there have been too many at this unit."""
        lives_on = worker.node in {node["NodeID"] for node in _live_nodes()}
        if lives_on and not isinstance(error, UNREACHABLE):
            self._deaths[unit.key] += 1
        else:
            self._losses[unit.key] += 1
        what = f"({_last_line(error)}) at the unit {unit.spec}"
        if self._deaths[unit.key] == MAX_DEATHS + MAX_ATTEMPTS:
            raise StageError(f"{unit.phase}: a worker process dies {what}")
        if self._losses[unit.key] == MAX_LOSSES:
            raise ClusterError(f"{unit.phase}: {MAX_LOSSES} nodes were lost {what}")


def _memory(plan: Plan) -> int:
    """Bytes that Ray sets aside for a worker: as the plan says, but not more than a node has."""
    most = max((int(node["Resources"].get("memory", 0)) for node in _live_nodes()), default=0)
    return min(plan.run.memory_per_worker, most or plan.run.memory_per_worker)


def _live_nodes() -> list[dict[str, Any]]:
    nodes: list[dict[str, Any]] = ray.nodes()  # type: ignore[no-untyped-call]
    return [node for node in nodes if node["Alive"]]


def _last_line(error: Exception) -> str:
    """The line of an error of Ray that says what happened: above it are ids and Ray's own frames."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1][:200] if lines else type(error).__name__
