"""MinHash signatures from the units of texts, the hashes of their bands, and sets of shingles.

A shingle is `ngram` units in a row; a text of fewer units is one shingle. Its hash is the low 32 bits of a chain of
multiplications over the hashes of its units (stages/kernels/units.py). Permutations are the scheme `affine32` of
datasketch 2.0 with its own parameters, so that its `MinHash` gives the same signatures for the same hashes.
tests/stages/reference_minhash.py holds all of it in plain Python.
"""

import functools
from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from numba import types
from numpy.typing import NDArray

from stages.kernels.units import hash_units

Bytes = NDArray[np.uint8]
Offsets = NDArray[np.int64]
Words = NDArray[np.uint64]

SEED = 1  # of the permutations: datasketch's default
MAX_SHINGLES = 1 << 16  # of a text, the most whose hashes are compared one by one: 256 KB

_CHAIN, _CHAIN_2 = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC3A5C85C97CB3127)
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
    factors, terms = permutations(num_permutations)
    units, starts = hash_units(data, offsets)
    _sign(units, starts, factors, terms, ngram, signatures, wholes)
    return signatures, wholes, np.diff(starts)


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
    units, unit_starts = hash_units(data, offsets)
    values = np.empty(int(np.minimum(np.diff(unit_starts), MAX_SHINGLES).sum()), np.uint32)
    starts = np.zeros(len(offsets), np.int64)
    _collect(units, unit_starts, ngram, MAX_SHINGLES, values, starts[1:])
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


def _compiled(*signature: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    # Cached on disk, so that a node compiles once; without the lock, so that threads run at once.
    return numba.njit(signature, cache=True, nogil=True)


# For steps that are taken millions of times: calling what was compiled apart is slow.
_inlined: Callable[[Callable[..., Any]], Callable[..., Any]] = numba.njit(inline="always")


def _constant(dtype: Any, num_dimensions: int) -> Any:
    return types.Array(dtype, num_dimensions, "C", readonly=True)


_u32, _u64, _i64 = types.uint32, types.uint64, types.int64


@_inlined
def mix64(value: np.uint64) -> np.uint64:
    """The finalizer of MurmurHash3 for 64 bits: a bijection."""
    value ^= value >> _S33
    value *= _MIX_1
    value ^= value >> _S33
    value *= _MIX_2
    return value ^ (value >> _S33)


@_inlined
def _chain(value: np.uint64, unit: np.uint64, factor: np.uint64) -> np.uint64:
    value = (value ^ unit) * factor
    return value ^ (value >> _S29)


@_inlined
def _mix32(shingle: np.uint64) -> np.uint32:
    """The finalizer of MurmurHash3 for 32 bits, of the low 32 bits of a shingle's hash: what datasketch permutes."""
    value = np.uint32(shingle)
    value ^= value >> _S16
    value = np.uint32(value * _H1)
    value ^= value >> _S13
    value = np.uint32(value * _H2)
    return np.uint32(value ^ (value >> _S16))


@_compiled(_constant(_u64, 1), _i64, _i64, _i64, _u32[::1])
def _hash_shingles(units: Words, start: int, stop: int, ngram: int, shingles: NDArray[np.uint32]) -> int:
    """Write the hash (32 bits) of each shingle of the units of a text; gives their number. Fewer units are one."""
    ngram = min(ngram, stop - start)
    count = stop - start - ngram + 1 if ngram else 0
    for first in range(count):
        shingle = np.uint64(0)
        for k in range(start + first, start + first + ngram):
            shingle = _chain(shingle, units[k], _CHAIN)
        shingles[first] = np.uint32(shingle ^ (shingle >> _S32))
    return count


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
def _longest(starts: Offsets) -> int:
    longest = np.int64(0)
    for text in range(len(starts) - 1):
        longest = max(longest, starts[text + 1] - starts[text])
    return longest  # type: ignore[return-value]


@_compiled(
    *(_constant(_u64, 1), _constant(_i64, 1), _constant(_u32, 1), _constant(_u32, 1)),
    *(_i64, _u32[:, ::1], _u64[:, ::1]),
)
def _sign(
    units: Words,
    starts: Offsets,
    factors: NDArray[np.uint32],
    terms: NDArray[np.uint32],
    ngram: int,
    signatures: NDArray[np.uint32],
    wholes: Words,
) -> None:
    shingles = np.empty(_longest(starts), np.uint32)
    for text in range(len(starts) - 1):
        whole_1, whole_2 = np.uint64(0), np.uint64(0)
        for k in range(starts[text], starts[text + 1]):
            whole_1, whole_2 = _chain(whole_1, units[k], _CHAIN), _chain(whole_2, units[k], _CHAIN_2)
        wholes[text, 0], wholes[text, 1] = mix64(whole_1), mix64(whole_2)
        count = _hash_shingles(units, starts[text], starts[text + 1], ngram, shingles)
        _permute(shingles, count, factors, terms, signatures[text])


@_compiled(_constant(_u64, 1), _constant(_i64, 1), _i64, _i64, _u32[::1], _i64[::1])
def _collect(
    units: Words, starts: Offsets, ngram: int, most: int, values: NDArray[np.uint32], ends: NDArray[np.int64]
) -> None:
    """Write the smallest different shingles of each text, ascending, one text behind the other, and where each ends."""
    shingles = np.empty(_longest(starts), np.uint32)
    end = 0
    for text in range(len(starts) - 1):
        found = np.sort(shingles[: _hash_shingles(units, starts[text], starts[text + 1], ngram, shingles)])
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
                key = _chain(key, np.uint64(signatures[text, k]), _CHAIN)
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
