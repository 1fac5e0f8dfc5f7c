"""Runs of words that stand in a page more than once."""

from typing import Any

import numpy as np
from numba import types

from stages.kernels.compiling import compiled
from stages.kernels.html_feature_names import (
    _BASIS,
    _SHIFT,
    _ZERO,
    GRAM_WORDS,
    _Features,
    _Keys,
    _Longs,
)


@compiled(_Keys, types.uint64)
def _place(table: Any, key: Any) -> Any:
    """Where a key is, or would be, in an open table whose size is a power of two."""
    last = len(table) - 1
    at = np.int64(key >> _SHIFT) & last
    while table[at] != _ZERO and table[at] != key:
        at = (at + 1) & last
    return at


@compiled(types.int64)
def _size_for(num: int) -> int:
    """A power of two that is at least twice as large."""
    size = 16
    while size < 2 * num:
        size *= 2
    return size


@compiled(_Keys, types.int64, types.int64)
def _gram(words: Any, at: int, stop: int) -> Any:
    """Hash of the words from here on, GRAM_WORDS of them or as many as the block has; never 0."""
    value = _BASIS
    for k in range(at, min(at + GRAM_WORDS, stop)):
        value = (value ^ words[k]) * np.uint64(0x9E3779B97F4A7C15)
        value ^= value >> np.uint64(29)
    return value | np.uint64(1)


@compiled(_Keys, _Longs, _Features)
def _repeats(words: Any, firsts: Any, features: Any) -> None:
    """The share of each block's grams that blocks above it have."""
    num_blocks = len(features)
    table = np.zeros(_size_for(firsts[num_blocks] - firsts[0] + 1), np.uint64)
    for block in range(num_blocks):
        start, stop = firsts[block], firsts[block + 1]
        last = max(stop - GRAM_WORDS + 1, min(start + 1, stop))
        seen = 0
        for at in range(start, last):
            seen += table[_place(table, _gram(words, at, stop))] != _ZERO
        for at in range(start, last):
            gram = _gram(words, at, stop)
            table[_place(table, gram)] = gram
        features[block, 25] = seen / max(1, last - start)
