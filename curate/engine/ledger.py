"""Ledger rows: one for each record, saying what became of it and why. No text."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from curate.core.schema import ORIGIN
from curate.core.stage import Quarantined
from curate.core.storage import Storage
from manifests.layout import ledger_schema

LEDGER = ledger_schema()
# As the rows travel, sorted: `key` is the beginning of the id.
# `position`: of packed documents, the token offset of the piece that the row speaks of.
SPILL = pa.schema([pa.field("key", pa.uint64()), *LEDGER, pa.field("position", pa.uint64())])
SPILL_ORDER = ("key", "id", "fate", "position", "split", "row", "stage", "reason", "name")


def id_keys(ids: pa.Array) -> pa.Array:
    """The first 8 bytes of each id as a big-endian number, so that keys sort as ids do."""
    return pa.array(id_bytes(ids)[:, :8].copy().view(">u8").ravel().astype(np.uint64))


def id_bytes(ids: pa.Array | pa.ChunkedArray) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Ids (binary(16), no nulls) as an array of shape (ids, 16)."""
    if isinstance(ids, pa.ChunkedArray):
        ids = ids.combine_chunks()
        if isinstance(ids, pa.ChunkedArray):  # no chunk at all
            return np.empty((0, 16), np.uint8)
    raw = np.frombuffer(ids.buffers()[1] or b"", dtype=np.uint8)
    return raw[ids.offset * 16 : (ids.offset + len(ids)) * 16].reshape(-1, 16)


def numbers_of(batch: pa.RecordBatch) -> pa.Array:
    """The numeric columns of each row as a map from column name to value."""
    names = [
        field.name for field in batch.schema if pa.types.is_integer(field.type) or pa.types.is_floating(field.type)
    ]
    offsets = np.arange(batch.num_rows + 1, dtype=np.int32) * len(names)
    columns = [batch.column(name).cast(pa.float64()).to_numpy(zero_copy_only=False) for name in names]
    values = np.column_stack(columns).ravel() if columns else np.empty(0)
    keys = pa.array(names * batch.num_rows, pa.string())
    items = pa.array(values, pa.float64(), mask=np.isnan(values))
    return pa.MapArray.from_arrays(pa.array(offsets), keys, items)


def rows_from_batch(batch: pa.RecordBatch, fate: str, **values: Any) -> pa.RecordBatch:
    """Ledger rows of the documents of a batch; `values` are constants or arrays by column."""
    columns = {name: batch.column(name) for name in ("id", "name", "source", "origin")}
    columns |= {"key": id_keys(columns["id"]), "numbers": numbers_of(batch), "fate": pa.scalar(fate)} | values
    return _ledger_batch(columns, batch.num_rows)


def rows_from_reader(found: Iterable[Quarantined], source: str, stage: str) -> pa.RecordBatch:
    """Ledger rows of records that could not be read."""
    found = list(found)
    ids = pa.array([item.id for item in found], pa.binary(16))
    columns = {
        "key": id_keys(ids),
        "id": ids,
        "name": pa.array([item.name for item in found], pa.string()),
        "source": pa.scalar(source),
        "origin": pa.array([item.origin | {"source": source} for item in found], ORIGIN),
        "fate": pa.scalar("quarantined"),
        "stage": pa.scalar(stage),
        "reason": pa.array([item.reason for item in found], pa.string()),
        "detail": pa.array([item.detail or None for item in found], pa.string()),
    }
    return _ledger_batch(columns, len(found))


def first_quarantined(storage: Storage, outputs: Iterable[dict[str, Any]], source: str) -> str:
    """A quarantined record of a source, in words: where it lies, why, and its name."""
    for output in outputs:
        with storage.open(output["key"]) as file:
            wanted = [("fate", "=", "quarantined"), ("source", "=", source)]
            table = pq.read_table(file, filters=wanted, use_threads=False, pre_buffer=False)
        if table.num_rows:
            row = table.slice(0, 1).to_pylist()[0]
            why = f"{row['reason']}: {row['detail']}" if row["detail"] else row["reason"]
            return f"{row['origin']['key']} at byte {row['origin']['offset']} ({why}) {row['name']}"
    return "none that is named"


def _ledger_batch(columns: dict[str, Any], num_rows: int) -> pa.RecordBatch:
    arrays = []
    for field in SPILL:
        value = columns.get(field.name)
        if value is None:
            value = pa.nulls(num_rows, field.type)
        elif isinstance(value, str):
            value = pa.repeat(pa.scalar(value, field.type), num_rows)
        elif isinstance(value, pa.Scalar):
            value = pa.repeat(value, num_rows)
        arrays.append(value.cast(field.type) if value.type != field.type else value)
    return pa.RecordBatch.from_arrays(arrays, schema=SPILL)
