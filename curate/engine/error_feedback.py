"""The order of a mix, compiled: each place goes to the group that is furthest behind its share."""

from typing import Any

import numba
import numpy as np


@numba.njit("Tuple((int64[::1], int64[::1]))(int64[::1], int64, int64)", cache=True, nogil=True)
def error_feedback(counts: Any, first: int, stop: int) -> Any:
    """The group at each of the places [first, stop), and how many places it had before.

    It is the group that is furthest behind its share of the places so far, the first of equals.
    """
    total = counts.sum()
    given = np.zeros(len(counts), np.int64)
    group = np.empty(stop - first, np.int64)
    number = np.empty(stop - first, np.int64)
    for place in range(stop):
        best = -1
        most = np.int64(0)
        for index in range(len(counts)):
            behind = counts[index] * (place + 1) - given[index] * total
            if given[index] < counts[index] and (best < 0 or behind > most):
                best, most = index, behind
        if place >= first:
            group[place - first] = best
            number[place - first] = given[best]
        given[best] += 1
    return group, number
