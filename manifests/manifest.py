"""Reading a dataset's manifest: the pointer, the schema, the sums that must hold.

`<output>/MANIFEST` names `<dataset_id[:12]>/manifest.json` and its SHA-256; all keys in the manifest
are relative to its folder. Readers start here and never list.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from curate.core.errors import PlanError, StorageError
from curate.core.hashing import sha256
from curate.core.storage import NotFound, Storage, open_storage

Json = dict[str, Any]

POINTER = "MANIFEST"
SCHEMA = "curate.dataset/1"

# Shapes: a type, an object with these keys, an object of any keys ("*"), or a list of one shape.
_POINTER = {"dataset_id": str, "manifest": str, "sha256": str}
_COUNTS = {"*": int}
_FILE = {"key": str, "bytes": int, "sha256": str}
_SHARD = {
    "num_rows": int, "tokens": int, "pieces": int, "documents": int, "bos": int, "eos": int, "max_id": int,
    "rows_by_group": _COUNTS, "tokens_by_source": _COUNTS, "tokens_by_license": _COUNTS,
    "rows": _FILE, "docs": {**_FILE, "logical": str}, "cu": _FILE,
}  # fmt: skip
_SPLIT = {
    "rows": int, "tokens": int, "documents": int, "digest": str,
    "rows_by_group": _COUNTS, "tokens_by_source": _COUNTS, "tokens_by_license": _COUNTS, "shards": [_SHARD],
}  # fmt: skip
_RECORDS = {"in": int, "kept": int, "dropped": int, "merged": int, "quarantined": int}
_BYTES = {"stored": int, "content": int, "records": int, "framing": int, "skipped": int, "lost": int}
_PART = {**_FILE, "rows": int, "first_id": str, "last_id": str}
SHAPE: Json = {
    "schema": str,
    "dataset_id": str,
    "seed": int,
    "format": {
        "kind": str, "dtype": str, "row_length": int, "rows_per_shard": int,
        "packing": str, "padding": str, "bos": str, "eos": str,
    },
    "tokenizer": {
        "name": str, "sha256": str, "vocab_size": int, "bos_id": int, "eos_id": int, "probe_sha256": str,
    },
    "splits": {"*": _SPLIT},
    "records": {**_RECORDS, "by_source": {"*": _RECORDS}},
    "drops": {"*": _COUNTS},
    "quarantined": {"*": _COUNTS},
    "merged": {"*": _COUNTS},
    "counted_only": int,
    "bytes": {**_BYTES, "by_source": {"*": _BYTES}},
    "tokens": {"sent": int, "in_rows": int, "tail": int, "merged": int, "quarantined": int},
    "ledger": {"rows": int, "parts": [_PART]},
    "exports": dict,
    "pipeline": dict,
    "sums": [{"name": str, "left": [str], "right": [str]}],
}  # fmt: skip


def sum_rules() -> list[Json]:
    """The sums of every dataset, as the manifest carries them: sum(left) == sum(right).

    A path is the keys down to a number, joined by dots; `*` stands for every key or list item.
    """
    rules = [
        ("every record has one fate", ["records.in"], [f"records.{fate}" for fate in _RECORDS if fate != "in"]),
        ("every record is in the ledger or counted only", ["records.in"], ["ledger.rows", "counted_only"]),
        ("ledger parts", ["ledger.rows"], ["ledger.parts.*.rows"]),
        ("drops have reasons", ["records.dropped"], ["drops.*.*"]),
        ("merges have reasons", ["records.merged"], ["merged.*.*"]),
        ("quarantined records have reasons", ["records.quarantined"], ["quarantined.*.*"]),
        ("every kept record is a document of one split", ["records.kept"], ["splits.*.documents"]),
        ("every byte is accounted for", ["bytes.content"], [f"bytes.{k}" for k in ("records", "framing", "skipped", "lost")]),
        ("tokens sent", ["tokens.sent"], [f"tokens.{k}" for k in ("in_rows", "tail", "merged", "quarantined")]),
        ("tokens in rows", ["tokens.in_rows"], ["splits.*.tokens"]),
    ]  # fmt: skip
    rules += [(f"records {k} by source", [f"records.{k}"], [f"records.by_source.*.{k}"]) for k in _RECORDS]
    rules += [(f"bytes {k} by source", [f"bytes.{k}"], [f"bytes.by_source.*.{k}"]) for k in _BYTES]
    shard = {"rows": "num_rows", "tokens": "tokens", "documents": "documents"}
    rules += [(f"{k} of shards", [f"splits.*.{k}"], [f"splits.*.shards.*.{shard[k]}"]) for k in shard]
    rules += [("rows by group", ["splits.*.rows"], ["splits.*.rows_by_group.*"])]
    rules += [(f"tokens by {k}", ["splits.*.tokens"], [f"splits.*.tokens_by_{k}.*"]) for k in ("source", "license")]
    return [{"name": name, "left": left, "right": right} for name, left, right in rules]


def broken_sums(manifest: Json, rules: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """One line for each rule that does not hold, or that names what is not there."""
    for rule in rules:
        try:
            left, right = (sum(_numbers(manifest, rule[side])) for side in ("left", "right"))
        except KeyError as error:
            yield f"sum {rule['name']!r}: expected a number at {error.args[0]}, found none"
            continue
        if left != right:
            sides = [" + ".join(rule[side]) for side in ("left", "right")]
            yield f"sum {rule['name']!r}: expected {sides[0]} = {sides[1]}, found {left} and {right}"


def _numbers(manifest: Json, paths: Iterable[str]) -> Iterator[int]:
    for path in paths:
        values: list[Any] = [manifest]
        for key in path.split("."):
            try:
                values = [found for value in values for found in _children(value, key)]
            except (KeyError, IndexError, TypeError, ValueError) as error:
                raise KeyError(path) from error
        if not all(_is(value, int) for value in values):
            raise KeyError(path)
        yield from values


def _children(value: Any, key: str) -> list[Any]:
    if isinstance(value, list):
        return value if key == "*" else [value[int(key)]]
    return list(value.values()) if key == "*" else [value[key]]


@dataclass(frozen=True, kw_only=True)
class Dataset:
    """A finished dataset: where it lies and what its manifest says."""

    storage: Storage
    folder: str  # of manifest.json, below the storage's url
    manifest: Json

    def key(self, relative: str) -> str:
        """The storage key of a file that the manifest names."""
        return f"{self.folder}/{relative}"


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
        pointer, problems = _parse(storage.read(POINTER), _POINTER)
    except NotFound as error:
        raise PlanError(f"{storage.url}: no {POINTER}: no dataset is finished here; is it the output of a run?") from error
    if problems:
        return None, [f"{POINTER}: {problem}" for problem in problems]
    key = pointer["manifest"]
    try:
        data = storage.read(key)
    except NotFound:
        return None, [f"{POINTER}: expected the manifest {key}, found no such file"]
    manifest, problems = _parse(data, SHAPE)
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
        value = json.loads(data)
    except ValueError as error:
        return {}, [f"expected JSON, found {error}"]
    if not isinstance(value, dict):
        return {}, [f"expected an object, found {_name(value)}"]
    if "schema" in shape:
        _refuse_other_version(value.get("schema"))
    return value, list(_misshapen(value, shape, ""))


def _refuse_other_version(schema: Any) -> None:
    family = SCHEMA.partition("/")[0] + "/"
    if isinstance(schema, str) and schema.startswith(family) and schema != SCHEMA:
        raise PlanError(f"the manifest has schema {schema!r}, this curate reads {SCHEMA!r}; use the curate that wrote it")


def _misshapen(value: Any, shape: Any, at: str) -> Iterator[str]:
    """One line for each missing key and each value of a wrong type."""
    if isinstance(shape, type):
        if not _is(value, shape):
            yield f"{at}: expected {shape.__name__}, found {_name(value)}"
    elif isinstance(shape, list):
        if not isinstance(value, list):
            yield f"{at}: expected a list, found {_name(value)}"
            return
        for i, item in enumerate(value):
            yield from _misshapen(item, shape[0], f"{at}[{i}]")
    elif not isinstance(value, dict):
        yield f"{at}: expected an object, found {_name(value)}"
    else:
        for key, inner in _members(value, shape):
            path = f"{at}.{key}" if at else key
            if key not in value:
                yield f"{path}: missing"
            else:
                yield from _misshapen(value[key], inner, path)


def _members(value: Json, shape: Json) -> Iterable[tuple[str, Any]]:
    return shape.items() if "*" not in shape else [(key, shape["*"]) for key in value]


def _is(value: Any, kind: type) -> bool:
    return isinstance(value, kind) and not isinstance(value, bool)


def _name(value: Any) -> str:
    return "null" if value is None else type(value).__name__
