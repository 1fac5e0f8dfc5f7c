"""The order of a mix, compiled: each place goes to the group that is furthest behind its share."""

from typing import Any

import numba
import numpy as np


@numba.njit("int64[::1](int64[::1], int64)", cache=True, nogil=True)
def error_feedback(counts: Any, stop: int) -> Any:
    """The group at each of the first `stop` places: the one furthest behind its share, the first of equals."""
    total = counts.sum()
    given = np.zeros(len(counts), np.int64)
    chosen = np.empty(stop, np.int64)
    for place in range(stop):
        best = -1
        most = np.int64(0)
        for index in range(len(counts)):
            behind = counts[index] * (place + 1) - given[index] * total
            if given[index] < counts[index] and (best < 0 or behind > most):
                best, most = index, behind
        given[best] += 1
        chosen[place] = best
    return chosen
