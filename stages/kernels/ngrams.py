"""Hashes of runs of units, and which of them are in a set."""

from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from numba import types
from numpy.typing import NDArray

from stages.kernels.units import Offsets, Words

_FACTOR, _S29, _SHIFT = np.uint64(0x9E3779B97F4A7C15), np.uint64(29), np.uint64(44)
TABLE_SIZE = 1 << 20  # bytes: whether a hash of the set begins with these 20 bits


def hash_ngrams(units: Words, starts: Offsets, ngram: int) -> tuple[Words, Offsets]:
    """The hashes of all runs of `ngram` units of each text, and their offsets. A shorter text has none."""
    counts = np.maximum(np.diff(starts) - ngram + 1, 0)
    offsets = np.append(0, np.cumsum(counts))
    hashes = np.empty(int(offsets[-1]), np.uint64)
    _hash_ngrams(units, starts, offsets, ngram, hashes)
    return hashes, offsets


def first_in(hashes: Words, offsets: Offsets, wanted: Words) -> NDArray[np.int64]:
    """For each text the place in `wanted` (ascending) of its first hash that is in there; -1 where none is."""
    table = np.zeros(TABLE_SIZE, np.uint8)
    table[wanted >> _SHIFT] = 1
    found = np.full(len(offsets) - 1, -1, np.int64)
    _first_in(hashes, offsets, wanted, table, found)
    return found


def _compiled(*signature: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    # Cached on disk, so that a node compiles once; without the lock, so that threads run at once.
    return numba.njit(signature, cache=True, nogil=True)


def _constant(dtype: Any) -> Any:
    return types.Array(dtype, 1, "C", readonly=True)


_u64, _i64 = _constant(types.uint64), _constant(types.int64)


@_compiled(_u64, _i64, _i64, types.int64, types.uint64[::1])
def _hash_ngrams(units: Words, starts: Offsets, offsets: Offsets, ngram: int, hashes: Words) -> None:
    for text in range(len(starts) - 1):
        for k in range(offsets[text + 1] - offsets[text]):
            value = np.uint64(ngram)
            for at in range(starts[text] + k, starts[text] + k + ngram):
                value = (value ^ units[at]) * _FACTOR
                value ^= value >> _S29
            hashes[offsets[text] + k] = value ^ (value << np.uint64(32))


@_compiled(_u64, _i64, _u64, _constant(types.uint8), types.int64[::1])
def _first_in(
    hashes: Words, offsets: Offsets, wanted: Words, table: NDArray[np.uint8], found: NDArray[np.int64]
) -> None:
    for text in range(len(offsets) - 1):
        for k in range(offsets[text], offsets[text + 1]):
            if table[hashes[k] >> _SHIFT]:
                place = np.searchsorted(wanted, hashes[k])
                if place < len(wanted) and wanted[place] == hashes[k]:
                    found[text] = place
                    break
