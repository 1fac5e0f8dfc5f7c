"""The exchange as a sort: rows leave a unit in sorted files, and are read back by ranges of their key.

A file is Parquet, sorted by its first column; its row groups carry the smallest and largest key,
which makes the footer a sparse index. Where the ranges are cut is decided afterwards, from exact
totals, so it depends neither on units nor on workers. Reading is in curate/engine/merge.py.
"""

import io
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from curate.core.storage import Storage
from curate.engine.receipt import Artifact, Written, write

KEY_SPACE = 1 << 64
RUN_BYTES = 96 << 20  # Arrow bytes held before a sorted file is written; three times that while it is made
GROUP_BYTES = 512 << 10  # Arrow bytes a row group: what a merge holds of each run beside its block


def range_of(part: int, num_parts: int) -> tuple[int, int]:
    """[low, high) of the keys with `key * num_parts >> 64 == part`."""
    return -(-(part * KEY_SPACE) // num_parts), -(-((part + 1) * KEY_SPACE) // num_parts)


class Writer:
    """A Parquet file with zstd that grows by row groups of about GROUP_BYTES.

    The first column has statistics. Only words have dictionaries: keys and ids are all different, and
    trying makes writing 4 times as slow.
    """

    def __init__(self, schema: pa.Schema) -> None:
        words = [field.name for field in schema if pa.types.is_string(field.type)]
        self._sink = io.BytesIO()
        self._writer = pq.ParquetWriter(
            self._sink, schema, compression="zstd", use_dictionary=words, write_statistics=schema.names[:1]
        )
        self.num_rows = self.num_bytes = 0  # in memory, not encoded
        self.bounds = {"first_key": 0, "last_key": -1}

    def write(self, table: pa.Table) -> None:
        """Add rows: at least one row group."""
        num_groups = max(1, -(-table.nbytes // GROUP_BYTES))
        self._writer.write_table(table, row_group_size=max(1, -(-table.num_rows // num_groups)))
        if table.num_rows and not self.num_rows:
            self.bounds["first_key"] = table.column(0)[0].as_py()
        if table.num_rows:
            self.bounds["last_key"] = table.column(0)[-1].as_py()
        self.num_rows += table.num_rows
        self.num_bytes += table.nbytes

    def finish(self) -> memoryview:
        """The whole file."""
        self._writer.close()
        return self._sink.getbuffer()


class Files:
    """Rows of one schema, in order, as files of bounded size that follow each other.

    With `storage` each file is put there when it is full and not held; else all are held to the end.
    """

    def __init__(self, role: str, storage: Storage | None = None, *, is_sorted: bool = False) -> None:
        self._role = role
        self._storage = storage
        self._is_sorted = is_sorted  # by the first column: then a receipt says the smallest and largest key
        self._parts: list[pa.Table] = []
        self._num_bytes = 0
        self._writer: Writer | None = None
        self._files: list[Artifact | Written] = []

    def add(self, rows: pa.RecordBatch | pa.Table) -> None:
        """Take the next rows."""
        if rows.num_rows:
            self._parts.append(rows if isinstance(rows, pa.Table) else pa.Table.from_batches([rows]))
            self._num_bytes += rows.nbytes
        if self._num_bytes >= GROUP_BYTES:
            self._write_group()

    def finish(self) -> list[Artifact | Written]:
        """The files, in the order in which they filled."""
        self._write_group()
        self._end_file()
        return self._files

    def _write_group(self) -> None:
        if not self._parts:
            return
        if self._writer is None:
            self._writer = Writer(self._parts[0].schema)
        self._writer.write(pa.concat_tables(self._parts))
        self._parts, self._num_bytes = [], 0
        if self._writer.num_bytes >= RUN_BYTES:
            self._end_file()

    def _end_file(self) -> None:
        if self._writer is not None:
            artifact = _artifact(self._role, self._writer, is_sorted=self._is_sorted)
            self._writer = None
            self._files.append(artifact if self._storage is None else write(self._storage, artifact))


class SortedRuns:
    """Rows that come in any order, in sorted files of bounded size: each is a run. For `storage` see Files."""

    def __init__(self, role: str, schema: pa.Schema, order: Sequence[str], storage: Storage | None = None) -> None:
        self.schema = schema
        self._role = role
        self._order = order
        self._storage = storage
        self._parts: list[pa.Table] = []
        self._num_bytes = 0
        self._files: list[Artifact | Written] = []

    def add(self, rows: pa.RecordBatch | pa.Table) -> None:
        """Take rows of the schema."""
        if rows.num_rows:
            self._parts.append(rows if isinstance(rows, pa.Table) else pa.Table.from_batches([rows]))
            self._num_bytes += rows.nbytes
        if self._num_bytes >= RUN_BYTES:
            self._end_file()

    def finish(self) -> list[Artifact | Written]:
        """The files, in the order in which they filled."""
        self._end_file()
        return self._files

    def _end_file(self) -> None:
        if self._parts:
            self._files.append(self._sorted_file())

    def _sorted_file(self) -> Artifact | Written:
        table = pa.concat_tables(self._parts).combine_chunks()
        self._parts, self._num_bytes = [], 0
        table = sort(table.cast(self.schema), self._order)
        artifact = sorted_file(self._role, table)
        return artifact if self._storage is None else write(self._storage, artifact)


def sort(table: pa.Table, order: Sequence[str]) -> pa.Table:
    """`table` sorted by columns, ascending, as one chunk. The first column is a number without nulls.

    The others decide among rows with equal keys alone, so keys that are well spread cost little.
    """
    table = table.combine_chunks()
    indices = np.argsort(table.column(order[0]).to_numpy(), kind="stable")
    tied = _tied(table.column(order[0]).to_numpy(), indices)
    if len(tied) and len(order) > 1:
        rows = indices[tied]
        keyed = table.select(order).take(pa.array(rows))
        indices[tied] = rows[pc.sort_indices(keyed, sort_keys=[(name, "ascending") for name in order]).to_numpy()]
    return table.take(pa.array(indices)).combine_chunks()


def _tied(keys: NDArray[np.uint64], indices: NDArray[np.int64]) -> NDArray[np.int64]:
    """Positions in the order `indices` whose key stands beside an equal one."""
    keys = keys[indices]
    is_tied = np.zeros(len(keys), bool)
    np.equal(keys[1:], keys[:-1], out=is_tied[1:])
    is_tied[:-1] |= is_tied[1:]
    return np.flatnonzero(is_tied)


def sorted_file(role: str, table: pa.Table) -> Artifact:
    """A sorted table as an artifact that knows its smallest and largest key, and the bytes of its footer."""
    writer = Writer(table.schema)
    writer.write(table)
    return _artifact(role, writer, is_sorted=True)


def parquet(table: pa.Table) -> memoryview:
    """A table as Parquet."""
    writer = Writer(table.schema)
    writer.write(table)
    return writer.finish()


def _artifact(role: str, writer: Writer, *, is_sorted: bool) -> Artifact:
    data = writer.finish()
    notes = {"footer_bytes": int.from_bytes(data[-8:-4], "little") + 8} | (writer.bounds if is_sorted else {})
    return Artifact(role=role, data=data, rows=writer.num_rows, suffix=".parquet", notes=notes)
