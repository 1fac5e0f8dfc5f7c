"""How many pairs a second become (id, kept id), and does the cost of a document grow with their number?

Synthetic corpora of 200,000, 2 million and 20 million documents with ids of 128 bits: half of the documents are alone,
the others in clusters of 2 to 50, each paired with a few of those before it. The compiled way takes all pairs at once;
what is timed begins with the rows as they lie sorted, and ends with a verdict a document. The rounds of exchange are
run in memory up to 2 million, with the same answer. Each corpus has a process of its own, whose peak is reported.
"""

import multiprocessing
import time
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks import Figures
from benchmarks.exchange import peak_bytes
from curate.core.exchange import Reduce
from curate.engine.exchange import sort
from stages.clusters import COMPONENTS, LINK_ORDER, AtOnceReducer, ReduceMembers, ReduceVerdicts
from stages.ids import Words, id_array, id_keys
from stages.verification import LINK, SIMILAR

SIZES = (200_000, 2_000_000, 20_000_000)
MOST_IN_ROUNDS = 2_000_000
PAIRS_PER_DOCUMENT = 2  # of those in a cluster
MEMORY_GIB = 12
REDUCED_ROWS = 1 << 16


def measure() -> Figures:
    """Seconds, bytes and pairs of each size."""
    figures: dict[str, Any] = {}
    spawn = multiprocessing.get_context("spawn")
    for size in SIZES:
        ours, theirs = spawn.Pipe()
        worker = spawn.Process(target=_work, args=(size, theirs))
        worker.start()
        theirs.close()
        figures |= {f"{name}_{size}": value for name, value in ours.recv().items()}
        worker.join()
    figures["edges_per_second"] = min(figures[f"edges_per_second_{size}"] for size in SIZES)
    largest, smallest = SIZES[-1], SIZES[0]
    growth = figures[f"microseconds_per_document_{largest}"] / figures[f"microseconds_per_document_{smallest}"]
    figures["cost_per_document_ratio"] = round(growth, 2)
    figures["peak_gib"] = figures[f"peak_gib_{largest}"]
    return figures


def _work(size: int, answer: Connection) -> None:
    rows, num_edges = synthetic(size)
    start = time.process_time()
    reducer = AtOnceReducer()
    for first in range(0, rows.num_rows, REDUCED_ROWS):
        reducer.reduce(rows.slice(first, REDUCED_ROWS))
    verdicts = reducer.finish()
    seconds = time.process_time() - start
    if verdicts is None:
        raise ValueError("no verdicts")
    found = {
        "edges": num_edges,
        "removed": verdicts.num_rows - verdicts.column("kept_id").null_count,
        "edges_per_second": round(num_edges / seconds),
        "microseconds_per_document": round(seconds / size * 1e6, 3),
        "peak_gib": round(peak_bytes() / 2**30, 2),
    }
    if size <= MOST_IN_ROUNDS:
        start = time.process_time()
        in_rounds = rounds(rows)
        found["edges_per_second_in_rounds"] = round(num_edges / (time.process_time() - start))
        found["same_answer"] = in_rounds.sort_by("home").equals(verdicts.select(in_rounds.column_names).sort_by("home"))
    answer.send(found)


def synthetic(size: int) -> tuple[pa.Table, int]:
    """Rows of pairs, sorted as the exchange sorts them, and the number of pairs."""
    rng = np.random.default_rng(1)
    ids = rng.integers(0, 1 << 63, (size, 2), np.uint64)
    lengths = rng.integers(2, 51, size // 40)
    starts = np.cumsum(lengths) - lengths
    lengths, starts = lengths[starts + lengths <= size // 2], starts[starts + lengths <= size // 2]
    place = np.arange(int(lengths.sum())) - np.repeat(starts, lengths)  # within the cluster
    later = np.repeat(np.flatnonzero(place > 0), PAIRS_PER_DOCUMENT)
    earlier = later - 1 - (rng.random(len(later)) * place[later]).astype(np.int64)
    pairs = np.unique(later * size + earlier)
    later, earlier = pairs // size, pairs % size
    return sort(edge_rows(ids, later, earlier), LINK_ORDER), len(later)


def edge_rows(ids: Words, later: Any, earlier: Any) -> pa.Table:
    """Two rows a pair; the preference of a document is its place."""
    ends, others = np.concatenate([later, earlier]), np.concatenate([earlier, later])
    columns = {
        "key": pa.array(id_keys(ids[ends])),
        "id": id_array(ids[ends]),
        "other": id_array(ids[others]),
        "relation": pa.array(np.repeat(np.array([SIMILAR, LINK], np.uint8), len(later))),
        "preference": pa.array(ends.astype(np.uint64)),
        "home": pa.array(ends.astype(np.uint64)),
    }
    return pa.table(columns)


def rounds(rows: pa.Table) -> pa.Table:
    """What the rounds of the exchange make of the rows, with sorts in memory."""
    edges, turn = rows, rows
    while True:
        num_changed = 0
        for step in COMPONENTS.steps:
            turn, changed = _reduced(step, turn)
            num_changed += changed
        if not num_changed:
            break
    members, _ = _reduced(ReduceMembers(), pa.concat_tables([edges.select(turn.column_names), turn]))
    return _reduced(ReduceVerdicts(), members)[0]


def _reduced(step: Reduce, rows: pa.Table) -> tuple[pa.Table, int]:
    reducer, rows = step.open(), sort(rows, step.order)
    pieces = [reducer.reduce(rows.slice(first, REDUCED_ROWS)) for first in range(0, rows.num_rows, REDUCED_ROWS)]
    rest = reducer.finish()
    return pa.concat_tables([*pieces, *([] if rest is None else [rest])]), reducer.num_changed


def lines(figures: Figures) -> list[str]:
    """The figures for people."""
    text = [
        f"{figures['edges_per_second']:,} pairs a second on one core, to a verdict for each document",
        f"{figures['peak_gib']} GiB at most for {SIZES[-1]:,} documents (budget {MEMORY_GIB}); a document costs "
        f"{figures['cost_per_document_ratio']} times what it costs among {SIZES[0]:,}",
    ]
    for size in SIZES:
        cost = figures[f"microseconds_per_document_{size}"]
        text.append(f"{size:,} documents, {figures[f'edges_{size}']:,} pairs: {cost} microseconds a document")
        if size <= MOST_IN_ROUNDS:
            per_second = figures[f"edges_per_second_in_rounds_{size}"]
            text.append(f"  in rounds {per_second:,} pairs a second, same answer: {figures[f'same_answer_{size}']}")
    return text
