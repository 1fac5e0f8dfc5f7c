"""What a table says, as one digest: independent of chunks, slices, dictionaries and pyarrow's version."""

import hashlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from curate.core.hashing import canonical_json


class TableDigest:
    """SHA-256 over the values of tables with equal columns, one after the other.

    Each column feeds streams of its own: which values are null, lengths of strings and lists (64 bits),
    and the values (little-endian; null as 0 or empty), structs and lists part by part. string and
    large_string, binary and large_binary, list and large_list count as the same type.
    """

    def __init__(self) -> None:
        self._streams: dict[str, Any] = {}
        self._num_rows = 0

    def update(self, table: Any) -> None:
        """Take the rows of a Table or RecordBatch. Raises TypeError for a column of another type."""
        self._num_rows += table.num_rows
        for field, column in zip(table.schema, table.columns, strict=True):
            for array in getattr(column, "chunks", [column]):
                self._column(field.name, array)

    def digest(self) -> bytes:
        """32 bytes."""
        parts = {name: stream.hexdigest() for name, stream in self._streams.items()}
        return hashlib.sha256(canonical_json(["curate.table/1", self._num_rows, parts])).digest()

    def _stream(self, name: str, part: str) -> Any:
        return self._streams.setdefault(f"{name}:{part}", hashlib.sha256())

    def _column(self, name: str, array: Any) -> None:
        import pyarrow as pa  # manifests import without pyarrow; only its tables need it

        if pa.types.is_dictionary(array.type):
            array = array.cast(array.type.value_type)
        self._stream(name, "null").update(array.is_null().to_numpy(zero_copy_only=False).tobytes())
        kind = array.type
        if pa.types.is_struct(kind):
            for field, child in zip(kind, array.flatten(), strict=True):  # flatten: null where the parent is
                self._column(f"{name}.{field.name}", child)
        elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
            self._lengths(name, array.value_lengths())
            self._column(f"{name}[]", array.flatten())
        else:
            for part, data in _value_bytes(array):
                self._stream(name, part).update(data)

    def _lengths(self, name: str, lengths: Any) -> None:
        self._stream(name, "lengths").update(lengths.fill_null(0).to_numpy().astype("<i8").tobytes())


def _value_bytes(array: Any) -> Iterator[tuple[str, Any]]:
    """(part, bytes) of an array without children."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind, types = array.type, pa.types
    if types.is_fixed_size_binary(kind):
        yield f"binary{kind.byte_width}", b"".join(array.fill_null(bytes(kind.byte_width)).to_pylist())
    elif types.is_string(kind) or types.is_large_string(kind) or types.is_binary(kind) or types.is_large_binary(kind):
        is_text = types.is_string(kind) or types.is_large_string(kind)
        packed = array.cast(pa.large_string() if is_text else pa.large_binary()).fill_null("" if is_text else b"")
        yield "lengths", pc.binary_length(packed).to_numpy().astype("<i8").tobytes()
        _, offsets, data = packed.buffers()
        if len(packed) and data is not None:
            bounds = np.frombuffer(offsets, dtype=np.int64)[packed.offset : packed.offset + len(packed) + 1]
            yield "string" if is_text else "binary", memoryview(data)[bounds[0] : bounds[-1]]
    elif types.is_boolean(kind) or types.is_integer(kind) or types.is_floating(kind):
        values = array.fill_null(False if types.is_boolean(kind) else 0).to_numpy(zero_copy_only=False)
        name = f"{values.dtype.kind}{values.dtype.itemsize}"
        yield name, np.ascontiguousarray(values, dtype=values.dtype.newbyteorder("<")).tobytes()
    else:
        raise TypeError(f"a table with a column of type {kind} has no digest")
