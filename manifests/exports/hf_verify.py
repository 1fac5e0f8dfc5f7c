"""Recounting the export `hf`: its files hold the rows of the shards, in order, and nothing else."""

import hashlib
import io
import json
from collections.abc import Iterator
from typing import Any

import numpy as np

from curate.core.storage import NotFound, ObjectFile
from manifests.exports import hf
from manifests.layout import Ints, decode_rows
from manifests.manifest import Dataset
from manifests.problems import Problems
from manifests.shape import Json

FILE = "manifest.json"


def verify_hf(dataset: Dataset, problems: Problems) -> None:
    """Add to `problems` all that is wrong with the export, where the manifest names one."""
    exported = dataset.manifest["exports"].get(hf.KIND)
    if exported is None:
        return
    with_rows = sorted(name for name, split in dataset.manifest["splits"].items() if split["rows"])
    problems.expect(FILE, "exports.hf, splits that have rows", with_rows, sorted(exported))
    for split in with_rows:
        if split in exported:
            _verify_split(dataset, split, exported[split], problems)


def _verify_split(dataset: Dataset, split: str, exported: Json, problems: Problems) -> None:
    manifest, at = dataset.manifest, f"exports.hf.{split}"
    dtype, files = manifest["format"]["dtype"], exported["files"]
    shards = manifest["splits"][split]["shards"]
    problems.expect(FILE, f"{at}.info", hf.info(dtype), exported["info"])
    state = hf.state(manifest["dataset_id"], split, [file["key"] for file in files], dtype)
    problems.expect(FILE, f"{at}.state", state, exported["state"])
    for name, value in ((hf.INFO, exported["info"]), (hf.STATE, exported["state"])):
        _check_json(dataset, hf.folder(split) + name, value, problems)
    if not problems.expect(FILE, f"{at}.files, one a shard", len(shards), len(files)):
        return
    for index, (file, shard) in enumerate(zip(files, shards, strict=True)):
        key = f"{hf.file_stem(split, index, len(files))}{file['sha256']}.arrow"
        problems.expect(FILE, f"{at}.files[{index}].key", key, file["key"])
        problems.expect(FILE, f"{at}.files[{index}].rows", shard["num_rows"], file["rows"])
        _check_file(dataset, file, shard, problems)


def _check_json(dataset: Dataset, name: str, expected: Json, problems: Problems) -> None:
    try:
        data = dataset.storage.read(dataset.key(name))
    except NotFound:
        problems.add(name, "expected what the manifest says, found no such file")
        return
    try:
        found = json.loads(data)
    except ValueError as error:
        problems.add(name, f"expected JSON, found {error}")
        return
    if found != expected:
        problems.add(name, "expected what the manifest says, found other values")


def _check_file(dataset: Dataset, file: Json, shard: Json, problems: Problems) -> None:
    key = file["key"]
    try:
        stored = dataset.storage.open(dataset.key(key))
    except NotFound:
        problems.add(key, f"expected {file['bytes']} bytes, found no such file")
        return
    with stored:
        problems.expect(key, "bytes", file["bytes"], stored.size)
        hashing = _Hashing(stored)
        _compare_rows(dataset, file, shard, hashing, problems)
        problems.expect(key, "sha256", file["sha256"], hashing.hexdigest())


def _compare_rows(dataset: Dataset, file: Json, shard: Json, stream: Any, problems: Problems) -> None:
    """The rows of a data file against those of its shard, a record batch at a time."""
    import pyarrow as pa  # manifests import without pyarrow

    try:
        rows = dataset.storage.open(dataset.key(shard["rows"]["key"]))
    except NotFound:
        return  # said where the shard is recounted
    with rows:
        try:
            num_rows = _compare_batches(dataset, file["key"], rows, stream, problems)
        except (pa.ArrowException, ValueError, OSError) as error:
            problems.add(file["key"], f"expected an Arrow stream of rows, found {' '.join(str(error).split())}")
        else:
            problems.expect(file["key"], "rows", file["rows"], num_rows)


def _compare_batches(dataset: Dataset, key: str, rows: ObjectFile, stream: Any, problems: Problems) -> int:
    """Rows in a data file; what differs from `rows` is added to `problems`."""
    import pyarrow as pa

    layout = dataset.manifest["format"]
    num_rows = 0
    with pa.ipc.open_stream(stream) as batches:
        if not batches.schema.equals(hf.schema(layout["dtype"]), check_metadata=True):
            raise ValueError("another schema")
        for batch in batches:
            batch.validate(full=True)
            expected = _read_rows(rows, num_rows, batch.num_rows, layout)
            for name, values in hf.decode(batch).items():
                _compare(key, name, values, expected, num_rows, problems)
            num_rows += batch.num_rows
    return num_rows


def _read_rows(rows: ObjectFile, first: int, count: int, layout: Json) -> Ints:
    row_bytes = layout["row_length"] * np.dtype(layout["dtype"]).itemsize
    data = rows.read_range(first * row_bytes, count * row_bytes)
    return decode_rows(data[: len(data) // row_bytes * row_bytes], layout["dtype"], layout["row_length"])


def _compare(key: str, name: str, values: Ints, expected: Ints, first: int, problems: Problems) -> None:
    wanted = np.ones_like(expected) if name == "attention_mask" else expected
    if values.shape != wanted.shape:
        problems.tally(key, name, f"expected rows of shape {wanted.shape}, found {values.shape}", 1)
        return
    differs = (values != wanted).any(axis=1)
    problems.first(key, name, differs, lambda i: f"row {first + i}: expected that of the shard, found another")


class _Hashing(io.RawIOBase):
    """Reads a file in sequence and hashes all of it."""

    def __init__(self, file: ObjectFile) -> None:
        super().__init__()
        self._file = file
        self._digest = hashlib.sha256()

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1, /) -> bytes:
        data = self._file.read(size)
        self._digest.update(data)
        return data

    def hexdigest(self) -> str:
        """SHA-256 of the whole file; reads what is left."""
        for block in self._rest():
            self._digest.update(block)
        return self._digest.hexdigest()

    def _rest(self) -> Iterator[bytes]:
        while block := self._file.read(1 << 23):
            yield block
