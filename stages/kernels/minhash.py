"""MinHash signatures of texts, in one pass over UTF-8, and the hashes of their bands.

A text becomes units: words, case folded and without punctuation, and single characters where a
script writes no spaces. A shingle is `ngram` units in a row. A text of fewer units is one shingle.

The hash of a unit is FNV-1a of 64 bits over its folded code points, and `mix64` of that. The hash
of a shingle is the low 32 bits of a chain of multiplications over its units. Permutations are the
scheme `affine32` of datasketch 2.0 with its own parameters, so that its `MinHash` gives the same
signatures for the same hashes. tests/stages/reference_minhash.py holds all of it in plain Python.

All of it is in one file, the meaning of flags too: what is compiled is cached until this file changes.
"""

import functools
import sys
import unicodedata
from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from numba import types
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
Offsets = NDArray[np.int64]
Words = NDArray[np.uint64]

SEED = 1  # of the permutations: datasketch's default
MAX_SHINGLES = 1 << 16  # of a text, the most whose hashes are compared one by one: 256 KB

# Scripts without spaces: each character is a unit, with the marks that follow it.
SPACELESS = (
    (0x0E00, 0x0EFF),  # Thai, Lao
    (0x0F00, 0x0FFF),  # Tibetan
    (0x1000, 0x109F),  # Myanmar
    (0x1780, 0x17FF),  # Khmer
    (0x1950, 0x19DF),  # Tai Le, New Tai Lue
    (0x1A20, 0x1AAF),  # Tai Tham
    (0x1B00, 0x1B7F),  # Balinese
    (0x2E80, 0x2FDF),  # CJK and Kangxi radicals
    (0x3005, 0x3007),
    (0x3021, 0x312F),  # numerals, Hiragana, Katakana, Bopomofo
    (0x31A0, 0x31BF),
    (0x31F0, 0x31FF),
    (0x3400, 0x4DBF),  # Han
    (0x4E00, 0x9FFF),
    (0xA000, 0xA4CF),  # Yi
    (0xA980, 0xA9DF),  # Javanese
    (0xA9E0, 0xA9FF),  # Myanmar
    (0xAA60, 0xAADF),  # Myanmar, Tai Viet
    (0xF900, 0xFAFF),
    (0xFF66, 0xFF9F),
    (0x17000, 0x18D8F),  # Tangut, Khitan
    (0x1AFF0, 0x1B2FF),  # Kana, Nushu
    (0x20000, 0x3FFFF),  # Han
)

# An entry of the table of characters: the folded code point, and what the character is.
_CODE = 0x1FFFFF
_ALONE = 1 << 21  # a unit by itself
_MARK = 1 << 22  # belongs to the unit before it
_SKIPPED = 1 << 23  # as if it were not there: soft hyphen, joiners, marks of order
_UNSTABLE = 1 << 24  # a text with it must be normalized first
# 0: parts units

_FNV_BASIS, _FNV_PRIME = np.uint64(0xCBF29CE484222325), np.uint64(0x100000001B3)
_BASIS_2, _PRIME_2 = np.uint64(0x9AE16A3B2F90404F), np.uint64(0xC3A5C85C97CB3127)
_CHAIN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1, _MIX_2 = np.uint64(0xFF51AFD7ED558CCD), np.uint64(0xC4CEB9FE1A85EC53)
_S29, _S32, _S33 = np.uint64(29), np.uint64(32), np.uint64(33)
_H1, _H2 = np.uint32(0x85EBCA6B), np.uint32(0xC2B2AE35)
_S13, _S16 = np.uint32(13), np.uint32(16)
_HIGHEST = np.uint32(0xFFFFFFFF)
_BEYOND = 1 << 32  # above any hash of a shingle


def sign(
    data: Bytes, offsets: Offsets, ngram: int, num_permutations: int
) -> tuple[NDArray[np.uint32], Words, NDArray[np.int64]]:
    """Signature, hash of the whole and number of units of each text, which must be in NFKC.

    Shapes: (bytes,), (texts + 1,) -> (texts, num_permutations), (texts, 2), (texts,). Without units
    all values of a signature are the highest.
    """
    num_texts = len(offsets) - 1
    signatures = np.full((num_texts, num_permutations), _HIGHEST, np.uint32)
    wholes = np.zeros((num_texts, 2), np.uint64)
    num_units = np.zeros(num_texts, np.int64)
    factors, terms = permutations(num_permutations)
    _sign(data, offsets, characters(), factors, terms, ngram, signatures, wholes, num_units)
    return signatures, wholes, num_units


def find_unstable(data: Bytes, offsets: Offsets) -> NDArray[np.bool_]:
    """Which texts NFKC may change in their units."""
    found = np.zeros(len(offsets) - 1, np.bool_)
    _find_unstable(data, offsets, characters(), found)
    return found


def band_keys(signatures: NDArray[np.uint32], num_bands: int) -> Words:
    """One key for each band of each signature: equal bands, equal keys. Shapes: (n, p) -> (n, num_bands)."""
    keys = np.empty((len(signatures), num_bands), np.uint64)
    _band_keys(signatures, keys)
    return keys


def count_agreements(signatures: NDArray[np.uint32], partner: NDArray[np.int64]) -> NDArray[np.int64]:
    """In how many values signature i agrees with signature partner[i]; -1 where partner[i] is negative."""
    counts = np.empty(len(partner), np.int64)
    _count_agreements(signatures, partner, counts)
    return counts


def collect_shingles(data: Bytes, offsets: Offsets, ngram: int) -> tuple[NDArray[np.uint32], Offsets]:
    """The different hashes of the shingles of each text, ascending: the smallest MAX_SHINGLES of them.

    Shapes: (bytes,), (texts + 1,) -> (hashes,), (texts + 1,): those of text i lie from offset i to i + 1.
    """
    lengths = np.diff(offsets)
    values = np.empty(int(np.minimum(lengths // 2 + 1, MAX_SHINGLES).sum()), np.uint32)
    starts = np.zeros(len(offsets), np.int64)
    _collect(data, offsets, characters(), ngram, MAX_SHINGLES, values, starts[1:])
    return values[: starts[-1]], starts


def compare_shingles(values: NDArray[np.uint32], offsets: Offsets, partner: NDArray[np.int64]) -> NDArray[np.float64]:
    """The Jaccard index of the shingles of text i and text partner[i]; -1 where partner[i] is negative.

    Exact, but for collisions of 32 bits, where both have fewer than MAX_SHINGLES; else of the hashes below the
    largest that is known of both, a sample of at least MAX_SHINGLES: its standard error is 0.002 at most.
    """
    found = np.full(len(partner), -1.0)
    _compare(values, offsets, partner, MAX_SHINGLES, found)
    return found


@functools.cache
def permutations(number: int) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
    """Factors (odd) and terms of x -> factor * x + term modulo 2^32, as datasketch draws them."""
    generator = np.random.RandomState(SEED)  # its stream is frozen by numpy
    factors = generator.randint(0, 1 << 31, number, dtype=np.uint32) * np.uint32(2) + np.uint32(1)
    return factors, generator.randint(0, 1 << 32, number, dtype=np.uint32)


@functools.cache
def characters() -> NDArray[np.uint32]:
    """What each code point is: its folded code point and flags, or 0 where it parts units.

    Letters, numbers and marks stand in units; format characters (Cf) are skipped; all else parts.
    """
    table = np.zeros(sys.maxunicode + 1, np.uint32)
    for code in range(len(table)):
        category = unicodedata.category(chr(code))
        if category[0] in "LNM":
            table[code] = _folded(chr(code)) | (_MARK if category[0] == "M" else 0)
        elif category == "Cf":
            table[code] = _SKIPPED
    for first, last in SPACELESS:
        block = table[first : last + 1]
        block[(block & (_MARK | _SKIPPED) == 0) & (block != 0)] |= _ALONE
    second = _second_parts()
    for code in range(0x80, len(table)):
        normal = unicodedata.normalize("NFKC", chr(code))
        changes = normal != chr(code) and bool(table[code] or table[list(map(ord, normal))].any())
        if changes or unicodedata.combining(chr(code)) or code in second:
            table[code] |= _UNSTABLE
    return table


def _folded(character: str) -> int:
    """Case folded, where that is one character; else the first of its lower case."""
    folded = character.casefold()
    return ord(folded if len(folded) == 1 else character.lower()[0])


def _second_parts() -> set[int]:
    """Characters that may become one with the character before them."""
    second = {*range(0x1161, 0x1176), *range(0x11A8, 0x11C3)}  # Hangul vowels and finals
    for code in range(sys.maxunicode + 1):
        parts = unicodedata.decomposition(chr(code)).split()
        if len(parts) == 2 and not parts[0].startswith("<"):
            second.add(int(parts[1], 16))
    return second


def _compiled(*signature: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    # Cached on disk, so that a node compiles once; without the lock, so that threads run at once.
    return numba.njit(signature, cache=True, nogil=True)


def _constant(dtype: Any, num_dimensions: int) -> Any:
    return types.Array(dtype, num_dimensions, "C", readonly=True)


_u8, _u32, _u64, _i64 = types.uint8, types.uint32, types.uint64, types.int64


@_compiled(_u64)
def mix64(value: np.uint64) -> np.uint64:
    """The finalizer of MurmurHash3 for 64 bits: a bijection."""
    value ^= value >> _S33
    value *= _MIX_1
    value ^= value >> _S33
    value *= _MIX_2
    return value ^ (value >> _S33)


@_compiled(_u64, _u64)
def _chain(value: np.uint64, unit: np.uint64) -> np.uint64:
    value = (value ^ unit) * _CHAIN
    return value ^ (value >> _S29)


@_compiled(_constant(_u8, 1), _i64, _i64)
def _code_point(data: Bytes, at: int, end: int) -> tuple[Any, int]:
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


@_compiled(_constant(_u8, 1), _constant(_i64, 1), _constant(_u32, 1), types.boolean[::1])
def _find_unstable(data: Bytes, offsets: Offsets, table: NDArray[np.uint32], found: NDArray[np.bool_]) -> None:
    for text in range(len(offsets) - 1):
        at, end = offsets[text], offsets[text + 1]
        while at < end:
            if data[at] < 0x80:
                at += 1
                continue
            code, size = _code_point(data, at, end)
            if table[code] & _UNSTABLE:
                found[text] = True
                break
            at += size


@_compiled(_u64)
def _mix32(shingle: np.uint64) -> np.uint32:
    """The finalizer of MurmurHash3 for 32 bits, of the low 32 bits of a shingle's hash: what datasketch permutes."""
    value = np.uint32(shingle)
    value ^= value >> _S16
    value = np.uint32(value * _H1)
    value ^= value >> _S13
    value = np.uint32(value * _H2)
    return np.uint32(value ^ (value >> _S16))


@_compiled(_constant(_u8, 1), _constant(_i64, 1), _i64, _constant(_u32, 1), _u64[::1], _u64[::1])
def _hash_units(data: Bytes, offsets: Offsets, text: int, table: NDArray[np.uint32], units: Words, whole: Words) -> int:
    """Write the hash of each unit of a text, and both hashes of the whole; gives the number of units."""
    at, end = offsets[text], offsets[text + 1]
    whole_1, whole_2 = np.uint64(0), np.uint64(0)
    unit_1, unit_2 = _FNV_BASIS, _BASIS_2
    count = 0
    is_open, is_alone = False, False
    while at <= end:
        entry, size = np.uint32(0), 1  # a text ends as if something that parts units stood behind it
        if at < end:
            if data[at] < 0x80:
                entry = table[data[at]]
            else:
                code, size = _code_point(data, at, end)
                entry = table[code]
        at += size
        if entry & _SKIPPED:
            continue
        folded = np.uint64(entry & _CODE)
        starts_alone = (entry & _ALONE) != 0
        if is_open and (folded == 0 or ((is_alone or starts_alone) and not entry & _MARK)):
            unit_1, unit_2 = mix64(unit_1), mix64(unit_2)
            whole_1, whole_2 = _chain(whole_1, unit_1), _chain(whole_2, unit_2)
            units[count] = unit_1
            count += 1
            unit_1, unit_2, is_open = _FNV_BASIS, _BASIS_2, False
        if folded:
            if not is_open:
                is_open, is_alone = True, starts_alone
            unit_1 = (unit_1 ^ folded) * _FNV_PRIME
            unit_2 = (unit_2 ^ folded) * _PRIME_2
    whole[0], whole[1] = whole_1, whole_2
    return count


@_compiled(_u64[::1], _i64, _i64, _u32[::1])
def _hash_shingles(units: Words, count: int, ngram: int, shingles: NDArray[np.uint32]) -> int:
    """Write the hash (32 bits) of each shingle of so many units; gives their number. Fewer units are one shingle."""
    ngram = min(ngram, count)
    for first in range(count - ngram + 1 if count else 0):
        shingle = np.uint64(0)
        for k in range(first, first + ngram):
            shingle = _chain(shingle, units[k])
        shingles[first] = np.uint32(shingle ^ (shingle >> _S32))
    return count - ngram + 1 if count else 0


@_compiled(_u32[::1], _i64, _constant(_u32, 1), _constant(_u32, 1), _u32[::1])
def _permute(
    shingles: NDArray[np.uint32],
    count: int,
    factors: NDArray[np.uint32],
    terms: NDArray[np.uint32],
    lowest: NDArray[np.uint32],
) -> None:
    """Lower each value of a signature to the smallest that its permutation makes of the shingles."""
    for first in range(0, count, 4):  # four at once: each value is then loaded and stored a fourth as often
        last = count - 1
        one, two = _mix32(np.uint64(shingles[first])), _mix32(np.uint64(shingles[min(first + 1, last)]))
        three, four = (
            _mix32(np.uint64(shingles[min(first + 2, last)])),
            _mix32(np.uint64(shingles[min(first + 3, last)])),
        )
        for k in range(len(lowest)):
            factor, term = factors[k], terms[k]
            low = min(np.uint32(factor * one + term), np.uint32(factor * two + term))
            high = min(np.uint32(factor * three + term), np.uint32(factor * four + term))
            lowest[k] = min(lowest[k], min(low, high))


@_compiled(_constant(_i64, 1))
def _most_units(offsets: Offsets) -> int:
    """More units than any of the texts has: one needs two bytes at least, but for the last."""
    most = 0
    for text in range(len(offsets) - 1):
        most = max(most, offsets[text + 1] - offsets[text])
    return most // 2 + 2


@_compiled(
    *(_constant(_u8, 1), _constant(_i64, 1), _constant(_u32, 1), _constant(_u32, 1), _constant(_u32, 1)),
    *(_i64, _u32[:, ::1], _u64[:, ::1], _i64[::1]),
)
def _sign(
    data: Bytes,
    offsets: Offsets,
    table: NDArray[np.uint32],
    factors: NDArray[np.uint32],
    terms: NDArray[np.uint32],
    ngram: int,
    signatures: NDArray[np.uint32],
    wholes: Words,
    num_units: NDArray[np.int64],
) -> None:
    units = np.empty(_most_units(offsets), np.uint64)
    shingles = np.empty(len(units), np.uint32)
    for text in range(len(offsets) - 1):
        count = _hash_units(data, offsets, text, table, units, wholes[text])
        num_shingles = _hash_shingles(units, count, ngram, shingles)
        _permute(shingles, num_shingles, factors, terms, signatures[text])
        wholes[text, 0], wholes[text, 1] = mix64(wholes[text, 0]), mix64(wholes[text, 1])
        num_units[text] = count


@_compiled(_constant(_u8, 1), _constant(_i64, 1), _constant(_u32, 1), _i64, _i64, _u32[::1], _i64[::1])
def _collect(
    data: Bytes,
    offsets: Offsets,
    table: NDArray[np.uint32],
    ngram: int,
    most: int,
    values: NDArray[np.uint32],
    ends: NDArray[np.int64],
) -> None:
    """Write the smallest different shingles of each text, ascending, one text behind the other, and where each ends."""
    units = np.empty(_most_units(offsets), np.uint64)
    shingles = np.empty(len(units), np.uint32)
    whole = np.empty(2, np.uint64)
    end = 0
    for text in range(len(offsets) - 1):
        count = _hash_units(data, offsets, text, table, units, whole)
        found = np.sort(shingles[: _hash_shingles(units, count, ngram, shingles)])
        start = end
        for k in range(len(found)):
            if end - start < most and (k == 0 or found[k] != found[k - 1]):
                values[end] = found[k]
                end += 1
        ends[text] = end


@_compiled(_constant(_u32, 1), _i64, _i64, _i64, _i64, _i64)
def _similarity(values: NDArray[np.uint32], start_1: int, stop_1: int, start_2: int, stop_2: int, most: int) -> float:
    """The Jaccard index of two ascending stretches. Of a full one, what lies above its last value is not known."""
    limit = np.uint32(_HIGHEST)
    if stop_1 - start_1 == most:
        limit = min(limit, values[stop_1 - 1])
    if stop_2 - start_2 == most:
        limit = min(limit, values[stop_2 - 1])
    one, other = np.int64(start_1), np.int64(start_2)
    common = union = 0
    while one < stop_1 or other < stop_2:
        left = np.int64(values[one]) if one < stop_1 else np.int64(_BEYOND)
        right = np.int64(values[other]) if other < stop_2 else np.int64(_BEYOND)
        if min(left, right) > limit:
            break
        union += 1
        common += left == right
        one += left <= right
        other += right <= left
    return common / union if union else 0.0


@_compiled(
    *(_constant(_u32, 1), _constant(_i64, 1), _constant(_i64, 1), _i64, types.float64[::1]),
)
def _compare(
    values: NDArray[np.uint32], offsets: Offsets, partner: NDArray[np.int64], most: int, found: NDArray[np.float64]
) -> None:
    for one in range(len(partner)):
        other = partner[one]
        if other >= 0:
            found[one] = _similarity(values, offsets[one], offsets[one + 1], offsets[other], offsets[other + 1], most)


@_compiled(_constant(_u32, 2), _u64[:, ::1])
def _band_keys(signatures: NDArray[np.uint32], keys: Words) -> None:
    num_bands = keys.shape[1]
    num_rows = signatures.shape[1] // num_bands
    for text in range(len(keys)):
        for band in range(num_bands):
            key = np.uint64(band + 1)
            for k in range(band * num_rows, (band + 1) * num_rows):
                key = _chain(key, np.uint64(signatures[text, k]))
            keys[text, band] = mix64(key)


@_compiled(_constant(_u32, 2), _constant(_i64, 1), _i64[::1])
def _count_agreements(signatures: NDArray[np.uint32], partner: NDArray[np.int64], counts: NDArray[np.int64]) -> None:
    for one in range(len(partner)):
        other = partner[one]
        counts[one] = -1
        if other >= 0:
            count = 0
            for k in range(signatures.shape[1]):
                count += signatures[one, k] == signatures[other, k]
            counts[one] = count
