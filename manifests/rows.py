"""The smallest reader of rows: any row of any split, by number, with numpy alone."""

import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

from curate.core.errors import StorageError
from curate.core.storage import LocalStorage
from manifests.layout import Ints, decode_rows
from manifests.manifest import open_dataset
from manifests.shape import Json


class RowSet:
    """Rows of a dataset. Local files are mapped into memory, objects are read by range.

    `splits`: rows of each split, by name. A copy in another process opens its own files.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self._dataset = open_dataset(url)
        self._maps: dict[str, Ints] = {}
        for split in self._dataset.manifest["splits"].values():
            _check_shards(split, self._dataset.manifest["format"])
        self.splits: dict[str, int] = {name: split["rows"] for name, split in self._dataset.manifest["splits"].items()}

    def __reduce__(self) -> tuple[Any, ...]:
        return RowSet, (self.url,)

    def row(self, split: str, i: int) -> NDArray[np.int64]:
        """Row `i` of a split: its `row_length` tokens.

        Raises: IndexError beyond the split; StorageError where the shard is missing or of another size.
        """
        if not 0 <= i < self.splits[split]:
            raise IndexError(f"row {i} of split {split!r}, which has {self.splits[split]}")
        shard, within = divmod(i, int(self._dataset.manifest["format"]["rows_per_shard"]))
        return self._read(self._dataset.manifest["splits"][split]["shards"][shard]["rows"], within).astype(np.int64)

    def _read(self, file: Json, within: int) -> Ints:
        storage, key = self._dataset.storage, self._dataset.key(file["key"])
        dtype, length = self._dataset.manifest["format"]["dtype"], self._dataset.manifest["format"]["row_length"]
        if isinstance(storage, LocalStorage):
            if key not in self._maps:
                self._maps[key] = _map(os.path.join(storage.url, key), file["bytes"], dtype, length)
            row: Ints = self._maps[key][within]
            return row
        row_bytes = length * np.dtype(dtype).itemsize
        data = storage.read(key, within * row_bytes, row_bytes)
        if len(data) != row_bytes:
            raise StorageError(f"{key}: expected {row_bytes} bytes of row {within}, found {len(data)}")
        return decode_rows(data, dtype, length).reshape(length)


def open_rows(url: str) -> RowSet:
    """The rows of the dataset at `url`, a run's output folder.

    Raises: PlanError where no dataset is finished there; StorageError where its manifest is damaged.
    """
    return RowSet(url)


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


def _map(path: str, num_bytes: int, dtype: str, length: int) -> Ints:
    try:
        tokens = np.memmap(path, dtype=dtype, mode="r")
    except (OSError, ValueError) as error:  # ValueError: an empty file or a part of a token
        raise StorageError(f"{path}: cannot be mapped: {error}") from error
    if tokens.nbytes != num_bytes:
        raise StorageError(f"{path}: expected {num_bytes} bytes, found {tokens.nbytes}")
    return tokens.reshape(-1, length)
