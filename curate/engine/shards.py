"""The dataset's files: the units of the phases `shards` and `ledger`.

A split is one sequence of rows: those of its buckets in order, then those of its tails. Shard s
holds the positions [s x per_shard, (s + 1) x per_shard). The ledger is cut by ranges of ids.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from curate.engine.context import Context
from curate.engine.exchange import SortedRuns, range_of, read_keys
from curate.engine.ledger import LEDGER, SPILL, SPILL_ORDER, id_bytes, rows_from_batch
from curate.engine.pack import PIECES
from curate.engine.receipt import Artifact, Result
from curate.engine.units import Unit
from manifests import layout


def run_shard(context: Context, unit: Unit) -> Result:
    """Write one shard: rows, pieces of documents, piece starts."""
    spec, rows = unit.spec, context.plan.rows
    parts = list(_segments(context, unit.seals, spec["first_row"], spec["num_rows"]))
    matrix = np.concatenate([part[0] for part in parts])
    pieces = pa.concat_tables([part[1] for part in parts]).combine_chunks()
    starts = pieces.column("start").to_numpy()
    starts_of_rows = layout.encode_cu(pieces.column("row").to_numpy(), starts, len(matrix), rows.length)
    place = f"{spec['dataset'][:12]}/{spec['split']}/"
    number = f"{spec['shard']:05d}."
    artifacts = [
        Artifact(
            role="rows", data=layout.encode_rows(matrix, rows.dtype), rows=len(matrix), place=f"{place}rows-{number}"
        ),
        Artifact(role="docs", data=layout.encode_parquet(pieces), rows=pieces.num_rows, place=f"{place}docs-{number}"),
        Artifact(role="cu", data=starts_of_rows, rows=pieces.num_rows, place=f"{place}cu-{number}"),
    ]
    kept = _kept_rows(pieces, spec["split"], spec["first_row"])
    return Result(artifacts=artifacts + kept, facts=_shard_facts(matrix, pieces, rows.bos_id, rows.eos_id))


def _segments(
    context: Context, seals: Iterable[str], first: int, num_rows: int
) -> Iterator[tuple[NDArray[Any], pa.Table]]:
    """The rows [first, first + num_rows) of the sequence, and their pieces, file after file.

    The `row` of the pieces is counted from `first`.
    """
    rows = context.plan.rows
    row_bytes = rows.length * np.dtype(rows.dtype).itemsize
    files = zip(context.outputs(seals, "rows"), context.outputs(seals, "pieces"), strict=True)
    position = 0
    for row_file, piece_file in files:
        low, high = max(first - position, 0), min(first + num_rows - position, row_file["rows"])
        if low < high:
            data = context.storage.read(row_file["key"], low * row_bytes, (high - low) * row_bytes)
            pieces = read_keys(context.storage, [piece_file["key"]], PIECES, low, high, column="row")
            row = pc.add(pieces.column("row").cast(pa.int64()), position - first).cast(pa.uint32())
            yield (
                np.frombuffer(data, rows.dtype).reshape(-1, rows.length),
                pieces.set_column(0, PIECES.field("row"), row),
            )
        position += row_file["rows"]


def _kept_rows(pieces: pa.Table, split: str, first_row: int) -> list[Artifact]:
    """Ledger rows of the documents that begin in this shard."""
    begin = pieces.filter(pc.equal(pieces.column("token_offset"), 0))
    ledger = SortedRuns("ledger", SPILL, SPILL_ORDER)
    for batch in begin.select(["id", "name", "source", "origin", "row", "document_tokens"]).to_batches():
        row = pc.add(batch.column("row").cast(pa.uint64()), pa.scalar(first_row, pa.uint64()))
        ledger.add(rows_from_batch(batch.drop_columns(["row"]), "kept", split=split, row=row))
    return ledger.finish()


def _shard_facts(matrix: NDArray[Any], pieces: pa.Table, bos_id: int, eos_id: int) -> dict[str, Any]:
    return {
        "num_rows": len(matrix),
        "tokens": int(matrix.size),
        "pieces": pieces.num_rows,
        "documents": pc.sum(pc.equal(pieces.column("token_offset"), 0).cast(pa.int64())).as_py() or 0,
        "bos": int((matrix == bos_id).sum()),
        "eos": int((matrix == eos_id).sum()),
        "max_id": int(matrix.max(initial=0)),
        "rows_by_group": _count_rows(pieces),
        "tokens_by_source": _sum_tokens(pieces, "source"),
        "tokens_by_license": _sum_tokens(pieces, "license"),
        "logical": layout.logical_digest(pieces).hex(),
    }


def _count_rows(pieces: pa.Table) -> dict[str, int]:
    """Rows by mix group; a row holds one group only, so its first piece tells."""
    begin = pieces.filter(pc.equal(pieces.column("start"), 0))
    counts = pc.value_counts(begin.column("group")).to_pylist()
    return {item["values"]: item["counts"] for item in counts}


def _sum_tokens(pieces: pa.Table, column: str) -> dict[str, int]:
    """Tokens by a column's value; null counts as unknown."""
    filled = pa.table(
        {column: pc.fill_null(pieces.column(column), layout.UNKNOWN_LICENSE), "length": pieces.column("length")}
    )
    sums = filled.group_by(column).aggregate([("length", "sum")]).to_pylist()
    return {item[column]: item["length_sum"] for item in sums}


def run_ledger(context: Context, unit: Unit) -> Result:
    """Write one part of the ledger: all rows of a range of ids, one row for each kept document."""
    spec = unit.spec
    low, high = range_of(spec["part"], spec["parts"])
    files = [output["key"] for output in context.outputs(unit.seals, "ledger")]
    table = read_keys(context.storage, files, SPILL, low, high)
    order = pc.sort_indices(table.select(SPILL_ORDER), sort_keys=[(name, "ascending") for name in SPILL_ORDER])
    table = table.take(order).combine_chunks().drop_columns(["key"]).cast(LEDGER)
    ids = id_bytes(table.column("id"))
    place = f"{spec['dataset'][:12]}/ledger/part-{spec['part']:05d}."
    artifact = Artifact(
        role="ledger", data=layout.encode_parquet(table), rows=table.num_rows, suffix=".parquet", place=place
    )
    bounds = {"first_id": ids[0].tobytes().hex(), "last_id": ids[-1].tobytes().hex()} if len(ids) else {}
    kept = table.filter(pc.equal(table.column("fate"), "kept"))
    facts = {"rows": table.num_rows, "fates": _fates(table), "kept_ids": _num_distinct(kept)}
    return Result(artifacts=[artifact], facts=facts | bounds)


def _fates(table: pa.Table) -> dict[str, dict[str, int]]:
    """Rows by source and fate."""
    counts: dict[str, dict[str, int]] = {}
    for item in table.group_by(["source", "fate"]).aggregate([("id", "count")]).to_pylist():
        counts.setdefault(item["source"], {})[item["fate"]] = item["id_count"]
    return counts


def _num_distinct(table: pa.Table) -> int:
    ids = id_bytes(table.column("id"))
    return int((ids[1:] != ids[:-1]).any(axis=1).sum()) + 1 if len(ids) else 0
