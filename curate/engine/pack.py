"""From documents in hash order to full rows: the units of the phases `pack` and `tails`.

Documents of one (split, group) are cut into buckets by their order key. Each bucket is sorted,
packed alone, and its rows are put in the order of a hash of their first piece. What fills no row
is its tail; the tails are joined in bucket order and packed last. What then fills no row is dropped.
"""

import importlib
import io
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from curate.core.hashing import order_key
from curate.engine.context import Context, outputs_of
from curate.engine.exchange import SortedRuns, parquet, range_of, sorted_file
from curate.engine.identity import ID_CONFLICT, SAME_RECORD, judge, place_columns
from curate.engine.ledger import SPILL, SPILL_ORDER, id_bytes, rows_from_batch
from curate.engine.merge import read_keys
from curate.engine.receipt import Artifact, Result, Written
from curate.engine.sinks import document_schema, lane_role
from curate.engine.units import Unit
from manifests.layout import docs_schema

PIECES = docs_schema()


@dataclass(frozen=True, kw_only=True)
class Queue:
    """Documents, or pieces of them, in the order in which they are packed."""

    table: pa.Table  # the columns of PIECES but row, start and length
    tokens: NDArray[Any]  # all of them, one after the other
    lengths: NDArray[np.int64]  # tokens of each line of `table`


def run_pack(context: Context, unit: Unit) -> Result:
    """Pack one bucket."""
    spec = unit.spec
    low, high = range_of(spec["bucket"], spec["buckets"])
    files = context.outputs(unit.seals, lane_role(spec["split"], spec["group"]))
    table = read_keys(context.storage, files, document_schema(context.plan), low, high)
    table = table.take(_origin_order(context, table)).combine_chunks()
    table, duplicates, facts = _one_of_each_id(table)
    queue = _queue_of_documents(table, spec["group"])
    artifacts, tail, packed_facts = _pack(context, queue, spec["group"])
    artifacts.append(
        Artifact(role="tail", data=parquet(_tail_table(queue, tail)), rows=len(tail[0]), suffix=".parquet")
    )
    return Result(artifacts=[*artifacts, *duplicates], facts=facts | packed_facts)


def run_tails(context: Context, unit: Unit) -> Result:
    """Pack the tails of all buckets of one (split, group); drop and count what fills no row."""
    lane = (unit.spec["split"], unit.spec["group"])
    receipts = [one for seal in unit.seals for one in context.seal(seal)["units"]]
    receipts = [one for one in receipts if (one["spec"]["split"], one["spec"]["group"]) == lane]
    files = [output["key"] for output in outputs_of(receipts, "tail")]
    tables = [pq.read_table(io.BytesIO(context.storage.read(key))) for key in files]
    table = pa.concat_tables(tables).combine_chunks()
    lengths = pc.list_value_length(table.column("tokens")).to_numpy().astype(np.int64)
    tokens = _flat(table)
    queue = Queue(table=table.drop_columns(["tokens"]), tokens=tokens, lengths=lengths)
    artifacts, tail, facts = _pack(context, queue, unit.spec["group"])
    rest = _tail_table(queue, tail)
    whole = rest.filter(pc.equal(rest.column("token_offset"), 0))
    ledger = SortedRuns("ledger", SPILL, SPILL_ORDER)
    for batch in whole.select(["id", "name", "source", "origin", "document_tokens"]).to_batches():
        ledger.add(rows_from_batch(batch, "dropped", stage="pack", reason=pa.repeat("tail", batch.num_rows)))
    facts["tail_tokens"] = int(tail[2].sum())
    return Result(artifacts=[*artifacts, *ledger.finish()], facts=facts)


def _origin_order(context: Context, table: pa.Table) -> pa.Array:
    """Row numbers sorted by (key, id), equal ids by where they lie."""
    ranks = pc.index_in(table.column("source"), value_set=pa.array(list(context.source_ranks), pa.string()))
    places = place_columns({"rank": ranks, "origin": table.column("origin")})
    columns = pa.table({"key": table.column("key"), "id": table.column("id")} | places)
    return pc.sort_indices(columns, sort_keys=[(name, "ascending") for name in columns.schema.names])


def _one_of_each_id(table: pa.Table) -> tuple[pa.Table, list[Artifact | Written], dict[str, Any]]:
    """The first record of each id. Equal bytes again are merged into it, other bytes are quarantined."""
    ids = id_bytes(table.column("id"))
    is_same, is_conflict = judge(ids, id_bytes(table.column("record_hash")))
    is_first = ~(is_same | is_conflict)
    lengths = pc.list_value_length(table.column("tokens")).to_numpy()
    ledger = SortedRuns("ledger", SPILL, SPILL_ORDER)
    narrow = table.select(["id", "name", "source", "origin"])
    for fate, mask, reason in (("merged", is_same, SAME_RECORD), ("quarantined", is_conflict, ID_CONFLICT)):
        for batch in narrow.filter(pa.array(mask)).to_batches():
            kept = {"kept_id": batch.column("id")} if fate == "merged" else {}
            reasons = pa.repeat(reason, batch.num_rows)
            ledger.add(rows_from_batch(batch, fate, stage="identity", reason=reasons, **kept))
    facts = {
        "in": len(ids),
        "documents": int(is_first.sum()),
        "merged": {"identity": {SAME_RECORD: int(is_same.sum())}} if is_same.any() else {},
        "quarantined": {"identity": {ID_CONFLICT: int(is_conflict.sum())}} if is_conflict.any() else {},
        "merged_tokens": int(lengths[is_same].sum()),
        "quarantined_tokens": int(lengths[is_conflict].sum()),
        "conflict_sources": _count(narrow.filter(pa.array(is_conflict)).column("source")),
        "merged_sources": _count(narrow.filter(pa.array(is_same)).column("source")),
    }
    return table.filter(pa.array(is_first)).combine_chunks(), ledger.finish(), facts


def _count(column: pa.ChunkedArray) -> dict[str, int]:
    return {item["values"]: item["counts"] for item in pc.value_counts(column).to_pylist()}


def _queue_of_documents(table: pa.Table, group: str) -> Queue:
    lengths = pc.list_value_length(table.column("tokens")).to_numpy().astype(np.int64)
    added = {
        "token_offset": pa.array(np.zeros(len(lengths), np.uint64)),
        "document_tokens": pa.array(lengths.astype(np.uint64)),
        "group": pa.repeat(group, len(lengths)),
    }
    columns = {name: table.column(name) for name in PIECES.names if name in table.schema.names} | added
    return Queue(table=pa.table(columns), tokens=_flat(table), lengths=lengths)


def _flat(table: pa.Table) -> NDArray[Any]:
    """All tokens of a table's `tokens`, one array."""
    column = table.column("tokens").combine_chunks()
    if isinstance(column, pa.ChunkedArray):
        column = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
    tokens: NDArray[Any] = column.flatten().to_numpy(zero_copy_only=False)
    return tokens


Tail = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]  # line of the queue, offset in it, length


def _pack(context: Context, queue: Queue, group: str) -> tuple[list[Artifact], Tail, dict[str, Any]]:
    """Rows and pieces of a queue, in the order of the rows' hashes, and what is left."""
    rows = context.plan.rows
    module, _, name = rows.packing.rpartition(".")
    packed = getattr(importlib.import_module(module), name)().pack(queue.lengths, rows.length)
    begins = np.concatenate([[0], np.cumsum(queue.lengths)])[:-1]
    ids = id_bytes(queue.table.column("id"))
    offsets = queue.table.column("token_offset").to_numpy().astype(np.int64)
    place = _row_places(context.plan.seed, packed, ids, offsets)
    matrix = np.empty((packed.num_rows, rows.length), dtype=rows.dtype)
    sources = begins[packed.doc] + packed.offset
    for row, start, length, source in zip(
        place[packed.row].tolist(), packed.start.tolist(), packed.length.tolist(), sources.tolist(), strict=True
    ):
        matrix[row, start : start + length] = queue.tokens[source : source + length]
    pieces = queue.table.take(pa.array(packed.doc))
    columns = {
        "row": pa.array(place[packed.row].astype(np.uint32)),
        "start": pa.array(packed.start.astype(np.uint32)),
        "length": pa.array(packed.length.astype(np.uint32)),
        "token_offset": pa.array((offsets[packed.doc] + packed.offset).astype(np.uint64)),
    }
    columns = {
        name: columns.get(name, pieces.column(name) if name in pieces.schema.names else None) for name in PIECES.names
    }
    table = pa.table(columns).cast(PIECES).sort_by([("row", "ascending"), ("start", "ascending")])
    artifacts = [
        Artifact(role="rows", data=matrix.ravel().view(np.uint8).data, rows=packed.num_rows, suffix=".rows"),
        sorted_file("pieces", table),
    ]
    return artifacts, (packed.tail_doc, packed.tail_offset, packed.tail_length), {"rows": packed.num_rows}


def _row_places(seed: int, packed: Any, ids: NDArray[np.uint8], offsets: NDArray[np.int64]) -> NDArray[np.int64]:
    """Where each row goes: rows sorted by a hash of (seed, id and token offset of their first piece)."""
    first = np.searchsorted(packed.row, np.arange(packed.num_rows))
    docs = packed.doc[first]
    token_offsets = (offsets[docs] + packed.offset[first]).tolist()
    keys = [
        (order_key(seed, b"row", ids[doc].tobytes(), offset.to_bytes(8, "little")), ids[doc].tobytes(), offset)
        for doc, offset in zip(docs.tolist(), token_offsets, strict=True)
    ]
    place = np.empty(packed.num_rows, np.int64)
    place[sorted(range(packed.num_rows), key=keys.__getitem__)] = np.arange(packed.num_rows)
    return place


def _tail_table(queue: Queue, tail: Tail) -> pa.Table:
    """The pieces of the tail with their tokens."""
    lines, offsets, lengths = tail
    begins = np.concatenate([[0], np.cumsum(queue.lengths)])[:-1][lines] + offsets
    parts = [
        queue.tokens[begin : begin + length] for begin, length in zip(begins.tolist(), lengths.tolist(), strict=True)
    ]
    flat = np.concatenate(parts) if parts else queue.tokens[:0]
    bounds = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    table = queue.table.take(pa.array(lines))
    token_offset = table.column("token_offset").to_numpy().astype(np.int64) + offsets
    position = table.schema.get_field_index("token_offset")
    table = table.set_column(position, "token_offset", pa.array(token_offset.astype(np.uint64)))
    return table.append_column("tokens", pa.LargeListArray.from_arrays(pa.array(bounds), pa.array(flat)))
