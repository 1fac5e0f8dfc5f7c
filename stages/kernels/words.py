"""Counts of words and lines, in one pass over UTF-8.

A word is a longest run without white space, as of Python's str.split(); a line lies between line
feeds, and counts where it has a word. tests/stages/test_statistics.py holds the plain Python reference.
"""

import functools
from collections.abc import Callable
from enum import IntEnum
from typing import Any

import numba
import numpy as np
from numba import types
from numpy.typing import NDArray


class Count(IntEnum):
    """Columns of the result."""

    WORDS = 0
    WORD_CHARS = 1  # code points in words
    HASHES = 2  # `#`
    ELLIPSES = 3  # `...` and U+2026
    LINES = 4  # with at least one word
    BULLET_LINES = 5  # whose first character is a bullet
    ELLIPSIS_LINES = 6  # that end in an ellipsis
    ALPHABETIC_WORDS = 7  # with at least one alphabetic character
    STOP_WORDS = 8  # different ones of STOP_WORDS


# Rae et al. 2021 (Gopher), appendix A1.1.
STOP_WORDS = ("the", "be", "to", "of", "and", "that", "have", "with")
BULLETS = "\u2022\u2023\u2043\u2219\u25cf\u25e6\u25aa*-"

_SPACE, _ALPHABETIC, _PUNCTUATION, _BULLET = 1, 2, 4, 8
# The length stands before the letters, so that a NUL behind them does not go unseen.
_KEYS = tuple(len(word) << 8 * len(word) | int.from_bytes(word.encode("ascii"), "little") for word in STOP_WORDS)
_LONGEST = max(map(len, STOP_WORDS))
_NUM_COUNTS = len(Count)

_WORDS, _WORD_CHARS, _HASHES, _ELLIPSES, _LINES, _BULLET_LINES, _ELLIPSIS_LINES, _ALPHABETIC_WORDS, _STOP_WORDS = map(
    int, Count
)


def count_words(data: NDArray[np.uint8], offsets: NDArray[np.int64]) -> NDArray[np.int64]:
    """Counts of each text. Shapes: (bytes,), (texts + 1,) -> (texts, len(Count))."""
    counts = np.zeros((len(offsets) - 1, _NUM_COUNTS), np.int64)
    _count(data, offsets, _classes(), counts)
    return counts


@functools.cache
def _classes() -> NDArray[np.uint8]:
    """What each code point is, as bits."""
    classes = np.zeros(0x110000, np.uint8)
    for code in range(len(classes)):
        character = chr(code)
        classes[code] = character.isspace() * _SPACE | character.isalpha() * _ALPHABETIC
    classes[[code for code in range(33, 127) if not chr(code).isalnum()]] |= _PUNCTUATION
    classes[[ord(character) for character in BULLETS]] |= _BULLET
    return classes


def _compiled(*signature: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    # Cached on disk, so that a node compiles once; without the lock, so that threads run at once.
    return numba.njit(signature, cache=True, nogil=True)


_Bytes = types.Array(types.uint8, 1, "C", readonly=True)
_Offsets = types.Array(types.int64, 1, "C", readonly=True)


@_compiled(_Bytes, types.int64, types.int64)
def _code_point(data: NDArray[np.uint8], at: int, end: int) -> tuple[Any, int]:
    """The code point at a position before `end`, and its bytes; bytes that are no UTF-8 are one each."""
    first = np.int64(data[at])
    if first < 0x80:
        return first, 1
    size = 2 if 0xC0 <= first < 0xE0 else 3 if 0xE0 <= first < 0xF0 else 4 if 0xF0 <= first < 0xF8 else 1
    if size == 1 or at + size > end:
        return 0xFFFD, 1
    code = first & (0x7F >> size)
    for k in range(1, size):
        code = code << 6 | np.int64(data[at + k]) & 0x3F
    return (code, size) if code < 0x110000 else (0xFFFD, size)


@_compiled(_Bytes, _Bytes, types.int64, types.int64)
def _stop_word_bit(data: NDArray[np.uint8], classes: NDArray[np.uint8], start: int, end: int) -> int:
    """1 << number of the stop word that data[start:end] is, apart from case and punctuation around it; else 0."""
    while start < end and classes[data[start]] & _PUNCTUATION:
        start += 1
    while start < end and classes[data[end - 1]] & _PUNCTUATION:
        end -= 1
    if end - start > _LONGEST:
        return 0
    key: Any = end - start
    for at in range(end - 1, start - 1, -1):
        letter = np.int64(data[at])
        key = key << 8 | (letter | 0x20 if 0x41 <= letter <= 0x5A else letter)
    for number in range(len(_KEYS)):
        if key == _KEYS[number]:
            return 1 << number
    return 0


@_compiled(_Bytes, _Offsets, _Bytes, types.int64[:, ::1])
def _count(
    data: NDArray[np.uint8], offsets: NDArray[np.int64], classes: NDArray[np.uint8], counts: NDArray[np.int64]
) -> None:
    for text in range(len(offsets) - 1):
        row = counts[text]
        at, end = offsets[text], offsets[text + 1]
        word = np.int64(-1)  # where the word at hand begins
        alphabetic = False  # whether it has such a character
        in_line = False  # whether the line has a word
        dots = 0  # in a row, up to the position
        ellipsis = False  # whether the line, as far as its last word, ends in an ellipsis
        stop_words = 0
        while at <= end:
            code, size = _code_point(data, at, end) if at < end else (0x0A, 1)
            kind = classes[code]
            if kind & _SPACE:
                if word >= 0:
                    row[_WORDS] += 1
                    row[_ALPHABETIC_WORDS] += alphabetic
                    stop_words |= _stop_word_bit(data, classes, word, at)
                    word = np.int64(-1)
                dots = 0
                if code == 0x0A and in_line:
                    row[_LINES] += 1
                    row[_ELLIPSIS_LINES] += ellipsis
                    in_line = False
            else:
                if word < 0:
                    word, alphabetic = at, False
                if not in_line:
                    in_line = True
                    row[_BULLET_LINES] += (kind & _BULLET) != 0
                row[_WORD_CHARS] += 1
                row[_HASHES] += code == 0x23
                alphabetic |= (kind & _ALPHABETIC) != 0
                dots = dots + 1 if code == 0x2E else 0
                row[_ELLIPSES] += code == 0x2026 or (dots > 0 and dots % 3 == 0)
                ellipsis = code == 0x2026 or dots >= 3
            at += size
        while stop_words:
            row[_STOP_WORDS] += stop_words & 1
            stop_words >>= 1
