"""Reading sorted runs back: a range of keys, in order, in bounded memory, with few and long requests.

A run is read in blocks of whole row groups. Blocks are as long as the limit and the number of runs
allow, so requests are few where memory is ample; the limit is a quarter of `run.memory_per_worker`.
"""

import io
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from curate.core.errors import StorageError
from curate.core.storage import Storage
from curate.engine.exchange import KEY_SPACE, sort

MIN_BLOCK_BYTES = 1 << 20  # stored bytes that a request asks for, where a run has as many
MAX_BLOCK_BYTES = 16 << 20  # 63 requests a GB; longer ones save little
MAX_FOOTERS = 512  # that a worker remembers; about 60 KB each

Output = dict[str, Any]  # of a receipt
Rank = list[tuple[bool, Any]]


@dataclass(frozen=True)
class Run:
    """Files sorted by their first column, each beginning where the last ended; `home`: the home that the rows left."""

    files: tuple[Output, ...]
    home: int | None = None


def merge(
    storage: Storage, runs: Sequence[Run], order: Sequence[str], low: int, high: int, limit_bytes: int
) -> Iterator[pa.Table]:
    """All rows with low <= key < high, sorted by `order` (the key's column first), batch after batch.

    Holds about `limit_bytes`, or MIN_BLOCK_BYTES a run where that is more. Equal rows may come in any order.
    """
    runs = [run for run in runs if any(_may_hold(output, low, high) for output in run.files)]
    block_bytes = block_size(len(runs), limit_bytes)
    opened = [Cursor(order[0], Groups(storage, run, order[0], low, high, block_bytes)) for run in runs]
    cursors = [cursor for cursor in opened if cursor.load()]
    while cursors:
        unfinished = [cursor for cursor in cursors if cursor.has_more]
        bound = min((cursor.last_key for cursor in unfinished), default=KEY_SPACE)
        parts = [part for cursor in cursors if (part := cursor.take_below(bound)).num_rows]
        yield sort(pa.concat_tables(parts or _take_one_key(cursors, bound, order)), order)
        cursors = [cursor for cursor in cursors if cursor.num_rows or cursor.load()]


def block_size(num_runs: int, limit_bytes: int) -> int:
    """Stored bytes to read at once of each of so many runs."""
    return min(MAX_BLOCK_BYTES, max(MIN_BLOCK_BYTES, limit_bytes // max(1, num_runs)))


def read_keys(
    storage: Storage, outputs: Sequence[Output], schema: pa.Schema, low: int, high: int, column: str = "key"
) -> pa.Table:
    """The rows with low <= key < high of sorted files, file after file, as one table."""
    pieces = [
        rows
        for output in outputs
        if _may_hold(output, low, high)
        for rows in Groups(storage, Run((output,)), column, low, high, MAX_BLOCK_BYTES)
    ]
    return pa.concat_tables(pieces).combine_chunks() if pieces else schema.empty_table()


class Cursor:
    """The unread rows of one run inside a range of keys."""

    def __init__(self, column: str, groups: "Groups") -> None:
        self._column = column
        self._groups = groups
        self._table: pa.Table | None = None
        self._keys: NDArray[np.uint64] = np.empty(0, np.uint64)
        self._position = 0

    @property
    def has_more(self) -> bool:
        """Whether rows may be left beyond those in hand."""
        return self._groups.has_more

    @property
    def num_rows(self) -> int:
        """Rows in hand."""
        return len(self._keys) - self._position

    @property
    def last_key(self) -> int:
        """Of the rows in hand."""
        return int(self._keys[-1])

    def load(self) -> bool:
        """Take the next rows in hand; False at the end."""
        self._table = next(self._groups, None)
        if self._table is None:
            return False
        self._keys = self._table.column(self._column).to_numpy().astype(np.uint64)
        self._position = 0
        return True

    def take_below(self, bound: int) -> pa.Table:
        """The rows in hand with keys below `bound`, which leave the hand."""
        keys = self._keys[self._position :]
        return self._take(len(keys) if bound == KEY_SPACE else int(np.searchsorted(keys, np.uint64(bound))))

    def take_through(self, key: int, limit: Rank, order: Sequence[str]) -> pa.Table:
        """The rows in hand with this key, the smallest there is, and a rank up to `limit`; they leave the hand."""
        stop = self._position + int(np.searchsorted(self._keys[self._position :], np.uint64(key), side="right"))
        rows = range(self._position, stop)
        return self._take(bisect_right(rows, limit, key=lambda row: self.rank(row, order)))

    def rank(self, row: int, order: Sequence[str]) -> Rank:
        """The place of a row in the order; nulls come last."""
        if self._table is None:
            raise ValueError("nothing is in hand")
        values = [self._table.column(name)[row].as_py() for name in order]
        return [(value is None, value) for value in values]

    def _take(self, count: int) -> pa.Table:
        if self._table is None:
            raise ValueError("nothing is in hand")
        first, self._position = self._position, self._position + count
        return self._table.slice(first, count)


def _take_one_key(cursors: list[Cursor], key: int, order: Sequence[str]) -> list[pa.Table]:
    """Where one key fills all that is in hand: its rows up to the first that an unread row may precede.

    The last row in hand of an unfinished run is such a limit: what that run has yet to give comes after it.
    """
    limits = [cursor.rank(-1, order) for cursor in cursors if cursor.has_more and cursor.last_key == key]
    return [rows for cursor in cursors if (rows := cursor.take_through(key, min(limits), order)).num_rows]


class Groups(Iterator[pa.Table]):
    """The rows of a run inside a range of keys, a row group at a time, none of them empty."""

    def __init__(self, storage: Storage, run: Run, column: str, low: int, high: int, block_bytes: int) -> None:
        self._storage = storage
        self._home = run.home
        self._column, self._low, self._high = column, low, high
        self._block_bytes = block_bytes
        self._files = [output for output in run.files if _may_hold(output, low, high)][::-1]  # next one last
        self._file: StoredTable | None = None

    @property
    def has_more(self) -> bool:
        """Whether rows may be left; True is no promise."""
        return bool(self._files) or (self._file is not None and self._file.has_more)

    def __next__(self) -> pa.Table:
        while self.has_more:
            if self._file is None or not self._file.has_more:
                self._file = StoredTable(self._storage, self._files.pop(), self._block_bytes)
                self._file.keep_range(self._low, self._high)
                continue
            rows = _inside(self._file.read_group(), self._column, self._low, self._high)
            if rows.num_rows:
                return rows if self._home is None else _with_home(rows, self._home)
        self._file = None
        raise StopIteration


class StoredTable:
    """One Parquet file: row groups in order, fetched in blocks of several."""

    def __init__(self, storage: Storage, output: Output, block_bytes: int = MAX_BLOCK_BYTES) -> None:
        self._block_bytes = block_bytes
        self._block = Block(storage, output["key"], output["bytes"])
        found = footer(storage, output["key"], output["bytes"], output["footer_bytes"])
        self._parquet = pq.ParquetFile(self._block, metadata=pq.read_metadata(pa.BufferReader(found)))
        self._groups = list(range(self._parquet.num_row_groups))[::-1]  # next one last

    @property
    def has_more(self) -> bool:
        """Whether row groups are left."""
        return bool(self._groups)

    def keep_range(self, low: int, high: int) -> None:
        """Leave out row groups without a key in [low, high), where the first column is sorted."""
        self._groups = [group for group in self._groups if self._overlaps(group, low, high)]

    @property
    def next_rows(self) -> int:
        """Rows of the next row group."""
        return int(self._parquet.metadata.row_group(self._groups[-1]).num_rows)

    def skip_group(self) -> None:
        """Leave out the next row group."""
        self._groups.pop()

    def read_group(self, columns: Sequence[str] | None = None) -> pa.Table:
        """The next row group: all its columns, or some."""
        group = self._groups.pop()
        start, stop = self._extent(group)
        if not self._block.holds(start, stop):
            for following in self._groups[::-1]:
                end = self._extent(following)[1]
                if end - start > self._block_bytes:
                    break
                stop = end
            self._block.fetch(start, stop)
        return self._parquet.read_row_group(group, columns=columns and list(columns), use_threads=False)

    def _overlaps(self, group: int, low: int, high: int) -> bool:
        statistics = self._parquet.metadata.row_group(group).column(0).statistics
        return bool(statistics.max >= low and statistics.min < high)

    def _extent(self, group: int) -> tuple[int, int]:
        """The bytes [start, stop) of a row group."""
        row_group = self._parquet.metadata.row_group(group)
        columns = [row_group.column(index) for index in range(row_group.num_columns)]
        starts = [column.dictionary_page_offset or column.data_page_offset for column in columns]
        stops = [start + column.total_compressed_size for start, column in zip(starts, columns, strict=True)]
        return min(starts), max(stops)


class Block(io.RawIOBase):
    """A stored object of which a part is in hand; it can be read there and nowhere else."""

    def __init__(self, storage: Storage, key: str, size: int) -> None:
        super().__init__()
        self._storage, self._key, self._size = storage, key, size
        self._data, self._start, self._position = b"", 0, 0

    def holds(self, start: int, stop: int) -> bool:
        """Whether the bytes [start, stop) are in hand."""
        return self._start <= start and stop <= self._start + len(self._data)

    def fetch(self, start: int, stop: int) -> None:
        """Take the bytes [start, stop) in hand, in place of others."""
        self._data, self._start = b"", start
        self._data = self._storage.read(self._key, start, stop - start)

    def readable(self) -> bool:
        """True."""
        return True

    def seekable(self) -> bool:
        """True."""
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        """Move the position."""
        self._position = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence] + offset
        return self._position

    def tell(self) -> int:
        """The position."""
        return self._position

    def read(self, size: int = -1, /) -> bytes:
        """Bytes in hand. Raises StorageError for others: then the file is not what its receipt says."""
        start, stop = self._position, self._size if size < 0 else self._position + size
        if not self.holds(start, stop):
            raise StorageError(f"{self._storage.url}/{self._key}: its footer does not describe it; remove it")
        self._position = stop
        return self._data[start - self._start : stop - self._start]


@lru_cache(MAX_FOOTERS)
def footer(storage: Storage, key: str, size: int, footer_bytes: int) -> bytes:
    """The footer of a file of so many bytes; files are named by their content, so it never changes."""
    return storage.read(key, size - footer_bytes, footer_bytes)


def _may_hold(output: Output, low: int, high: int) -> bool:
    return bool(output["last_key"] >= low and output["first_key"] < high)


def _with_home(rows: pa.Table, home: int) -> pa.Table:
    """`row` becomes `home`, the address of one document: home number << 32 | row."""
    address = rows.column("row").to_numpy().astype(np.uint64) | np.uint64(home << 32)
    return rows.drop_columns(["row"]).append_column("home", pa.array(address))


def _inside(rows: pa.Table, column: str, low: int, high: int) -> pa.Table:
    keys = rows.column(column).to_numpy()
    first = int(np.searchsorted(keys, np.uint64(low), side="left")) if low else 0
    last = len(keys) if high >= KEY_SPACE else int(np.searchsorted(keys, np.uint64(high), side="left"))
    return rows.slice(first, last - first)
