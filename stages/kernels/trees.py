"""Boosted trees over two arrays of features, and what the second stage sees of the first one's answers.

tests/stages/reference_trees.py is the same in plain Python.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numba import types
from numpy.typing import NDArray

from stages.kernels.compiling import compiled

CONTEXT = (
    "own",
    *(f"before_{number}" for number in (3, 2, 1)),
    *(f"after_{number}" for number in (1, 2, 3)),
    *(f"within_{number}" for number in (2, 5, 12, 30)),
    *[
        "above_share",
        "page_mean",
        "page_chars",
        "page_max",
        "above_mean",
        "below_mean",
        "alike",
        "owner",
        "parent",
        "grandparent",
        "kept_chars",
    ],
)
MAX_WEIGHT = 600.0  # letters of a block that count


class Trees(NamedTuple):
    """Trees one after another. A node with a feature asks `value <= threshold`; one with -1 holds a leaf's value there.

    Shapes: all (nodes,), but roots (trees,).
    """

    features: NDArray[np.int16]
    thresholds: NDArray[np.float32]
    left: NDArray[np.int16]
    right: NDArray[np.int16]
    roots: NDArray[np.int16]


_Floats = types.float32[::1]
_Table = types.float32[:, ::1]
_Groups = types.int64[:, ::1]
_Shorts = types.Array(types.int16, 1, "C", readonly=True)
_Thresholds = types.Array(types.float32, 1, "C", readonly=True)


def probabilities(trees: Trees, features: NDArray[np.float32], context: NDArray[np.float32]) -> NDArray[np.float32]:
    """What the trees say of each row. `context`: the features behind `features`, perhaps no column."""
    answers = np.zeros(len(features), np.float32)
    _walk(*trees, features, context, answers)
    return answers


def surroundings(
    features: NDArray[np.float32], groups: NDArray[np.int64], answers: NDArray[np.float32]
) -> NDArray[np.float32]:
    """For each block the first answers of it and its neighbors, means by letters. Shape: (blocks, len(CONTEXT))."""
    context = np.empty((len(answers), len(CONTEXT)), np.float32)
    if len(answers):
        _surround(np.ascontiguousarray(features[:, 0]), groups, answers, context)
    return context


@compiled(_Shorts, _Thresholds, _Shorts, _Shorts, _Shorts, _Table, _Table, _Floats)
def _walk(
    which: Any, thresholds: Any, left: Any, right: Any, roots: Any, features: Any, context: Any, answers: Any
) -> None:
    num_features = features.shape[1]
    for row in range(len(features)):
        total = 0.0
        for tree in range(len(roots)):
            node = np.int64(roots[tree])
            feature = which[node]
            while feature >= 0:
                value = features[row, feature] if feature < num_features else context[row, feature - num_features]
                node = np.int64(left[node] if value <= thresholds[node] else right[node])
                feature = which[node]
            total += thresholds[node]
        answers[row] = 1.0 / (1.0 + math.exp(-total))


@compiled(_Floats, _Floats, _Groups, types.int64, _Table, types.int64)
def _average(answers: Any, weights: Any, groups: Any, column: int, context: Any, to: int) -> None:
    """Mean of the answers of each group."""
    size = groups[:, column].max() + 1
    sums, totals = np.zeros(size, np.float64), np.zeros(size, np.float64)
    for row in range(len(answers)):
        sums[groups[row, column]] += answers[row] * weights[row]
        totals[groups[row, column]] += weights[row]
    for row in range(len(answers)):
        context[row, to] = sums[groups[row, column]] / totals[groups[row, column]]


@compiled(_Floats, _Groups, _Floats, _Table)
def _surround(chars: Any, groups: Any, answers: Any, context: Any) -> None:
    num = len(answers)
    weights = np.empty(num, np.float32)
    sums, totals = np.zeros(num + 1, np.float64), np.zeros(num + 1, np.float64)
    highest, num_kept = 0.0, 0
    for row in range(num):
        weights[row] = min(chars[row], MAX_WEIGHT) + 1
        sums[row + 1] = sums[row] + answers[row] * weights[row]
        totals[row + 1] = totals[row] + weights[row]
        highest = max(highest, answers[row])
        num_kept += answers[row] > 0.5
    for row in range(num):
        own = context[row]
        own[0] = answers[row]
        for k in range(1, 4):
            own[4 - k] = answers[row - k] if row >= k else -0.1
            own[3 + k] = answers[row + k] if row + k < num else -0.1
        at = 7
        for reach in (2, 5, 12, 30):
            first, last = max(0, row - reach), min(num, row + reach + 1)
            own[at] = (sums[last] - sums[first]) / (totals[last] - totals[first])
            at += 1
        own[11], own[12], own[13] = sums[row] / max(1.0, sums[num]), sums[num] / totals[num], sums[num]
        own[14], own[15] = highest, sums[row] / max(1.0, totals[row])
        own[16] = (sums[num] - sums[row + 1]) / max(1.0, totals[num] - totals[row + 1])
        own[21] = sums[num] / max(1, num_kept)
    for column in range(4):
        _average(answers, weights, groups, column, context, 17 + column)
