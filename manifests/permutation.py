"""A permutation of [0, n) that needs no table: a keyed Feistel network with cycle walking.

Its values are fixed for ever under the name below: numpy's own generators promise no stable streams.
"""

import hashlib

import numpy as np
from numpy.typing import NDArray

from curate.core.hashing import canonical_json

NAME = "feistel6-splitmix64/1"
_NUM_ROUNDS = 6

Uint64 = NDArray[np.uint64]


def permute(positions: NDArray[np.int64], size: int, *key: object) -> NDArray[np.int64]:
    """Where a permutation of [0, size) that belongs to `key` (JSON values) takes these positions."""
    half_bits = max(1, (max(size - 1, 1).bit_length() + 1) // 2)
    rounds = _round_keys(key)
    found = _feistel(positions.astype(np.uint64), half_bits, rounds)
    while (outside := np.flatnonzero(found >= np.uint64(size))).size:  # fewer than four turns on average
        found[outside] = _feistel(found[outside], half_bits, rounds)
    return found.astype(np.int64)


def _round_keys(key: tuple[object, ...]) -> Uint64:
    data = canonical_json([NAME, *key])
    return np.frombuffer(hashlib.sha512(data).digest()[: 8 * _NUM_ROUNDS], dtype="<u8").astype(np.uint64)


def _feistel(values: Uint64, half_bits: int, rounds: Uint64) -> Uint64:
    """One pass of the network over numbers of 2 * half_bits bits."""
    shift, mask = np.uint64(half_bits), np.uint64((1 << half_bits) - 1)
    left, right = values >> shift, values & mask
    for key in rounds:
        left, right = right, left ^ (_mixed(right ^ key) & mask)
    return (left << shift) | right


def _mixed(values: Uint64) -> Uint64:
    """The output function of splitmix64 (Steele, Lea and Flood 2014, figure 17)."""
    values = values + np.uint64(0x9E3779B97F4A7C15)
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))
