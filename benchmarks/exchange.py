"""What does an exchange of 2 GB of narrow rows take, with 128 MB for merging: memory, requests, bytes?

One worker with `memory_per_worker: 512 MiB` (a quarter of it is the limit of a merge) sends 45 M rows of 48 bytes from
24 homes, sorts, reduces and sends verdicts home, through the engine itself; its storage counts. The budget of the
design: a worker under 500 MB, at most 300 requests a GB, each byte written and read at most twice.
"""

import json
import multiprocessing
import os
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from benchmarks import Figures
from curate.core.exchange import VERDICT, Exchange, Reduce, Reducer, Send, Sent
from curate.core.stage import Columns
from curate.core.storage import ObjectFile, Storage, Stored
from curate.engine.context import Context, outputs_of
from curate.engine.local import InProcess
from curate.engine.output import claim
from curate.engine.progress import Progress
from curate.engine.receipt import Receipt
from curate.engine.runner import Run
from curate.engine.units import Unit, record_units
from curate.plan.build import build
from stages.ids import id_array, id_keys, id_words

NUM_HOMES = 24
DOCUMENTS_PER_HOME = 18_700
ROWS_PER_DOCUMENT = 100
ROW_BYTES = 48
PHASES = ("documents.notes.identity", "exchange.meet.verdicts", "documents.notes.meet")  # send, reduce, apply verdicts
GB = 1e9
TOKENIZER = Path(__file__).parents[1] / "examples/quickstart/tokenizer/tokenizer.model"

PIPELINE = """\
curate: 1
name: exchange
documents:
  notes:
    read: {{use: stages.jsonl.ReadJsonl, paths: "*.jsonl", id: id, text: text}}
    steps: [benchmarks.exchange.Meet]
dataset: {{from: notes, tokenizer: {{model: {tokenizer}}}}}
run: {{unit_bytes: 900 KiB, memory_per_worker: 512 MiB}}
"""


class SendNumbers(Send):
    """ROWS_PER_DOCUMENT rows a document, with well spread keys."""

    name = "numbers"
    columns: ClassVar[Columns] = {"row": pa.uint32(), "number": pa.uint32(), "digest": pa.binary(16)}

    def open(self) -> Callable[[pa.RecordBatch], Sent]:
        """See Send."""

        def send(batch: pa.RecordBatch) -> Sent:
            ids = np.repeat(id_words(batch.column("id")), ROWS_PER_DOCUMENT, axis=0)
            numbers = np.tile(np.arange(ROWS_PER_DOCUMENT, dtype=np.uint32), batch.num_rows)
            digest = ids * np.uint64(0x9E3779B97F4A7C15) + numbers[:, None]
            columns = {"key": pa.array(id_keys(digest)), "id": id_array(ids), "number": pa.array(numbers)}
            columns |= {"row": pa.array(np.repeat(batch.column("row").to_numpy(), ROWS_PER_DOCUMENT))}
            return Sent(rows=pa.RecordBatch.from_pydict(columns | {"digest": id_array(digest)}))

        return send


class NumbersReducer(Reducer):
    """Checks that keys ascend; drops one document in sixteen."""

    def __init__(self) -> None:
        self._last = 0

    def reduce(self, rows: pa.Table) -> pa.Table:
        """See Reducer."""
        keys = rows.column("key").to_numpy()
        if int(keys[0]) < self._last or (keys[1:] < keys[:-1]).any():
            raise ValueError("keys descend")
        self._last = int(keys[-1])
        gone = rows.filter(pa.array((rows.column("number").to_numpy() == 0) & (keys >> np.uint64(60) == 0)))
        none = pa.nulls(gone.num_rows, pa.binary(16))
        words = {name: pa.repeat(word, gone.num_rows) for name, word in (("fate", "dropped"), ("reason", "first"))}
        return pa.table(
            {"home": gone.column("home"), "id": gone.column("id"), **words, "kept_id": none, "cluster": none}
        )


class ReduceNumbers(Reduce):
    """See NumbersReducer."""

    name = "verdicts"
    inputs = ("numbers",)
    columns: ClassVar[Columns] = VERDICT

    def open(self) -> Reducer:
        """See Reduce."""
        return NumbersReducer()


@dataclass(frozen=True, kw_only=True)
class Meet(Exchange):
    """The exchange that is measured."""

    reads: ClassVar[tuple[str, ...]] = ("id",)
    reasons: ClassVar[tuple[str, ...]] = ("first",)

    def program(self) -> tuple[Send | Reduce, ...]:
        """See Exchange."""
        return SendNumbers(), ReduceNumbers()


class CountingStorage(Storage):
    """Counts requests and bytes by (what is done, key, phase of the unit that does it)."""

    def __init__(self, inner: Storage) -> None:
        self.url = inner.url
        self.phase = "driver"
        self.requests: Counter[tuple[str, str, str]] = Counter()
        self.bytes: Counter[tuple[str, str, str]] = Counter()
        self._inner = inner

    def _count(self, what: str, key: str, num_bytes: int) -> None:
        self.requests[what, key, self.phase] += 1
        self.bytes[what, key, self.phase] += num_bytes

    def list(self, prefix: str = "") -> Iterator[Stored]:
        """See Storage."""
        self._count("list", prefix, 0)
        return self._inner.list(prefix)

    def stat(self, key: str) -> Stored | None:
        """See Storage."""
        self._count("stat", key, 0)
        return self._inner.stat(key)

    def read(self, key: str, offset: int = 0, length: int | None = None) -> bytes:
        """See Storage."""
        data = self._inner.read(key, offset, length)
        self._count("read", key, len(data))
        return data

    def open(self, key: str, size: int | None = None, tag: str | None = None) -> ObjectFile:
        """See Storage."""
        self._count("open", key, 0)
        return self._inner.open(key, size, tag)

    def put(self, key: str, data: bytes | memoryview) -> bool:
        """See Storage."""
        self._count("put", key, len(data))
        return self._inner.put(key, data)

    def swap(self, key: str, data: bytes, expected: str | None) -> bool:
        """See Storage."""
        self._count("swap", key, len(data))
        return self._inner.swap(key, data, expected)

    def delete(self, key: str) -> None:
        """See Storage."""
        self._inner.delete(key)


class Labelled:
    """An executor that tells the storage whose requests it sees."""

    def __init__(self, context: Context, storage: CountingStorage) -> None:
        self._inner = InProcess(context)
        self._storage = storage
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self.peak_bytes: dict[str, int] = {}

    def execute(self, units: Iterable[Unit]) -> Iterator[Receipt]:
        """See Executor."""
        for unit in units:
            self._storage.phase = unit.phase
            forget_peak()
            start = time.perf_counter()
            (receipt,) = self._inner.execute([unit])
            self.seconds[unit.phase] += time.perf_counter() - start
            self.peak_bytes[unit.phase] = max(self.peak_bytes.get(unit.phase, 0), peak_bytes())
            self._storage.phase = "driver"
            yield receipt


def forget_peak() -> None:
    """Let the peak of this process's memory begin at what it is now (Linux)."""
    Path("/proc/self/clear_refs").write_text("5")


def peak_bytes() -> int:
    """The most memory that this process has held since."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) << 10


def measure() -> Figures:
    """Rows, bytes, requests and the peak of memory of one process that does it all."""
    spawn = multiprocessing.get_context("spawn")
    ours, theirs = spawn.Pipe()
    with tempfile.TemporaryDirectory() as folder:
        _write_inputs(Path(folder))
        worker = spawn.Process(target=_work, args=(folder, theirs))
        worker.start()
        theirs.close()
        figures: Figures = ours.recv()
        worker.join()
    return figures


def lines(figures: Figures) -> list[str]:
    """The figures for people."""
    return [
        f"{figures['requests_per_gb']} requests a GB (budget 300), {figures['peak_mb']} MB at most in the worker "
        f"(budget 500)",
        f"{figures['rows']:,} rows: {figures['row_gb']} GB in memory, {figures['spilled_gb']} GB when written; "
        f"written {figures['times_written']} times, read {figures['times_read']} times (budget 2)",
        f"{figures['seconds_sending']} s to send, {figures['seconds_reducing']} s to merge and reduce, one process",
    ]


def _write_inputs(folder: Path) -> None:
    (folder / "pipeline.yaml").write_text(PIPELINE.format(tokenizer=TOKENIZER))
    for home in range(NUM_HOMES):
        numbers = range(home * DOCUMENTS_PER_HOME, (home + 1) * DOCUMENTS_PER_HOME)
        notes = [json.dumps({"id": f"n{number}", "text": f"note {number}"}) for number in numbers]
        (folder / f"{home:02d}.jsonl").write_text("\n".join(notes))


def _work(folder: str, answer: Connection) -> None:
    plan = build(f"{folder}/pipeline.yaml", f"{folder}/out")
    context = Context(plan)
    storage = CountingStorage(context.storage)
    context.storage = storage
    claim(storage, plan, replace=False)
    units = {source.name: record_units(storage, plan, source, None) for source in plan.sources}
    executor = Labelled(context, storage)
    with open(os.devnull, "w", encoding="utf-8") as nowhere, Progress(plan, storage, nowhere) as progress:
        Run(context, executor, progress).finish(units)
    answer.send(_figures(context, storage, executor))


def _figures(context: Context, storage: CountingStorage, executor: Labelled) -> Figures:
    seals = [context.seal(stored.key.split("/")[-1][:-5]) for stored in storage.list("work/seals/")]
    receipts = [receipt for seal in seals for receipt in seal["units"]]
    sent = outputs_of(receipts, "rows:meet:numbers")
    spilled = [
        output for output in sent if any(output in receipt["outputs"] for receipt in receipts if _sends(receipt))
    ]
    narrow = {output["key"] for receipt in receipts for output in receipt["outputs"] if "rows:meet:" in output["role"]}

    def total(counts: Counter[tuple[str, str, str]], *what: str) -> int:
        mine = (n for (did, key, phase), n in counts.items() if did in what and _is_ours(key, phase, narrow))
        return sum(mine)

    num_bytes = sum(output["bytes"] for output in spilled)
    num_rows = sum(output["rows"] for output in spilled)
    seconds, peaks = executor.seconds, executor.peak_bytes
    requests = total(storage.requests, "list", "stat", "read", "open", "put", "swap")
    return {
        "requests_per_gb": round(requests / (num_bytes / GB)),
        "peak_mb": round(max(peaks[phase] for phase in peaks if phase in PHASES) / 1e6),
        "requests": requests,
        "requests_of_the_whole_run": storage.requests.total(),
        "rows": num_rows,
        "row_gb": round(num_rows * ROW_BYTES / GB, 2),
        "spilled_gb": round(num_bytes / GB, 2),
        "times_written": round(total(storage.bytes, "put") / num_bytes, 2),
        "times_read": round(total(storage.bytes, "read") / num_bytes, 2),
        "seconds_sending": round(seconds[PHASES[0]]),
        "seconds_reducing": round(seconds[PHASES[1]]),
        "phases": {phase: [round(seconds[phase], 1), round(peaks[phase] / 1e6)] for phase in peaks},  # seconds, MB
    }


def _sends(receipt: dict[str, Any]) -> bool:
    return str(receipt["phase"]).startswith("documents.")


def _is_ours(key: str, phase: str, narrow: set[str]) -> bool:
    """Whether a request belongs to the exchange: its rows, wherever they go, and all that its rounds do."""
    return key in narrow or phase.startswith("exchange.meet")
