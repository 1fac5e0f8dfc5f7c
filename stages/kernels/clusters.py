"""Clusters of similar documents and whom each names, over arrays in the memory of one process.

The answer is that of the rounds in stages/clusters.py. Documents are numbered in the order of their rows: by key, a
well spread hash of the id, so that the first bits of a key lead to one in about one step.
"""

from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from numba import types
from numpy.typing import NDArray

Keys = NDArray[np.uint64]
Words = NDArray[np.uint64]
Numbers = NDArray[np.int32]
Relations = NDArray[np.uint8]

MAX_DOCUMENTS = (1 << 31) - 1


def find_documents(keys: Keys, ids: Words, wanted_keys: Keys, wanted: Words) -> Numbers:
    """The number of each wanted id among ids that are sorted by (key, id). Raises ValueError for an unknown one."""
    found = np.empty(len(wanted), np.int32)
    if _find(keys, ids, wanted_keys, wanted, found):
        raise ValueError("a pair names a document that has no row itself")
    return found


def join(one: Numbers, other: Numbers, ids: Words) -> Numbers:
    """For each document the number of the smallest id that it is connected to by pairs (union-find)."""
    parent = np.arange(len(ids), dtype=np.int32)
    _join(one, other, ids, parent)
    return parent


def name_keepers(
    later: Numbers,
    earlier: Numbers,
    is_equal: NDArray[np.bool_],
    preference: Keys,
    ids: Words,
    is_known: NDArray[np.bool_],
) -> Numbers:
    """For each document the one that is kept for it, itself where it is kept.

    Pairs are sorted by `later`. A document is removed in favor of the first kept one, by (preference, id), that it
    is similar to; where its text is equal to a removed document's, that one's keeper counts, too. Documents that are
    not known are named by nobody.
    """
    keeper = np.full(len(ids), -1, np.int32)
    starts = np.append(0, np.cumsum(np.bincount(later, minlength=len(ids))))
    _name_keepers(starts, earlier, is_equal, preference, ids, is_known, keeper)
    return keeper


def _compiled(*signature: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    # Cached on disk, so that a node compiles once; without the lock, so that threads run at once.
    return numba.njit(signature, cache=True, nogil=True)


_inlined: Callable[[Callable[..., Any]], Callable[..., Any]] = numba.njit(inline="always")


def _constant(dtype: Any, num_dimensions: int) -> Any:
    return types.Array(dtype, num_dimensions, "C", readonly=True)


_Keys, _Words = _constant(types.uint64, 1), _constant(types.uint64, 2)
_Numbers = _constant(types.int32, 1)


@_compiled(_Keys, _Words, _Keys, _Words, types.int32[::1])
def _find(keys: Keys, ids: Words, wanted_keys: Keys, wanted: Words, found: Numbers) -> int:
    """Writes numbers, -1 for an unknown id; gives how many are unknown."""
    num_bits: Any = 1
    while 1 << num_bits < len(keys):
        num_bits += 1
    shift = np.uint64(64 - num_bits)
    starts = np.zeros((1 << num_bits) + 1, np.int32)  # of the ids whose keys begin with so many bits
    for k in range(len(keys)):
        starts[np.int64(keys[k] >> shift) + 1] += 1
    for prefix in range(1 << num_bits):
        starts[prefix + 1] += starts[prefix]
    num_unknown = 0
    for k in range(len(wanted)):
        bucket = np.int64(wanted_keys[k] >> shift)
        found[k] = -1
        for at in range(starts[bucket], starts[bucket + 1]):
            if ids[at, 0] == wanted[k, 0] and ids[at, 1] == wanted[k, 1]:
                found[k] = at
                break
        num_unknown += found[k] < 0
    return num_unknown


@_inlined
def _is_less(ids: Words, one: int, other: int) -> Any:
    return ids[one, 0] < ids[other, 0] or (ids[one, 0] == ids[other, 0] and ids[one, 1] < ids[other, 1])


@_inlined
def _root(parent: Numbers, node: int) -> int:
    while parent[node] != node:
        parent[node] = parent[parent[node]]  # halves the path
        node = parent[node]
    return node


@_compiled(_Numbers, _Numbers, _Words, types.int32[::1])
def _join(one: Numbers, other: Numbers, ids: Words, parent: Numbers) -> None:
    for k in range(len(one)):
        left, right = _root(parent, one[k]), _root(parent, other[k])
        if _is_less(ids, left, right):
            parent[right] = left
        elif left != right:
            parent[left] = right
    for node in range(len(parent)):
        parent[node] = _root(parent, node)


@_inlined
def _comes_before(preference: Keys, ids: Words, one: Any, other: Any) -> Any:
    if preference[one] != preference[other]:
        return preference[one] < preference[other]
    return _is_less(ids, one, other)


@_compiled(
    *(_constant(types.int64, 1), _Numbers, _constant(types.boolean, 1), _Keys, _Words, _constant(types.boolean, 1)),
    types.int32[::1],
)
def _name_keepers(
    starts: NDArray[np.int64],
    earlier: Numbers,
    is_equal: NDArray[np.bool_],
    preference: Keys,
    ids: Words,
    is_known: NDArray[np.bool_],
    keeper: Numbers,
) -> None:
    """Depth first: a document is decided after those before it that it is paired with; these form no circle."""
    stack = np.empty(len(keeper), np.int32)
    for first in range(len(keeper)):
        stack[0] = first
        depth = 1 if keeper[first] < 0 else 0
        while depth:
            document = stack[depth - 1]
            best = np.int64(-1)
            is_ready = True
            for pair in range(starts[document], starts[document + 1]):
                other = earlier[pair]
                if keeper[other] < 0:
                    stack[depth] = other
                    depth += 1
                    is_ready = False
                    break
                kept = np.int64(keeper[other])
                counts = is_known[other] and (is_equal[pair] or kept == other)
                if counts and (best < 0 or _comes_before(preference, ids, kept, best)):
                    best = kept
            if is_ready:
                keeper[document] = document if best < 0 else best
                depth -= 1
