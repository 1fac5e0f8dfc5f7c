"""Ids of documents as numbers, for code that works on whole columns."""

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Words = NDArray[np.uint64]  # (ids, 2): both halves, big-endian, so that they compare as the ids do
Flags = NDArray[np.bool_]

# The finalizer of MurmurHash3 for 64 bits, after both halves were made one.
_ODD, _S33 = np.uint64(0x9E3779B97F4A7C15), np.uint64(33)
_MIX_1, _MIX_2 = np.uint64(0xFF51AFD7ED558CCD), np.uint64(0xC4CEB9FE1A85EC53)


def id_words(ids: pa.Array | pa.ChunkedArray) -> Words:
    """Ids (binary(16), no nulls) as numbers."""
    ids = one_array(ids)
    raw = np.frombuffer(ids.buffers()[1] or b"", ">u8")
    return raw[ids.offset * 2 : (ids.offset + len(ids)) * 2].reshape(-1, 2).astype(np.uint64)


def id_array(words: Words) -> pa.Array:
    """Numbers as ids."""
    return pa.Array.from_buffers(pa.binary(16), len(words), [None, pa.py_buffer(words.astype(">u8").tobytes())])


def id_keys(words: Words) -> Words:
    """Well spread keys, also for ids that were chosen for being small. Shape: (ids,)."""
    key = words[:, 0] ^ (words[:, 1] * _ODD)
    key = (key ^ (key >> _S33)) * _MIX_1
    key = (key ^ (key >> _S33)) * _MIX_2
    spread: Words = key ^ (key >> _S33)
    return spread


def is_less(left: Words, right: Words) -> Flags:
    """Whether each id on the left sorts before the one on the right."""
    less: Flags = (left[:, 0] < right[:, 0]) | ((left[:, 0] == right[:, 0]) & (left[:, 1] < right[:, 1]))
    return less


def is_equal(left: Words, right: Words) -> Flags:
    """Whether ids are equal, pair by pair."""
    equal: Flags = (left[:, 0] == right[:, 0]) & (left[:, 1] == right[:, 1])  # thrice as fast as all(axis=1)
    return equal


def one_array(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """A column of a table or batch as one array."""
    if isinstance(column, pa.ChunkedArray):
        return column.combine_chunks() if column.num_chunks else pa.array([], column.type)
    return column
