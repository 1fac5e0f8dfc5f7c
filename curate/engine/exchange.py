"""The exchange as a sort: rows leave a unit in sorted files, and are read back by ranges of their key.

A file is Parquet, sorted by its first column; its row groups carry the smallest and largest key,
which makes the footer a sparse index. Where the ranges are cut is decided afterwards, from exact
totals, so it depends neither on units nor on workers. Reading is in curate/engine/merge.py.
"""

import io
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from curate.core.storage import Storage
from curate.engine.receipt import Artifact, Written, write

KEY_SPACE = 1 << 64
RUN_BYTES = 96 << 20  # Arrow bytes held before a file is written; twice that while it is sorted
GROUP_BYTES = 512 << 10  # Arrow bytes a row group: what a merge holds of each run beside its block


def range_of(part: int, num_parts: int) -> tuple[int, int]:
    """[low, high) of the keys with `key * num_parts >> 64 == part`."""
    return -(-(part * KEY_SPACE) // num_parts), -(-((part + 1) * KEY_SPACE) // num_parts)


class Files:
    """Batches of one schema, in order, as files of bounded size.

    With `storage` each file is put there when it is full and not held; else all are held to the end.
    """

    def __init__(self, role: str, storage: Storage | None = None) -> None:
        self._role = role
        self._storage = storage
        self._parts: list[pa.Table] = []
        self._num_bytes = 0
        self._files: list[Artifact | Written] = []

    def add(self, rows: pa.RecordBatch | pa.Table) -> None:
        """Take the next rows."""
        if rows.num_rows == 0:
            return
        self._parts.append(rows if isinstance(rows, pa.Table) else pa.Table.from_batches([rows]))
        self._num_bytes += rows.nbytes
        if self._num_bytes >= RUN_BYTES:
            self._flush()

    def finish(self) -> list[Artifact | Written]:
        """The files, in the order in which they filled."""
        self._flush()
        return self._files

    def artifact(self, parts: list[pa.Table]) -> Artifact:
        """A full file of these rows, which leave the list."""
        table = joined(parts)
        return Artifact(role=self._role, data=parquet(table), rows=table.num_rows, suffix=".parquet")

    def _flush(self) -> None:
        if self._parts:
            artifact = self.artifact(self._parts)
            self._num_bytes = 0
            self._files.append(artifact if self._storage is None else write(self._storage, artifact))
            pa.default_memory_pool().release_unused()


class OrderedFiles(Files):
    """Rows that come sorted already, in files that follow each other: one run."""

    def artifact(self, parts: list[pa.Table]) -> Artifact:
        """A full file, with its smallest and largest key."""
        return sorted_file(self._role, joined(parts))


class SortedRuns(Files):
    """Rows that come in any order, in sorted files: each is a run."""

    def __init__(self, role: str, schema: pa.Schema, order: Sequence[str], storage: Storage | None = None) -> None:
        super().__init__(role, storage)
        self.schema = schema
        self._order = order

    def artifact(self, parts: list[pa.Table]) -> Artifact:
        """A full file, sorted."""
        table = joined(parts).cast(self.schema)
        table = sort(table, self._order)
        return sorted_file(self._role, table)


def joined(parts: list[pa.Table]) -> pa.Table:
    """The rows of tables as one chunk. The list is emptied, so that no row is held twice for long."""
    table = pa.concat_tables(parts).combine_chunks()
    parts.clear()
    return table


def sort(table: pa.Table, order: Sequence[str]) -> pa.Table:
    """`table` sorted by columns, ascending, as one chunk. The first column is a number without nulls.

    The others decide among rows with equal keys alone, so keys that are well spread cost little.
    """
    table = table.combine_chunks()
    keys = table.column(order[0]).to_numpy()
    indices = np.argsort(keys, kind="stable")
    keys = keys[indices]
    is_tied = np.zeros(len(keys), bool)
    np.equal(keys[1:], keys[:-1], out=is_tied[1:])
    is_tied[:-1] |= is_tied[1:]
    tied = np.flatnonzero(is_tied)
    if len(tied) and len(order) > 1:
        rows = indices[tied]
        keyed = table.select(order).take(pa.array(rows))
        indices[tied] = rows[pc.sort_indices(keyed, sort_keys=[(name, "ascending") for name in order]).to_numpy()]
    return table.take(pa.array(indices)).combine_chunks()


def sorted_file(role: str, table: pa.Table) -> Artifact:
    """A sorted table as an artifact that knows its smallest and largest key, and the bytes of its footer."""
    data = parquet(table)
    footer_bytes = int.from_bytes(data[-8:-4], "little") + 8
    bounds = {"first_key": 0, "last_key": -1}
    if table.num_rows:
        column = table.column(0)
        bounds = {"first_key": column[0].as_py(), "last_key": column[-1].as_py()}
    notes = bounds | {"footer_bytes": footer_bytes}
    return Artifact(role=role, data=data, rows=table.num_rows, suffix=".parquet", notes=notes)


def parquet(table: pa.Table) -> memoryview:
    """A table as Parquet with zstd, in row groups of about GROUP_BYTES; the first column has statistics.

    Only words have dictionaries: keys and ids are all different, and trying makes writing 4 times as slow.
    """
    words = [field.name for field in table.schema if pa.types.is_string(field.type)]
    num_groups = max(1, -(-table.nbytes // GROUP_BYTES))
    options: dict[str, Any] = {"use_dictionary": words, "write_statistics": table.schema.names[:1]}
    sink = io.BytesIO()
    rows_per_group = max(1, -(-table.num_rows // num_groups))
    pq.write_table(table, sink, compression="zstd", row_group_size=rows_per_group, **options)
    return sink.getbuffer()
