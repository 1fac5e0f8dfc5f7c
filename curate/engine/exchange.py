"""The exchange as a sort: rows leave a unit in sorted files and are read back by ranges of their key.

A file is Parquet, sorted by `key` first; its row groups carry the smallest and largest key, which
makes the footer a sparse index. Where the ranges are cut is decided afterwards, from exact totals,
so it depends neither on units nor on workers. A run is one file, or several that follow each other.
"""

import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from curate.core.storage import Storage
from curate.engine.receipt import Artifact

KEY_SPACE = 1 << 64
RUN_BYTES = 96 << 20  # Arrow bytes held before a sorted file is written: half of what sorting needs
GROUP_BYTES = 1 << 20  # Arrow bytes a row group: what a merge holds of each run
FAN_IN = 64  # runs merged at once


def range_of(part: int, num_parts: int) -> tuple[int, int]:
    """[low, high) of the keys with `key * num_parts >> 64 == part`."""
    return -(-(part * KEY_SPACE) // num_parts), -(-((part + 1) * KEY_SPACE) // num_parts)


class SortedRuns:
    """Collects rows and turns them into sorted files of bounded size."""

    def __init__(self, role: str, schema: pa.Schema, order: Sequence[str]) -> None:
        self.schema = schema
        self._role = role
        self._order = order
        self._parts: list[pa.Table] = []
        self._num_bytes = 0
        self._files: list[Artifact] = []

    def add(self, rows: pa.RecordBatch | pa.Table) -> None:
        """Take rows of the schema, in any order."""
        if rows.num_rows == 0:
            return
        self._parts.append(rows if isinstance(rows, pa.Table) else pa.Table.from_batches([rows]))
        self._num_bytes += rows.nbytes
        if self._num_bytes >= RUN_BYTES:
            self._flush()

    def finish(self) -> list[Artifact]:
        """The files, in the order in which they filled."""
        self._flush()
        return self._files

    def _flush(self) -> None:
        if self._parts:
            table = sort(pa.concat_tables(self._parts), self._order)
            self._parts, self._num_bytes = [], 0
            self._files.append(sorted_file(self._role, table.cast(self.schema)))


class OrderedFiles:
    """Rows that come sorted already, in files that follow each other: one run."""

    def __init__(self, role: str) -> None:
        self._role = role
        self._parts: list[pa.Table] = []
        self._num_bytes = 0
        self._files: list[Artifact] = []

    def add(self, rows: pa.Table) -> None:
        """Take the next rows."""
        self._parts.append(rows)
        self._num_bytes += rows.nbytes
        if self._num_bytes >= RUN_BYTES:
            self._flush()

    def finish(self) -> list[Artifact]:
        """The files, in order."""
        self._flush()
        return self._files

    def _flush(self) -> None:
        table = pa.concat_tables(self._parts) if self._parts else None
        self._parts, self._num_bytes = [], 0
        if table is not None and table.num_rows:
            self._files.append(sorted_file(self._role, table))


def sort(table: pa.Table, order: Sequence[str]) -> pa.Table:
    """`table` sorted by columns, ascending, as one chunk."""
    indices = pc.sort_indices(table.select(order), sort_keys=[(name, "ascending") for name in order])
    return table.take(indices).combine_chunks()


def sorted_file(role: str, table: pa.Table) -> Artifact:
    """A sorted table as an artifact that knows its smallest and largest key."""
    column = table.column(0)
    is_empty = table.num_rows == 0
    bounds = (
        {"first_key": 0, "last_key": -1}
        if is_empty
        else {"first_key": column[0].as_py(), "last_key": column[-1].as_py()}
    )
    return Artifact(role=role, data=parquet(table), rows=table.num_rows, suffix=".parquet", notes=bounds)


def parquet(table: pa.Table) -> bytes:
    """A table as Parquet with zstd, in row groups of about GROUP_BYTES."""
    sink = io.BytesIO()
    num_groups = max(1, -(-table.nbytes // GROUP_BYTES))
    pq.write_table(table, sink, compression="zstd", row_group_size=max(1, -(-table.num_rows // num_groups)))
    return sink.getvalue()


@dataclass(frozen=True)
class Run:
    """Files with rows in one order, each beginning where the last ended; `home`: the home that the rows left."""

    files: tuple[dict[str, Any], ...]  # outputs of receipts
    home: int | None = None


def merge(storage: Storage, runs: Sequence[Run], order: Sequence[str], low: int, high: int) -> Iterator[pa.Table]:
    """All rows with low <= key < high, sorted by `order` (the key's column first), batch after batch.

    Holds about GROUP_BYTES a run. Equal rows may come in any order.
    """
    cursors = [cursor for run in runs if (cursor := Cursor.open(storage, run, order[0], low, high)).load()]
    while cursors:
        unfinished = [cursor for cursor in cursors if cursor.has_more]
        bound = min((cursor.last_key for cursor in unfinished), default=KEY_SPACE)
        parts = [part for cursor in cursors if (part := cursor.take_below(bound)).num_rows]
        if not parts and unfinished:
            parts, rest = _cut_one_key(cursors, bound, order)
            cursors.extend(Cursor.of_rows(order[0], table) for table in rest)
        if parts:
            yield sort(pa.concat_tables(parts), order)
        cursors = [cursor for cursor in cursors if cursor.num_rows or cursor.load()]


class Cursor:
    """The unread rows of one run inside a range of keys."""

    def __init__(self, column: str, groups: Iterator[pa.Table]) -> None:
        self._column = column
        self._groups = groups
        self._following = next(groups, None)
        self._table: pa.Table | None = None
        self._keys: NDArray[np.uint64] = np.empty(0, np.uint64)

    @classmethod
    def open(cls, storage: Storage, run: Run, column: str, low: int, high: int) -> "Cursor":
        """Nothing is read of files outside the range."""
        return cls(column, read_groups(storage, run, column, low, high))

    @classmethod
    def of_rows(cls, column: str, table: pa.Table) -> "Cursor":
        """A cursor over rows in hand."""
        cursor = cls(column, iter([table]))
        cursor.load()
        return cursor

    @property
    def has_more(self) -> bool:
        """Whether rows are left beyond those in hand."""
        return self._following is not None

    @property
    def num_rows(self) -> int:
        """Rows in hand."""
        return len(self._keys)

    @property
    def last_key(self) -> int:
        """Of the rows in hand."""
        return int(self._keys[-1])

    def load(self) -> bool:
        """Take the next rows in hand; False at the end."""
        if self._following is None:
            return False
        self._set(self._following)
        self._following = next(self._groups, None)
        return True

    def take_below(self, bound: int) -> pa.Table:
        """The rows in hand with keys below `bound`, which leave the hand."""
        table = self._table
        if table is None:
            raise ValueError("nothing is in hand")
        cut = len(self._keys) if bound == KEY_SPACE else int(np.searchsorted(self._keys, np.uint64(bound), side="left"))
        self._set(table.slice(cut))
        return table.slice(0, cut)

    def _set(self, table: pa.Table) -> None:
        self._table = table
        self._keys = table.column(self._column).to_numpy().astype(np.uint64)


def _cut_one_key(cursors: list[Cursor], key: int, order: Sequence[str]) -> tuple[list[pa.Table], list[pa.Table]]:
    """Where one key fills all that is in hand: its rows up to the first that an unread row may precede, and the rest.

    The last row in hand of an unfinished run is such a limit: what that run has yet to give comes after it.
    """
    marked = []
    for cursor in cursors:
        rows = cursor.take_below(key + 1) if key + 1 < KEY_SPACE else cursor.take_below(KEY_SPACE)
        is_limit = np.zeros(rows.num_rows, bool)
        is_limit[-1:] = cursor.has_more and not cursor.num_rows
        marked.append(rows.append_column("is_limit", pa.array(is_limit)))
    table = sort(pa.concat_tables(marked), order)
    limits = np.flatnonzero(table.column("is_limit").to_numpy())
    table = table.drop_columns(["is_limit"])
    cut = int(limits[0]) + 1 if len(limits) else table.num_rows
    rest = table.slice(cut)
    return [table.slice(0, cut)], [rest] if rest.num_rows else []


def read_groups(storage: Storage, run: Run, column: str, low: int, high: int) -> Iterator[pa.Table]:
    """The rows of a run inside a range of keys, a row group at a time, none of them empty."""
    for output in run.files:
        if output["last_key"] < low or output["first_key"] >= high:
            continue
        with storage.open(output["key"]) as raw, pq.ParquetFile(raw, pre_buffer=True) as file:
            for group in range(file.num_row_groups):
                if _overlaps(file, group, column, low, high):
                    rows = _inside(file.read_row_group(group), column, low, high)
                    if rows.num_rows:
                        yield rows if run.home is None else _with_home(rows, run.home)


def _with_home(rows: pa.Table, home: int) -> pa.Table:
    """`row` becomes `home`, the address of one document: home number << 32 | row."""
    address = rows.column("row").to_numpy().astype(np.uint64) | np.uint64(home << 32)
    return rows.drop_columns(["row"]).append_column("home", pa.array(address))


def _overlaps(file: pq.ParquetFile, group: int, column: str, low: int, high: int) -> bool:
    index = file.schema_arrow.get_field_index(column)
    statistics = file.metadata.row_group(group).column(index).statistics
    return bool(statistics.max >= low and statistics.min < high)


def _inside(rows: pa.Table, column: str, low: int, high: int) -> pa.Table:
    keys = rows.column(column).to_numpy().astype(np.uint64)
    first = int(np.searchsorted(keys, np.uint64(low), side="left"))
    last = len(keys) if high >= KEY_SPACE else int(np.searchsorted(keys, np.uint64(high), side="left"))
    return rows.slice(first, last - first)


def read_keys(
    storage: Storage, outputs: Sequence[dict[str, Any]], schema: pa.Schema, low: int, high: int, column: str = "key"
) -> pa.Table:
    """The rows with low <= key < high of sorted files, file after file, as one table."""
    pieces = [rows for output in outputs for rows in read_groups(storage, Run((output,)), column, low, high)]
    return pa.concat_tables(pieces).combine_chunks() if pieces else schema.empty_table()
