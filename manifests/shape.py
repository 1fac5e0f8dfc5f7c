"""The shape of a manifest: which keys it has and what they hold."""

from collections.abc import Iterator
from typing import Any

from curate.core.errors import StorageError
from curate.core.storage import check_key

Json = dict[str, Any]

# A shape: a type, the name of a kind of string, an object with these keys, an object of any keys ("*"),
# or a list of one shape.
POINTER_SHAPE = {"dataset_id": str, "manifest": "key", "sha256": str}
_COUNTS = {"*": int}
_FILE = {"key": "key", "bytes": int, "sha256": str}
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
_EXPORT = {"files": [{**_FILE, "rows": int}], "state": dict, "info": dict}  # of one split
_PART = {**_FILE, "rows": int, "first_id": "id", "last_id": "id"}
_NAMES_PART = {**_FILE, "rows": int, "first_key": "id", "last_key": "id"}
MANIFEST_SHAPE: Json = {
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
    "tokens": {
        "sent": int, "in_rows": int, "not_needed": int, "tail": int, "merged": int, "quarantined": int, "repeated": int,
    },
    "ledger": {"rows": int, "parts": [_PART]},
    "names": {"rows": int, "parts": [_NAMES_PART]},
    "exports": {"*": {"*": _EXPORT}},
    "pipeline": dict,
    "sums": [{"name": str, "left": [str], "right": [str]}],
}  # fmt: skip


def misshapen(value: Any, shape: Any, at: str = "") -> Iterator[str]:
    """One line for each missing key and each value of another shape."""
    if isinstance(shape, dict) and isinstance(value, dict):
        for key, inner in shape.items() if "*" not in shape else ((key, shape["*"]) for key in value):
            path = f"{at}.{key}" if at else key
            if key in value:
                yield from misshapen(value[key], inner, path)
            else:
                yield f"{path}: expected {_wanted(inner)}, found nothing"
    elif isinstance(shape, list) and isinstance(value, list):
        for i, item in enumerate(value):
            yield from misshapen(item, shape[0], f"{at}[{i}]")
    elif not _fits(value, shape):
        found = repr(value) if isinstance(value, str | int) else "null" if value is None else type(value).__name__
        yield f"{at}: expected {_wanted(shape)}, found {found}"


def _fits(value: Any, shape: Any) -> bool:
    """Whether a value is what a type or the name of a kind of string asks for."""
    if isinstance(shape, type):
        return isinstance(value, shape) and not isinstance(value, bool)
    if shape == "id":
        return value is None or isinstance(value, str)
    return shape == "key" and isinstance(value, str) and _is_key(value)


def _is_key(value: str) -> bool:
    try:
        return bool(check_key(value))
    except StorageError:
        return False


def _wanted(shape: Any) -> str:
    if isinstance(shape, dict | list):
        return "an object" if isinstance(shape, dict) else "a list"
    names = {"id": "an id or null", "key": "a key below the dataset", int: "a whole number", str: "text"}
    return names.get(shape, "an object")
