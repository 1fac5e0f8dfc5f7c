"""Canonical JSON and the hashes made of it; the only source of identity and of chance."""

import hashlib
import json
from typing import Any

ID_BYTES = 16


def canonical_json(value: Any) -> bytes:
    """One byte string for equal values: sorted keys, no white space, ASCII. Floats are refused
    where they are not finite."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False).encode("ascii")


def digest(value: Any) -> str:
    """SHA-256 of the canonical JSON of `value`, 64 hex digits."""
    return hashlib.sha256(canonical_json(value)).hexdigest()


def sha256(data: bytes | bytearray | memoryview) -> str:
    """SHA-256 of bytes, 64 hex digits."""
    return hashlib.sha256(data).hexdigest()


def record_id(reader: str, native: bytes | str) -> bytes:
    """The 16-byte id of a record: a hash of (reader, native id or raw record bytes)."""
    raw = native.encode("utf-8", "surrogatepass") if isinstance(native, str) else native
    return hashlib.sha256(reader.encode("ascii") + b"\0" + raw).digest()[:ID_BYTES]


def name_key(name: str) -> int:
    """A uniform 64-bit number for a name by which people ask for a record; see curate.core.names."""
    return int.from_bytes(hashlib.sha256(name.encode("utf-8", "surrogatepass")).digest()[:8], "big")


def order_key(seed: int, *parts: bytes) -> int:
    """A uniform 64-bit number that depends on (seed, parts) alone.

    Parts are joined with their lengths, so that no two lists of parts collide by concatenation.
    """
    hasher = hashlib.sha256(str(seed).encode("ascii"))
    for part in parts:
        hasher.update(len(part).to_bytes(4, "little") + part)
    return int.from_bytes(hasher.digest()[:8], "big")
