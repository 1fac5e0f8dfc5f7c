"""The dataset's files: the units of the phases `shards`, `unused` and `ledger`.

A lane, one (split, mix group), is a sequence of rows: those of its buckets in order, then those of
its tails. A split interleaves its lanes; shard s holds its places [s x per_shard, (s + 1) x per_shard).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from curate.engine.context import Context, outputs_of
from curate.engine.exchange import SortedRuns
from curate.engine.ledger import SPILL, SPILL_ORDER, rows_from_batch
from curate.engine.merge import read_keys
from curate.engine.mix import Allocation, groups_of, order
from curate.engine.pack import PIECES
from curate.engine.receipt import Artifact, Result, Written
from curate.engine.units import Unit
from manifests import layout

NARROW = ["id", "name", "source", "origin", "document_tokens"]  # what the ledger says of a packed document


def run_shard(context: Context, unit: Unit) -> Result:
    """Write one shard: rows, pieces of documents, piece starts."""
    spec, rows = unit.spec, context.plan.rows
    matrix, pieces = _gather(context, unit)
    starts = layout.encode_cu(
        pieces.column("row").to_numpy(), pieces.column("start").to_numpy(), len(matrix), rows.length
    )
    place = f"{spec['dataset'][:12]}/{spec['split']}/"
    number = f"{spec['shard']:05d}."
    data = layout.encode_rows(matrix, rows.dtype)
    artifacts = [
        Artifact(role="rows", data=data, rows=len(matrix), place=f"{place}rows-{number}"),
        Artifact(role="docs", data=layout.encode_parquet(pieces), rows=pieces.num_rows, place=f"{place}docs-{number}"),
        Artifact(role="cu", data=starts, rows=pieces.num_rows, place=f"{place}cu-{number}"),
    ]
    kept = pc.add(pieces.column("row").cast(pa.uint64()), pa.scalar(spec["first_row"], pa.uint64()))
    claims = _claims(pieces, "kept", split=pa.repeat(spec["split"], pieces.num_rows), row=kept)
    return Result(artifacts=[*artifacts, *claims], facts=_shard_facts(matrix, pieces, rows.bos_id, rows.eos_id))


def run_unused(context: Context, unit: Unit) -> Result:
    """Claim that documents were not needed, for each that has a piece in rows that the mix leaves out."""
    spec = unit.spec
    parts = _lane_parts(context, unit, spec["group"], spec["first_row"], spec["num_rows"])
    pieces = pa.concat_tables([_pieces(context, part) for part in parts]).combine_chunks()
    stage, reason = (pa.repeat(word, pieces.num_rows) for word in ("mix", "not_needed"))
    return Result(artifacts=_claims(pieces, "dropped", stage=stage, reason=reason), facts={"rows": spec["num_rows"]})


def _gather(context: Context, unit: Unit) -> tuple[NDArray[Any], pa.Table]:
    """The rows of a shard and their pieces, from the lanes, in the order of the mix."""
    spec, rows = unit.spec, context.plan.rows
    names = tuple(group.name for group in groups_of(context.plan))
    mix = Allocation(names, tuple(spec["available"]), tuple(spec["places"]))
    group, number = order(spec["split"], mix, spec["first_row"], spec["num_rows"])
    matrix = np.empty((spec["num_rows"], rows.length), rows.dtype)
    tables = []
    for index, name in enumerate(names):
        places = np.flatnonzero(group == index)
        for first, count, at in _stretches(number[places], mix.available[index]):
            for lane, pieces in lane_rows(context, unit, name, first, count):
                here = places[at : at + len(lane)]
                matrix[here] = lane
                row = pa.array(here[pieces.column("row").to_numpy()].astype(np.uint32))
                tables.append(pieces.set_column(0, PIECES.field("row"), row))
                at += len(lane)
    table = pa.concat_tables(tables).combine_chunks()
    return matrix, table.sort_by([("row", "ascending"), ("start", "ascending")]).combine_chunks()


def _stretches(numbers: NDArray[np.int64], available: int) -> Iterator[tuple[int, int, int]]:
    """Consecutive numbers, counted modulo `available`, as (first, count, position among `numbers`)."""
    position = 0
    while position < len(numbers):
        first = int(numbers[position]) % available
        count = min(available - first, len(numbers) - position)
        yield first, count, position
        position += count


@dataclass(frozen=True)
class LanePart:
    """Consecutive rows of a lane in one pair of files."""

    rows: dict[str, Any]  # outputs of a receipt
    pieces: dict[str, Any]
    low: int
    high: int


def _lane_parts(context: Context, unit: Unit, group: str, first: int, count: int) -> Iterator[LanePart]:
    """Where the rows [first, first + count) of a lane are."""
    lane = (unit.spec["split"], group)
    receipts = [one for seal in unit.seals for one in context.seal(seal)["units"]]
    receipts = [one for one in receipts if (one["spec"]["split"], one["spec"]["group"]) == lane]
    position = 0
    for rows, pieces in zip(outputs_of(receipts, "rows"), outputs_of(receipts, "pieces"), strict=True):
        low, high = max(first - position, 0), min(first + count - position, rows["rows"])
        if low < high:
            yield LanePart(rows, pieces, low, high)
        position += rows["rows"]


def lane_rows(
    context: Context, unit: Unit, group: str, first: int, count: int
) -> Iterator[tuple[NDArray[Any], pa.Table]]:
    """Rows [first, first + count) of a lane and their pieces, file after file; `row` counts within each answer."""
    rows = context.plan.rows
    row_bytes = rows.length * np.dtype(rows.dtype).itemsize
    for part in _lane_parts(context, unit, group, first, count):
        data = context.storage.read(part.rows["key"], part.low * row_bytes, (part.high - part.low) * row_bytes)
        yield layout.decode_rows(data, rows.dtype, rows.length), _pieces(context, part)


def _pieces(context: Context, part: LanePart) -> pa.Table:
    pieces = read_keys(context.storage, [part.pieces], PIECES, part.low, part.high, column="row")
    row = pc.subtract(pieces.column("row"), pa.scalar(part.low, pa.uint32()))
    return pieces.set_column(0, PIECES.field("row"), row)


def _claims(pieces: pa.Table, fate: str, **columns: pa.Array) -> list[Artifact | Written]:
    """Ledger rows of all documents with a piece here; the ledger keeps the best of each document."""
    ledger = SortedRuns("ledger", SPILL, SPILL_ORDER)
    table = pieces.select(NARROW)
    for name, column in (columns | {"position": pieces.column("token_offset")}).items():
        table = table.append_column(f"claim {name}", column)
    for batch in table.combine_chunks().to_batches():
        values = {name: batch.column(f"claim {name}") for name in (*columns, "position")}
        ledger.add(rows_from_batch(batch.select(NARROW), fate, **values))
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
    filled = pc.fill_null(pieces.column(column), layout.UNKNOWN_LICENSE)
    table = pa.table({column: filled, "length": pieces.column("length")})
    sums = table.group_by(column).aggregate([("length", "sum")]).to_pylist()
    return {item[column]: item["length_sum"] for item in sums}
