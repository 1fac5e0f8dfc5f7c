"""Candidate pairs within the buckets of bands, in linear time whatever the size of a bucket."""

from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from numba import types
from numpy.typing import NDArray

Positions = NDArray[np.int64]
Keys = NDArray[np.uint64]

WINDOW = 16  # documents at the beginning of a bucket, and as many just before, that a document is paired with


def pair_up(keys: Keys, wholes: Keys, num_known: int) -> tuple[Positions, Positions, Positions]:
    """Positions of the later and the earlier document of each pair, and of those to carry to the next rows.

    Rows are sorted by bucket (`keys`) and, within it, by preference. A document is paired with the
    first WINDOW documents of its bucket and the last WINDOW before it. One whose text is equal to
    such a document's (`wholes`) is represented by that one: it is paired with it, in the bucket of
    the whole (where key and whole are equal), and with nothing else, and nothing is paired with it.
    The first `num_known` rows were carried from the rows before: they form no new pairs.
    """
    later, earlier = np.empty(0, np.int64), np.empty(0, np.int64)
    count, _ = _pair_up(keys, wholes, num_known, later, earlier)
    later, earlier = np.empty(count, np.int64), np.empty(count, np.int64)
    _, carried = _pair_up(keys, wholes, num_known, later, earlier)
    return later, earlier, carried


def _compiled(*signature: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    # Cached on disk, so that a node compiles once; without the lock, so that threads run at once.
    return numba.njit(signature, cache=True, nogil=True)


_Keys = types.Array(types.uint64, 1, "C", readonly=True)
_Positions = types.int64[::1]


@_compiled(_Keys, _Positions, types.int64, types.int64)
def _find_equal(wholes: Keys, window: Positions, num_near: int, row: int) -> int:
    """The document of the window with the whole of `row`, or -1."""
    for k in range(num_near):
        if wholes[window[k]] == wholes[row]:
            return int(window[k])
    return -1


@_compiled(_Keys, _Keys, types.int64, _Positions, _Positions)
def _pair_up(keys: Keys, wholes: Keys, num_known: int, later: Positions, earlier: Positions) -> tuple[int, Positions]:
    """Writes pairs while there is room, and counts all."""
    window = np.empty(2 * WINDOW, np.int64)  # the first ones, then a ring of the last ones
    size = 0  # documents of this bucket that stand for themselves
    count = 0
    for row in range(len(keys)):
        if row == 0 or keys[row] != keys[row - 1]:
            size = 0
        num_near = min(size, 2 * WINDOW)
        equal = _find_equal(wholes, window, num_near, row)
        if equal >= 0:
            if keys[row] == wholes[row]:
                if count < len(later):
                    later[count], earlier[count] = row, equal
                count += 1
            continue
        if row >= num_known:
            for k in range(num_near):
                if count < len(later):
                    later[count], earlier[count] = row, window[k]
                count += 1
        window[size if size < WINDOW else WINDOW + size % WINDOW] = row
        size += 1
    return count, np.sort(window[: min(size, 2 * WINDOW)])
