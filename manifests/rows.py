"""The smallest reader of rows: any rows of any split, by number, with numpy alone."""

import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

from curate.core.errors import StorageError
from curate.core.storage import LocalStorage
from manifests.cache import FileCache, checked
from manifests.layout import Ints, decode_cu, decode_rows
from manifests.manifest import open_dataset
from manifests.shape import Json

MAX_OPEN = 256  # shards that are mapped, and those whose document starts are held (about 200 KB each)


class RowSet:
    """Rows of a dataset. Local files are mapped into memory; objects are read by range, or through a cache.

    `splits`: rows of each split, by name. A copy in another process opens its own files.
    """

    def __init__(self, url: str, cache_dir: str | None = None, max_cache_bytes: int | None = None) -> None:
        self.url = url
        self._arguments = (url, cache_dir, max_cache_bytes)
        self._dataset = open_dataset(url)
        self._cache = FileCache(cache_dir, max_cache_bytes) if cache_dir else None
        self._maps: dict[str, Ints] = {}
        self._starts: dict[str, tuple[NDArray[np.uint32], Ints]] = {}
        self._format: Json = self._dataset.manifest["format"]
        for split in self._dataset.manifest["splits"].values():
            _check_shards(split, self._format)
        self.dataset_id: str = self._dataset.manifest["dataset_id"]
        self.row_length: int = self._format["row_length"]
        self.rows_per_shard: int = self._format["rows_per_shard"]
        self.splits: dict[str, int] = {name: split["rows"] for name, split in self._dataset.manifest["splits"].items()}

    def __reduce__(self) -> tuple[Any, ...]:
        return RowSet, self._arguments

    @property
    def fetches(self) -> bool:
        """Whether shards are copied to a cache first."""
        return self._cache is not None

    def row(self, split: str, i: int) -> NDArray[np.int64]:
        """Row `i` of a split: its `row_length` tokens. Raises as `read`."""
        row: NDArray[np.int64] = self.read(split, np.array([i]))[0].astype(np.int64)
        return row

    def read(self, split: str, numbers: NDArray[np.int64]) -> Ints:
        """The rows with these numbers, (len(numbers), row_length), in the type they are stored in.

        Raises: IndexError beyond the split; StorageError where a shard is missing or of another size.
        """
        for i in numbers[(numbers < 0) | (numbers >= self.splits[split])]:
            raise IndexError(f"row {i} of split {split!r}, which has {self.splits[split]}")
        rows: Ints = np.empty((len(numbers), self.row_length), dtype=np.dtype(self._format["dtype"]))
        shards, within = np.divmod(numbers, self.rows_per_shard)
        for shard in np.unique(shards):
            here = shards == shard
            rows[here] = self._read(self._file(split, int(shard), "rows"), within[here])
        return rows

    def starts(self, split: str, i: int) -> Ints:
        """Where documents, or pieces of them, start in row `i`; the first is 0."""
        shard, within = divmod(i, self.rows_per_shard)
        file = self._file(split, shard, "cu")
        if file["key"] not in self._starts:
            _limit(self._starts)
            num_rows = min(self.rows_per_shard, self.splits[split] - shard * self.rows_per_shard)
            data = checked(self._dataset.storage, self._dataset.key(file["key"]), file)
            self._starts[file["key"]] = decode_cu(data, num_rows, self.row_length)
        row_ptr, starts = self._starts[file["key"]]
        return starts[row_ptr[within] : row_ptr[within + 1]]

    def announce(self, split: str, numbers: NDArray[np.int64]) -> None:
        """Begin to fetch the shards of rows that will be asked for soon; nothing without a cache."""
        if self._cache is None:
            return
        for shard in np.unique(numbers // self.rows_per_shard):
            file = self._file(split, int(shard), "rows")
            if self._dataset.key(file["key"]) not in self._maps:
                self._cache.announce(self._dataset.storage, self._dataset.key(file["key"]), file)

    def _file(self, split: str, shard: int, kind: str) -> Json:
        file: Json = self._dataset.manifest["splits"][split]["shards"][shard][kind]
        return file

    def _read(self, file: Json, within: NDArray[np.int64]) -> Ints:
        storage, key = self._dataset.storage, self._dataset.key(file["key"])
        if self._cache is None and not isinstance(storage, LocalStorage):
            return np.stack([self._read_range(key, int(one)) for one in within])
        if key not in self._maps:
            _limit(self._maps)
            local = os.path.join(storage.url, key) if self._cache is None else self._cache.path(storage, key, file)
            self._maps[key] = _map(local, file["bytes"], self._format["dtype"], self.row_length)
        rows: Ints = self._maps[key][within]
        return rows

    def _read_range(self, key: str, within: int) -> Ints:
        row_bytes = self.row_length * np.dtype(self._format["dtype"]).itemsize
        data = self._dataset.storage.read(key, within * row_bytes, row_bytes)
        if len(data) != row_bytes:
            raise StorageError(f"{key}: expected {row_bytes} bytes of row {within}, found {len(data)}")
        return decode_rows(data, self._format["dtype"], self.row_length).reshape(self.row_length)


def open_rows(url: str, cache_dir: str | None = None, max_cache_bytes: int | None = None) -> RowSet:
    """The rows of the dataset at `url`, a run's output folder.

    `cache_dir`: a folder on a local disk, one for all processes of a machine, that shards are copied to
    and their digests checked; without one, local files are mapped where they lie, objects read by range.

    Raises: PlanError where no dataset is finished there; StorageError where its manifest is damaged.
    """
    return RowSet(url, cache_dir, max_cache_bytes)


def _check_shards(split: Json, layout: Json) -> None:
    """Row i is row i % rows_per_shard of shard i // rows_per_shard: refuse, before the first row, what is not so."""
    row_bytes = layout["row_length"] * np.dtype(layout["dtype"]).itemsize
    left = split["rows"]
    for shard in split["shards"]:
        num_rows = min(left, layout["rows_per_shard"])
        left -= num_rows
        if shard["rows"]["bytes"] != num_rows * row_bytes:
            raise StorageError(f"{shard['rows']['key']}: expected {num_rows * row_bytes} bytes, found another number")
    if left:
        raise StorageError(f"manifest.json: expected shards for {split['rows']} rows, found {split['rows'] - left}")


def _limit(held: dict[str, Any]) -> None:
    """Forget what was opened first, so that one more can be held."""
    while len(held) >= MAX_OPEN:
        held.pop(next(iter(held)))


def _map(path: str, num_bytes: int, dtype: str, length: int) -> Ints:
    try:
        tokens = np.memmap(path, dtype=dtype, mode="r")
    except (OSError, ValueError) as error:  # ValueError: an empty file or a part of a token
        raise StorageError(f"{path}: cannot be mapped: {error}") from error
    if tokens.nbytes != num_bytes:
        raise StorageError(f"{path}: expected {num_bytes} bytes, found {tokens.nbytes}")
    return tokens.reshape(-1, length)
