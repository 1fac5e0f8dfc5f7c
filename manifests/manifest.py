"""Reading a dataset's manifest: the pointer, the schema, the sums that must hold.

`<output>/MANIFEST` names `<dataset_id[:12]>/manifest.json` and its SHA-256; all keys in the manifest
are relative to its folder. Readers start here and never list.
"""

import json
from dataclasses import dataclass
from typing import Any

from curate.core.errors import PlanError, StorageError
from curate.core.hashing import sha256
from curate.core.storage import NotFound, Storage, open_storage
from manifests.shape import MANIFEST_SHAPE, POINTER_SHAPE, Json, misshapen

POINTER = "MANIFEST"
SCHEMA = "curate.dataset/1"
MAX_REPEATED = 100  # keys that are named


@dataclass(frozen=True, kw_only=True)
class Dataset:
    """A finished dataset: where it lies and what its manifest says."""

    storage: Storage
    folder: str  # of manifest.json, below the storage's url
    manifest: Json

    def key(self, relative: str) -> str:
        """The storage key of a file that the manifest names."""
        return f"{self.folder}/{relative}" if self.folder else relative


def open_dataset(url: str) -> Dataset:
    """The dataset at `url`, the output folder of a run.

    Raises: PlanError where no dataset is finished there, or another version of curate wrote it;
    StorageError where its manifest is damaged.
    """
    dataset, problems = find_dataset(open_storage(url))
    if dataset is None or problems:
        raise StorageError(f"{url}: {problems[0]}")
    return dataset


def find_dataset(storage: Storage) -> tuple[Dataset | None, list[str]]:
    """The dataset in `storage` where its manifest has the right shape, and what is wrong with manifest and pointer.

    Raises: PlanError as `open_dataset`; StorageError where storage does not answer.
    """
    try:
        pointer, problems = _parse(storage.read(POINTER), POINTER_SHAPE)
    except NotFound as error:
        raise PlanError(
            f"{storage.url}: expected a finished dataset, found no {POINTER}; is this the output of a run?"
        ) from error
    if problems:
        return None, [f"{POINTER}: {problem}" for problem in problems]
    key = pointer["manifest"]
    try:
        data = storage.read(key)
    except NotFound:
        return None, [f"{POINTER}: expected the manifest {key}, found no such file"]
    manifest, problems = _parse(data, MANIFEST_SHAPE)
    dataset = None if problems else Dataset(storage=storage, folder=key.rpartition("/")[0], manifest=manifest)
    problems += _differences(pointer, {"dataset_id": manifest.get("dataset_id"), "sha256": sha256(data)})
    return dataset, [f"{key}: {problem}" for problem in problems]


def _differences(pointer: Json, found: Json) -> list[str]:
    return [
        f"{name}: expected {pointer[name]} by {POINTER}, found {value}"
        for name, value in found.items()
        if pointer[name] != value
    ]


def _parse(data: bytes, shape: Json) -> tuple[Json, list[str]]:
    """The object in `data` and how it differs from `shape`."""
    try:
        repeated: list[str] = []
        value = json.loads(data, object_pairs_hook=lambda pairs: _object(pairs, repeated))
    except ValueError as error:
        return {}, [f"expected JSON, found {error}"]
    if not isinstance(value, dict):
        return {}, [f"expected an object, found {type(value).__name__}"]
    if shape is MANIFEST_SHAPE:
        _refuse_other_schema(value.get("schema"))
    return value, [*repeated, *misshapen(value, shape)]


def _object(pairs: list[tuple[str, Any]], repeated: list[str]) -> Json:
    """An object; a key that stands in it twice is a fault, as readers differ in which value they take."""
    value: Json = {}
    for key, item in pairs:
        if key in value and len(repeated) < MAX_REPEATED:
            repeated.append(f"key {key!r}: expected once in an object, found again")
        value[key] = item
    return value


def _refuse_other_schema(schema: Any) -> None:
    """PlanError for a manifest of a kind or major version that this code does not know."""
    if isinstance(schema, str) and schema != SCHEMA:
        raise PlanError(f"manifest.json: schema: expected {SCHEMA}, found {schema}; use the curate that wrote it")
