"""Attempts on Ray: it places processes on nodes; what counts lies in storage.

    waiting units -> least busy worker, at most two each -> a receipt, or a CurateError as a value
                          |
                          +-- died with its node:  the unit again, elsewhere
                          +-- died on a live node: the unit again; after the second time with its records
                              alone, in a child process of the worker (curate.engine.local.alone)

An actor is a worker process with one opened plan. Ray is asked neither to retry nor to restart: an
attempt that ran twice is harmless, and only we can tell a bad record from a lost machine. What an
actor returns is a copy of what it has committed, so nothing is lost with Ray's object store.
"""

import logging
import os
import pickle
import secrets
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from curate.core.errors import ClusterError, CurateError, PlanError, StageError
from curate.engine.context import Context
from curate.engine.local import MAX_ATTEMPTS, Executor, alone, outcome
from curate.engine.node import Expected, check_node, expected_of
from curate.engine.receipt import Receipt
from curate.engine.units import Unit
from curate.plan.plan import Plan

# Ray reads these when it is imported: its own node is then 127.0.0.1, so that its servers listen on loopback alone,
# and it does not print what we tell in fewer words (a worker that died).
os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
os.environ.setdefault("RAY_DEDUP_LOGS_SKIP_REGEX", ".")

import ray

LOOPBACK = "127.0.0.1"
OBJECT_STORE_BYTES = 80 << 20  # about the least that Ray takes; the plan is the only thing in it
MAX_FOLDER = 40  # characters: Ray adds 63 for its sockets, and the system takes 107
MAX_CALLS = 2  # units sent to a worker: the next one is there when one ends
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
        except ray.exceptions.RayError as error:
            raise ClusterError(f"Ray failed ({_words(error)}); the same command goes on from here") from error
        finally:
            cluster.close()


@contextmanager
def _started_here(workers: int | None) -> Iterator[None]:
    """A Ray of our own on loopback, that ends with this process, however it ends; its files go with it."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_gcs_rpc_server_reconnect_timeout_s", "10")
    os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))  # else Ray puts one into the home folder
    parent = tempfile.gettempdir()
    folder = tempfile.mkdtemp(prefix="curate-ray-", dir=parent if len(parent) < MAX_FOLDER - 20 else "/tmp")
    paths = os.pathsep.join(path or os.curdir for path in sys.path)
    try:
        _init(
            "Ray cannot start on this machine",
            address="local",
            num_cpus=workers,
            include_dashboard=False,
            object_store_memory=OBJECT_STORE_BYTES,
            _temp_dir=folder,
            runtime_env={"env_vars": ONE_THREAD | {"PYTHONPATH": paths}},
        )
        found = [node["NodeManagerAddress"] for node in ray.nodes()]
        if found != [LOOPBACK]:
            raise PlanError(
                f"Ray was imported too early and listens on {found}; import curate.engine.cluster before it"
            )
        yield
    finally:
        ray.shutdown()
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _joined(address: str) -> Iterator[None]:
    try:
        _init(f"cannot join the Ray cluster {address!r}", address=address, runtime_env={"env_vars": ONE_THREAD})
        yield
    finally:
        ray.shutdown()


def _init(what: str, **options: Any) -> None:
    """Connect, quietly. Raises PlanError that begins with `what`."""
    handler = signal.getsignal(signal.SIGTERM)
    try:
        ray.init(log_to_driver=False, logging_level=logging.ERROR, **options)
    except Exception as error:  # Ray has no common class for what can be wrong here
        raise PlanError(f"{what}: {_words(error)}") from error
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
    """An actor."""

    actor: Any
    node: str | None = None  # the id of its node, once it has started
    num_units: int = 0  # sent to it and not answered


@dataclass(frozen=True)
class Call:
    """What an actor was asked for: a unit, or None for its start."""

    worker: Worker
    unit: Unit | None


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
        self._calls: dict[Any, Call] = {}  # by what Ray answers with, in the order in which they were made
        self._deaths: Counter[str] = Counter()  # of workers on live nodes, by unit key
        self._losses: Counter[str] = Counter()  # of workers whose node was lost, by unit key
        self._num_failed_starts = 0
        self._capacity = 0
        self._next_look = self._last_seen = time.monotonic()

    def execute(self, units: Iterable[Unit]) -> Iterator[Receipt]:
        """See Executor."""
        waiting = deque(units)
        self._last_seen = time.monotonic()
        try:
            while waiting or any(call.unit for call in self._calls.values()):
                self._grow(len(waiting))
                self._feed(waiting)
                for reference in self._answered():
                    receipt = self._settle(reference, waiting)
                    if receipt is not None:
                        yield receipt
        finally:
            self._calls = {reference: call for reference, call in self._calls.items() if call.unit is None}

    def close(self) -> None:
        """End all workers now; what they did not commit does not count."""
        for worker in self._workers:
            ray.kill(worker.actor)

    def _grow(self, num_waiting: int) -> None:
        """Start workers for units that could run at once. Raises ClusterError where none comes to life."""
        now = time.monotonic()
        if now >= self._next_look:
            self._capacity = self._fixed or int(ray.cluster_resources().get("CPU", 0))
            self._next_look = now + SECONDS_BETWEEN_LOOKS
        num_units = num_waiting + sum(worker.num_units for worker in self._workers)
        while len(self._workers) < min(self._capacity, num_units):
            worker = Worker(self._actors.remote())
            self._workers.append(worker)
            self._calls[worker.actor.start.remote(self._plan, self._expected)] = Call(worker, None)
        if any(worker.node for worker in self._workers):
            self._last_seen = now
        elif now - self._last_seen > MAX_SECONDS_IDLE:
            raise ClusterError(
                f"the Ray cluster gave no worker for {MAX_SECONDS_IDLE:.0f} s: it has {self._capacity} CPUs, "
                "all in use or on nodes without memory; the same command goes on from here"
            )

    def _feed(self, waiting: deque[Unit]) -> None:
        """Send units to the least busy workers; a second one each only while there are plenty."""
        started = [worker for worker in self._workers if worker.node]
        max_calls = MAX_CALLS if len(waiting) > len(started) else 1
        while waiting and started:
            worker = min(started, key=lambda worker: worker.num_units)
            if worker.num_units >= max_calls:
                return
            unit = waiting.popleft()
            is_suspect = self._deaths[unit.key] >= MAX_DEATHS
            method = worker.actor.attempt_alone if is_suspect else worker.actor.attempt
            self._calls[method.remote(unit)] = Call(worker, unit)
            worker.num_units += 1

    def _answered(self) -> list[Any]:
        """Calls that have ended, in the order in which they were made; after a while none."""
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
        ended = set(ready)
        return [reference for reference in calls if reference in ended]

    def _settle(self, reference: Any, waiting: deque[Unit]) -> Receipt | None:
        """The receipt of a call, if it gave one; units to do again go to `waiting`. Raises what an attempt ended with."""
        call = self._calls.pop(reference, None)
        if call is None:  # its worker was found dead by an earlier call
            return None
        try:
            answer = ray.get(reference)
        except ray.exceptions.RayError as error:
            waiting.extendleft(self._bury(call, error))
            return None
        if call.unit is None:
            call.worker.node, answer = answer
            self._num_failed_starts = 0
        else:
            call.worker.num_units -= 1
        if isinstance(answer, CurateError):
            raise answer
        return answer

    def _bury(self, call: Call, error: Exception) -> list[Unit]:
        """Forget a dead worker: its units, to do again. The one that it was at is held responsible."""
        if isinstance(error, ray.exceptions.RayTaskError):  # not an attempt's end: what it raises is returned
            if call.unit is None:
                raise PlanError(f"a worker cannot open the plan: {_words(error.cause)}; every node needs its modules")
            raise StageError(f"{call.unit.phase}: a bug in curate: {error}")
        others = {reference: other for reference, other in self._calls.items() if other.worker is call.worker}
        for reference in others:
            del self._calls[reference]
        self._workers.remove(call.worker)
        ray.kill(call.worker.actor)  # where only the way to it is lost
        if call.unit is None:
            self._num_failed_starts += 1
            if self._num_failed_starts == MAX_FAILED_STARTS:
                raise ClusterError(f"workers do not start on Ray: {_words(error)}")
        else:
            self._blame(call.worker, call.unit, error)
        return [one.unit for one in (call, *others.values()) if one.unit is not None]

    def _blame(self, worker: Worker, unit: Unit, error: Exception) -> None:
        """Note a death. Raises StageError or ClusterError where there have been too many at this unit."""
        nodes = {node["NodeID"] for node in ray.nodes() if node["Alive"]}
        if worker.node in nodes and not isinstance(error, UNREACHABLE):
            self._deaths[unit.key] += 1
        else:
            self._losses[unit.key] += 1
        if self._deaths[unit.key] == MAX_DEATHS + MAX_ATTEMPTS:
            raise StageError(f"{unit.phase}: a worker process dies ({_words(error)}) at the unit {unit.spec}")
        if self._losses[unit.key] == MAX_LOSSES:
            raise ClusterError(f"{unit.phase}: {MAX_LOSSES} nodes were lost ({_words(error)}) at the unit {unit.spec}")


def _memory(plan: Plan) -> int:
    """Bytes that Ray sets aside for a worker: as the plan says, but not more than a node has."""
    most = max((int(node["Resources"].get("memory", 0)) for node in ray.nodes() if node["Alive"]), default=0)
    return min(plan.run.memory_per_worker, most or plan.run.memory_per_worker)


def _words(error: BaseException) -> str:
    """The message of an error of Ray on one line, short."""
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= 300 else text[:297] + "..."
