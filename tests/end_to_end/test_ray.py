"""Units on Ray: one that the run starts on this machine, and a cluster whose nodes come and go."""

import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.command import command, manifest_of

STAGES = """
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import pyarrow as pa

from curate.core.exchange import VERDICT, Exchange, Reduce, Reducer, Send, Sent
from curate.core.stage import Columns, Map
from curate.engine import programs
from stages.ids import id_keys, id_words

# How much one unit reduces: a round of several units over a small corpus.
programs.PART_BYTES = int(os.environ.get("TEST_PART_BYTES", programs.PART_BYTES))


def wait_at(gate):
    while Path(gate).exists():
        Path(f"{gate}.{os.getpid()}").touch()
        time.sleep(0.01)


class Same(Map):
    reads: ClassVar = ("text",)

    @property
    def adds(self) -> Columns:
        return {"text": pa.large_string()}


@dataclass(frozen=True, kw_only=True)
class Abort(Same):
    def open(self):
        def check(batch):
            if "http://site/33" in batch.column("url").to_pylist():
                os.abort()
            return batch
        return check


@dataclass(frozen=True, kw_only=True)
class Buggy(Same):
    def open(self):
        return lambda batch: 1 / 0


@dataclass(frozen=True, kw_only=True)
class Wait(Same):
    gate: str

    def open(self):
        def wait(batch):
            wait_at(self.gate)
            return batch
        return wait


class SendIds(Send):
    name = "ids"
    columns: ClassVar = {"row": pa.uint32()}

    def open(self):
        def send(batch):
            keys = pa.array(id_keys(id_words(batch.column("id"))))
            columns = {"key": keys, "id": batch.column("id"), "row": batch.column("row")}
            return Sent(rows=pa.RecordBatch.from_pydict(columns))
        return send


@dataclass(frozen=True)
class HeldReducer(Reducer):
    gate: str

    def reduce(self, rows):
        wait_at(self.gate)
        rows = rows.filter(pa.array(rows.column("key").to_numpy() % np.uint64(7) == 0))
        none = pa.nulls(rows.num_rows, pa.binary(16))
        words = {name: pa.array([word] * rows.num_rows, pa.string())
                 for name, word in (("fate", "dropped"), ("reason", "seventh"))}
        return pa.table({"home": rows.column("home"), "id": rows.column("id"), **words,
                         "kept_id": none, "cluster": none})


@dataclass(frozen=True)
class ReduceHeld(Reduce):
    gate: str
    name, inputs, columns = "verdicts", ("ids",), VERDICT

    def open(self):
        return HeldReducer(self.gate)


@dataclass(frozen=True, kw_only=True)
class DropSeventh(Exchange):
    reads: ClassVar = ("id",)
    reasons: ClassVar = ("seventh",)
    gate: str

    def program(self):
        return SendIds(), ReduceHeld(self.gate)
"""


@pytest.fixture(scope="module")
def odd_stages(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A folder with the stages of this file."""
    folder = tmp_path_factory.mktemp("stages")
    (folder / "odd_stages.py").write_text(STAGES)
    return str(folder)


@pytest.fixture
def short_folder() -> Iterator[Path]:
    """A folder for Ray's files: the paths of its sockets may not be long."""
    folder = Path(tempfile.mkdtemp(prefix="ray-"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.parametrize("workers", [1, 2])
def test_the_number_of_workers_does_not_matter(
    workers: int, corpus: Any, undisturbed: dict[str, Any], curate: Any, tmp_path: Path
) -> None:
    file = corpus.pipeline(unit_bytes="128 KiB")
    done = curate("run", file, "--on", "ray", "--workers", workers, "--output", tmp_path / "out")
    assert manifest_of(tmp_path / "out") == undisturbed
    assert done.stdout == ""
    assert [line for line in done.stderr.splitlines() if not line.startswith("curate: ")] == []


def test_a_record_that_kills_its_process_is_quarantined_and_its_neighbors_are_kept(
    corpus: Any, undisturbed: dict[str, Any], odd_stages: str, curate: Any, tmp_path: Path
) -> None:
    file = corpus.pipeline(unit_bytes="128 KiB", web_steps="      - odd_stages.Abort\n")
    output = tmp_path / "out"
    done = curate("run", file, "--on", "ray", "--workers", 2, "--output", output, PYTHONPATH=odd_stages)
    records, expected = manifest_of(output)["records"], undisturbed["records"]
    assert records["in"] == expected["in"]
    assert records["quarantined"] == expected["quarantined"] + 1
    assert records["kept"] == expected["kept"] - 1
    assert sum(reasons.get("killed", 0) for reasons in manifest_of(output)["quarantined"].values()) == 1
    assert done.stdout == ""
    assert json.loads(curate("verify", output, "--json").stdout)["ok"]


class Marked:
    """A run of `curate` in a session of its own, with all processes that come from it."""

    def __init__(self, arguments: list[str], environment: dict[str, str]) -> None:
        self._mark = f"CURATE_TEST_RUN={secrets.token_hex(8)}"
        name, _, value = self._mark.partition("=")
        self.process = subprocess.Popen(
            arguments,
            env=os.environ | environment | {name: value},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def others(self) -> dict[int, str]:
        """The command lines of the processes that it started and that live, by id."""
        found = {}
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                is_ours = self._mark.encode() in (folder / "environ").read_bytes().split(b"\0")
                line = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode().strip()
            except OSError:  # gone, or another user's
                continue
            if is_ours and line and int(folder.name) != self.process.pid:
                found[int(folder.name)] = line
        return found

    def end(self) -> None:
        """Leave nothing behind."""
        self.process.kill()
        self.process.communicate()
        for pid in self.others():
            os.kill(pid, signal.SIGKILL)


def wait_for(condition: Callable[[], bool], seconds: float = 120) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "nothing happened"
        time.sleep(0.02)


def waiting_at(gate: Path) -> set[int]:
    """The processes that have a document in hand and wait."""
    return {int(path.suffix[1:]) for path in gate.parent.glob(f"{gate.name}.*")}


def listening_addresses(pids: Any) -> set[str]:
    """The addresses on which processes take TCP connections."""
    inodes = set()
    for pid in pids:
        for entry in Path(f"/proc/{pid}/fd").iterdir():
            target = os.readlink(entry) if entry.is_symlink() else ""
            inodes.add(target.removeprefix("socket:[").removesuffix("]"))
    found = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for fields in (line.split() for line in Path(table).read_text().splitlines()[1:]):
            if fields[3] == "0A" and fields[9] in inodes:  # LISTEN
                words = bytes.fromhex(fields[1].partition(":")[0])
                raw = b"".join(words[start : start + 4][::-1] for start in range(0, len(words), 4))
                found.add(socket.inet_ntop(socket.AF_INET if len(raw) == 4 else socket.AF_INET6, raw))
    return found


@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGKILL, -signal.SIGKILL)],
    ids=["SIGINT", "SIGTERM", "SIGKILL"],
)
def test_a_run_that_is_stopped_leaves_no_process_behind(
    number: signal.Signals, code: int, corpus: Any, odd_stages: str, short_folder: Path, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    gate.touch()
    file = corpus.pipeline(unit_bytes="128 KiB", web_steps=f"      - {{use: odd_stages.Wait, gate: {gate}}}\n")
    run = Marked(
        command("run", file, "--on", "ray", "--workers", 2, "--output", tmp_path / "out"),
        {"PYTHONPATH": odd_stages, "TMPDIR": str(short_folder)},
    )
    try:
        wait_for(lambda: len(waiting_at(gate)) == 2 or run.process.poll() is not None)
        assert listening_addresses([run.process.pid, *run.others()]) <= {"127.0.0.1", "::ffff:127.0.0.1"}
        if number == signal.SIGINT:
            os.killpg(run.process.pid, number)  # what a terminal does
        else:
            run.process.send_signal(number)
        _, errors = run.process.communicate(timeout=60)
        assert run.process.returncode == code, errors
        # Killed, Ray's two agents, which do no work, end on their own after a minute: they wait for its head that long.
        agents = ("ray::DashboardAgent", "ray::RuntimeEnvAgent") if number == signal.SIGKILL else ()
        wait_for(lambda: all(line.startswith(agents) for line in run.others().values()), 30)
        if number != signal.SIGKILL:
            assert errors.splitlines()[-1] == "curate: stopped; the same command goes on from here"
            assert "Traceback" not in errors
            assert list(short_folder.iterdir()) == []
    finally:
        run.end()


@dataclass
class Nodes:
    """A cluster (see ray_nodes.py) and what a process needs to join it."""

    process: "subprocess.Popen[str]"
    address: str
    environment: dict[str, str]

    def ask(self, what: str) -> list[int]:
        """`add` or `kill` a node; its process ids."""
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write(f"{what}\n")
        self.process.stdin.flush()
        return [int(word) for word in self.process.stdout.readline().split()]


@pytest.fixture(scope="module")
def nodes(odd_stages: str) -> Iterator[Nodes]:
    """A cluster of one node."""
    folder = tempfile.mkdtemp(prefix="ray-")
    environment = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32), "PYTHONPATH": odd_stages}
    script = Path(__file__).with_name("ray_nodes.py")
    with subprocess.Popen(
        [sys.executable, str(script), folder],
        env=os.environ | environment | {"PYTHONPATH": os.pathsep.join([odd_stages, str(script.parents[2])])},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdin and process.stdout
        yield Nodes(process, process.stdout.readline().strip(), environment)
        process.stdin.close()
    shutil.rmtree(folder, ignore_errors=True)


def test_a_node_that_comes_is_used_and_one_that_is_lost_does_no_harm(
    corpus: Any, nodes: Nodes, odd_stages: str, curate: Any, tmp_path: Path
) -> None:
    gate, step = tmp_path / "gate", "[stages.dedup.MinHashDedup]"
    steps = f"[stages.dedup.ExactDedup, {{use: odd_stages.Wait, gate: {gate}}}]"
    file = corpus.pipeline(unit_bytes="128 KiB", replace=(step, steps))
    curate("run", file, "--on", "local", "--workers", 1, "--output", tmp_path / "local", PYTHONPATH=odd_stages)
    gate.touch()  # held up where the verdicts of the exchange have come home
    run = Marked(command("run", file, "--on", nodes.address, "--output", tmp_path / "ray"), nodes.environment)
    try:
        wait_for(lambda: len(waiting_at(gate)) == 1 or run.process.poll() is not None)
        nodes.ask("add")
        wait_for(lambda: bool(waiting_at(gate) & set(nodes.ask("pids"))) or run.process.poll() is not None)
        nodes.ask("kill")
        gate.unlink()
        _, errors = run.process.communicate(timeout=120)
        assert run.process.returncode == 0, errors
        assert manifest_of(tmp_path / "ray") == manifest_of(tmp_path / "local")
    finally:
        run.end()


def test_a_node_is_lost_while_it_reduces_rows_of_an_exchange(
    corpus: Any, nodes: Nodes, odd_stages: str, curate: Any, tmp_path: Path
) -> None:
    """Both nodes hold a range of keys in hand when one of them dies."""
    gate = tmp_path / "gate"
    steps = f"[{{use: odd_stages.DropSeventh, gate: {gate}}}, stages.dedup.MinHashDedup]"
    file = corpus.pipeline(unit_bytes="128 KiB", replace=("[stages.dedup.MinHashDedup]", steps))
    curate("run", file, "--on", "local", "--workers", 1, "--output", tmp_path / "local", PYTHONPATH=odd_stages)
    gate.touch()
    environment = nodes.environment | {"TEST_PART_BYTES": "4000"}  # the run before reduced all in one unit
    run = Marked(command("run", file, "--on", nodes.address, "--output", tmp_path / "ray"), environment)
    try:
        wait_for(lambda: len(waiting_at(gate)) == 1 or run.process.poll() is not None)
        nodes.ask("add")
        wait_for(lambda: bool(waiting_at(gate) & set(nodes.ask("pids"))) or run.process.poll() is not None)
        assert len(waiting_at(gate)) == 2
        nodes.ask("kill")
        gate.unlink()
        _, errors = run.process.communicate(timeout=120)
        assert run.process.returncode == 0, errors
    finally:
        run.end()
    manifest = manifest_of(tmp_path / "ray")
    assert manifest == manifest_of(tmp_path / "local")
    assert manifest["drops"]["drop_seventh"]["seventh"] > 20
    seals = [json.loads(path.read_bytes()) for path in (tmp_path / "ray/work/seals").iterdir()]
    (parts,) = (len(seal["units"]) for seal in seals if seal["phase"] == "exchange.drop_seventh.verdicts")
    assert parts > 2


def test_workers_on_a_cluster_end_with_the_run_that_started_them(
    corpus: Any, nodes: Nodes, odd_stages: str, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    gate.touch()
    file = corpus.pipeline(unit_bytes="128 KiB", web_steps=f"      - {{use: odd_stages.Wait, gate: {gate}}}\n")
    run = Marked(command("run", file, "--on", nodes.address, "--output", tmp_path / "out"), nodes.environment)
    try:
        wait_for(lambda: bool(waiting_at(gate)) or run.process.poll() is not None)
        [worker] = waiting_at(gate)
        run.process.kill()
        wait_for(lambda: not Path(f"/proc/{worker}").exists())
    finally:
        run.end()


def test_an_error_of_a_stage_comes_back_as_itself(corpus: Any, nodes: Nodes, curate: Any, tmp_path: Path) -> None:
    file = corpus.pipeline(web_steps="      - odd_stages.Buggy\n")
    done = curate("run", file, "--on", nodes.address, "--output", tmp_path / "out", code=1, **nodes.environment)
    assert done.stderr.splitlines()[-1] == (
        "curate: step 'buggy' (odd_stages.Buggy): ZeroDivisionError: division by zero"
    )
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_a_node_with_another_version_of_a_library_is_refused(
    corpus: Any, nodes: Nodes, curate: Any, tmp_path: Path
) -> None:
    metadata = tmp_path / "zstandard-0.0.1.dist-info/METADATA"  # zstandard enters the key of ReadWarc
    metadata.parent.mkdir()
    metadata.write_text("Metadata-Version: 2.1\nName: zstandard\nVersion: 0.0.1\n")
    environment = nodes.environment | {"PYTHONPATH": str(tmp_path)}
    done = curate("run", corpus.pipeline(), "--on", nodes.address, "--output", tmp_path / "out", code=2, **environment)
    assert f"node {socket.gethostname()} has zstandard " in done.stderr
    assert "the driver 0.0.1; install the same versions on all nodes" in done.stderr


def test_a_node_without_the_modules_of_the_plan_is_refused(
    corpus: Any, nodes: Nodes, curate: Any, tmp_path: Path
) -> None:
    (tmp_path / "only_here.py").write_text(STAGES)
    file = corpus.pipeline(web_steps="      - only_here.Buggy\n")
    environment = nodes.environment | {"PYTHONPATH": str(tmp_path)}
    done = curate("run", file, "--on", nodes.address, "--output", tmp_path / "out", code=2, **environment)
    assert "a worker on Ray cannot open the plan: ModuleNotFoundError: No module named 'only_here'" in done.stderr


@pytest.mark.parametrize("address", ["127.0.0.1:1", "ray://127.0.0.1:1", "nonsense"])
def test_an_address_without_a_cluster_is_refused_at_once(
    address: str, corpus: Any, curate: Any, tmp_path: Path
) -> None:
    done = curate("run", corpus.pipeline(), "--on", address, "--output", tmp_path / "out", code=2)
    assert done.stderr.splitlines()[-1].startswith(f"cannot join the Ray cluster {address!r}: ")
