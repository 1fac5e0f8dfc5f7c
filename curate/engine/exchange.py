"""The exchange as a sort: rows leave a unit in sorted files and are read back by ranges of their key.

A file is Parquet, sorted by `key` (uint64) and then by what the caller says; its row groups carry
the smallest and largest key, which makes the footer a sparse index. Where the ranges are cut is
decided afterwards, from exact totals, so it depends neither on units nor on workers.
"""

import io
from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from curate.core.storage import Storage
from curate.engine.receipt import Artifact

KEY_SPACE = 1 << 64
RUN_BYTES = 192 << 20  # Arrow bytes held before a sorted file is written
GROUP_BYTES = 4 << 20  # Arrow bytes a row group: what a reader of one key range reads too much


def range_of(part: int, num_parts: int) -> tuple[int, int]:
    """[low, high) of the keys with `key * num_parts >> 64 == part`."""
    return -(-(part * KEY_SPACE) // num_parts), -(-((part + 1) * KEY_SPACE) // num_parts)


class SortedRuns:
    """Collects rows and turns them into sorted files of bounded size."""

    def __init__(self, role: str, schema: pa.Schema, order: Sequence[str]) -> None:
        self._role = role
        self._schema = schema
        self._order = [(name, "ascending") for name in order]
        self._batches: list[pa.RecordBatch] = []
        self._num_bytes = 0
        self._files: list[Artifact] = []

    def add(self, batch: pa.RecordBatch) -> None:
        """Take rows of the schema, in any order."""
        if batch.num_rows == 0:
            return
        self._batches.append(batch)
        self._num_bytes += batch.nbytes
        if self._num_bytes >= RUN_BYTES:
            self._flush()

    def finish(self) -> list[Artifact]:
        """The files, in the order in which they filled."""
        self._flush()
        return self._files

    def _flush(self) -> None:
        if self._batches:
            table = pa.Table.from_batches(self._batches, schema=self._schema)
            narrow = table.select([name for name, _ in self._order])
            table = table.take(pa.compute.sort_indices(narrow, sort_keys=self._order)).combine_chunks()
            self._files.append(Artifact(role=self._role, data=parquet(table), rows=table.num_rows, suffix=".parquet"))
        self._batches, self._num_bytes = [], 0


def parquet(table: pa.Table) -> bytes:
    """A table as Parquet with zstd, in row groups of about GROUP_BYTES."""
    sink = io.BytesIO()
    num_groups = max(1, -(-table.nbytes // GROUP_BYTES))
    pq.write_table(table, sink, compression="zstd", row_group_size=max(1, -(-table.num_rows // num_groups)))
    return sink.getvalue()


def read_keys(
    storage: Storage, files: Sequence[str], schema: pa.Schema, low: int, high: int, column: str = "key"
) -> pa.Table:
    """The rows with low <= `column` < high of Parquet files sorted by it, file after file."""
    pieces = [piece for name in files for piece in _read_file(storage, name, low, high, column)]
    return pa.Table.from_batches([], schema) if not pieces else pa.concat_tables(pieces).combine_chunks()


def _read_file(storage: Storage, name: str, low: int, high: int, column: str) -> Iterator[pa.Table]:
    with pq.ParquetFile(storage.open(name)) as file:
        groups = [group for group in range(file.num_row_groups) if _overlaps(file, group, low, high, column)]
        if not groups:
            return
        table = file.read_row_groups(groups)
    keys = table.column(column)
    mask = pa.compute.greater_equal(keys, pa.scalar(low, keys.type))
    if high < KEY_SPACE:
        mask = pa.compute.and_(mask, pa.compute.less(keys, pa.scalar(high, keys.type)))
    yield table.filter(mask)


def _overlaps(file: pq.ParquetFile, group: int, low: int, high: int, column: str) -> bool:
    statistics = file.metadata.row_group(group).column(file.schema_arrow.get_field_index(column)).statistics
    return bool(statistics.max >= low and statistics.min < high)
