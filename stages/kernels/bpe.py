"""Byte-pair encoding word by word, with the ids of words that were seen before.

A word is a run of spaces and what follows up to the next space. Where no piece of a model holds a
space behind another character, no merge crosses from one word to the next, so each word can be
encoded alone, and once. A character that stands in no piece of several ends a word as well.
tests/stages/reference_bpe.py holds the plain Python reference.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numba
import numpy as np
from numba import types
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]

NUM_SLOTS = 1 << 20
MAX_WORDS = 1 << 19
MAX_WORD_BYTES = 64  # longer words are encoded each time
ARENA_WORDS = 10 << 20  # of 32 bits
MAX_SHORT = 24  # symbols of a word whose pairs are looked through; a heap is slower for few
SPACE, MARK = 0x20, 0x2581
NO_MERGE = (1 << 63) - 1

_PRIME = np.uint64(0x100000001B3)  # FNV-1a
_BASIS = np.uint64(0xCBF29CE484222325)
_MIX = np.uint64(0x9E3779B97F4A7C15)
_FILTER_BITS = 21  # of the filter before the table of pairs: 256 KiB stay in a cache


@dataclass(frozen=True, kw_only=True, eq=False)
class Merges:
    """A model as tables."""

    char_ids: Int32  # (0x110000,): piece of each code point, -1 where there is none
    byte_ids: Int32  # (256,)
    pair_keys: NDArray[np.uint64]  # (power of two,): left << 32 | right, plus 1; 0 where free
    pair_merges: Int64  # rank << 32 | piece that the pair makes; the lowest merges first
    pair_filter: NDArray[np.uint64]  # a bit for each hash that a pair has
    isolated: Bytes  # (256,): ASCII characters that are in no piece of several characters


@dataclass(frozen=True, kw_only=True, eq=False)
class Memory:
    """Words that were encoded and their ids, 48 MiB; forgotten all at once when full.

    A slot holds the upper half of a word's hash and where its entry begins. An entry, in units of 32
    bits: number of bytes and of ids, the bytes, the ids.
    """

    slots: NDArray[np.uint64]  # (NUM_SLOTS,): 0 where free
    arena: Int32  # (ARENA_WORDS,)
    used: Int64  # words; units of the arena


def new_memory() -> Memory:
    """A memory without words."""
    return Memory(
        slots=np.zeros(NUM_SLOTS, np.uint64), arena=np.zeros(ARENA_WORDS, np.int32), used=np.array([0, 1], np.int64)
    )


def pair_tables(pairs: dict[tuple[int, int], int]) -> tuple[NDArray[np.uint64], Int64, NDArray[np.uint64]]:
    """`pair_keys`, `pair_merges` and `pair_filter` of Merges, from (left, right): rank << 32 | piece."""
    num_slots = 1 << max(4, (2 * len(pairs)).bit_length())
    keys, merges = np.zeros(num_slots, np.uint64), np.zeros(num_slots, np.int64)
    bits = np.zeros(1 << _FILTER_BITS - 6, np.uint64)
    for (left, right), merged in pairs.items():
        _insert(keys, merges, bits, left, right, merged)
    return keys, merges, bits


def encode_texts(
    data: Bytes, offsets: Int64, before: int, after: int, dummy_prefix: bool, merges: Merges, memory: Memory
) -> tuple[Int32, Int64]:
    """Ids of all texts end to end, each between `before` and `after` where these are not -1, and where each begins.

    Shapes: (bytes,), (texts + 1,) -> (ids,), (texts + 1,). The ids are a view of room for one a byte.
    """
    starts = np.zeros(len(offsets), np.int64)
    out = np.empty(offsets[-1] - offsets[0] + 3 * len(offsets), np.int32)
    _encode(
        data, offsets, before, after, dummy_prefix,
        merges.char_ids, merges.byte_ids, merges.pair_keys, merges.pair_merges, merges.pair_filter,
        merges.isolated, memory.slots, memory.arena, memory.arena.view(np.uint8), memory.used, out, starts,
    )  # fmt: skip
    return out[: starts[-1]], starts


def _compiled(*signature: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    # Cached on disk, so that a node compiles once; without the lock, so that threads run at once.
    return numba.njit(signature, cache=True, nogil=True)


_Bytes = types.Array(types.uint8, 1, "C", readonly=True)
_Offsets = types.Array(types.int64, 1, "C", readonly=True)
_I4, _I8, _U8 = types.int32[::1], types.int64[::1], types.uint64[::1]


@_compiled(types.int64, types.int64)
def _pair_hash(left: int, right: int) -> Any:
    """A hash whose upper bits are good."""
    return ((np.uint64(left) << np.uint64(32) | np.uint64(right)) + np.uint64(1)) * _MIX


@_compiled(_U8, _I8, _U8, types.int64, types.int64, types.int64)
def _insert(
    keys: NDArray[np.uint64], merges: Int64, bits: NDArray[np.uint64], left: int, right: int, merged: int
) -> None:
    key = (np.uint64(left) << np.uint64(32) | np.uint64(right)) + np.uint64(1)
    hashed = _pair_hash(left, right)
    bit = hashed >> np.uint64(64 - _FILTER_BITS)
    bits[bit >> np.uint64(6)] |= np.uint64(1) << (bit & np.uint64(63))
    mask = np.uint64(len(keys) - 1)
    slot = hashed >> np.uint64(24) & mask
    while keys[slot] != 0 and keys[slot] != key:
        slot = (slot + np.uint64(1)) & mask
    keys[slot], merges[slot] = key, merged


@_compiled(_U8, _I8, _U8, types.int64, types.int64)
def _merged(keys: NDArray[np.uint64], merges: Int64, bits: NDArray[np.uint64], left: int, right: int) -> Any:
    """Rank and piece of what a pair makes, or NO_MERGE."""
    hashed = _pair_hash(left, right)
    bit = hashed >> np.uint64(64 - _FILTER_BITS)
    if not bits[bit >> np.uint64(6)] >> (bit & np.uint64(63)) & np.uint64(1):
        return NO_MERGE
    key = (np.uint64(left) << np.uint64(32) | np.uint64(right)) + np.uint64(1)
    mask = np.uint64(len(keys) - 1)
    slot = hashed >> np.uint64(24) & mask
    while keys[slot] != 0:
        if keys[slot] == key:
            return merges[slot]
        slot = (slot + np.uint64(1)) & mask
    return NO_MERGE


@_compiled(_Bytes, types.int64, types.int64, _I4, _I4, _I4, types.int64)
def _symbols(word: Bytes, start: int, end: int, char_ids: Int32, byte_ids: Int32, out: Int32, first: int) -> int:
    """Write the pieces of the characters of a word, bytes where a character has none; how many."""
    count = first
    at = start
    while at < end:
        byte = np.int64(word[at])
        size = 1 if byte < 0x80 else 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
        code = byte if size == 1 else byte & (0x7F >> size)
        for k in range(1, size):
            code = code << 6 | np.int64(word[at + k]) & 0x3F
        piece = char_ids[MARK] if code == SPACE else char_ids[code]
        if piece >= 0:
            out[count] = piece
            count += 1
        else:
            for k in range(size):
                out[count] = byte_ids[word[at + k]]
                count += 1
        at += size
    return count - first


@_compiled(_I4, types.int64, types.int64, _U8, _I8, _U8, _I8)
def _merge_short(
    out: Int32,
    first: int,
    count: int,
    keys: NDArray[np.uint64],
    merges: Int64,
    bits: NDArray[np.uint64],
    best_of: Int64,
) -> Any:
    """Merge in place until no pair makes a piece: always the best one, of equals the first; how many are left."""
    for i in range(count - 1):
        best_of[i] = _merged(keys, merges, bits, out[first + i], out[first + i + 1])
    while True:
        best, at = np.int64(NO_MERGE), 0
        for i in range(count - 1):
            if best_of[i] >> 32 < best >> 32:
                best, at = best_of[i], i
        if best == NO_MERGE:
            return count
        out[first + at] = best & 0xFFFFFFFF
        count -= 1
        for i in range(at + 1, count):
            out[first + i] = out[first + i + 1]
            best_of[i - 1] = best_of[i]
        if at > 0:
            best_of[at - 1] = _merged(keys, merges, bits, out[first + at - 1], out[first + at])
        if at < count - 1:
            best_of[at] = _merged(keys, merges, bits, out[first + at], out[first + at + 1])


@_compiled(_I8, _I8, types.int64, types.int64, types.int64)
def _push(heap: Int64, pairs: Int64, size: int, order: int, pair: int) -> int:
    at = size
    while at > 0 and heap[(at - 1) >> 1] > order:
        heap[at], pairs[at] = heap[(at - 1) >> 1], pairs[(at - 1) >> 1]
        at = (at - 1) >> 1
    heap[at], pairs[at] = order, pair
    return size + 1


@_compiled(_I8, _I8, types.int64)
def _pop(heap: Int64, pairs: Int64, size: int) -> int:
    """Remove the first; the rest is a heap of one less."""
    size -= 1
    order, pair = heap[size], pairs[size]
    at = 0
    while True:
        child = 2 * at + 1
        if child >= size:
            break
        if child + 1 < size and heap[child + 1] < heap[child]:
            child += 1
        if heap[child] >= order:
            break
        heap[at], pairs[at] = heap[child], pairs[child]
        at = child
    heap[at], pairs[at] = order, pair
    return size


@_compiled(_I4, types.int64, types.int64, _U8, _I8, _U8, _I8, _I8, types.int64)
def _offer(
    symbols: Int32, left: int, right: int, keys: NDArray[np.uint64], merges: Int64, bits: NDArray[np.uint64],
    heap: Int64, pairs: Int64, size: int,
) -> Any:  # fmt: skip
    """Put a pair that makes a piece into the heap."""
    merged = _merged(keys, merges, bits, symbols[left], symbols[right])
    if merged == NO_MERGE:
        return size
    pair = np.int64(symbols[left]) << 32 | np.int64(symbols[right])
    return _push(heap, pairs, size, (merged >> 32) << 32 | left, pair)


@_compiled(_I4, types.int64, types.int64, _U8, _I8, _U8)
def _merge_long(
    out: Int32, first: int, count: int, keys: NDArray[np.uint64], merges: Int64, bits: NDArray[np.uint64]
) -> int:
    """As `_merge_short`, in n log n."""
    symbols = out[first : first + count]
    before, after = np.arange(-1, count - 1), np.arange(1, count + 1)
    heap, pairs = np.empty(3 * count, np.int64), np.empty(3 * count, np.int64)
    size = 0
    for i in range(count - 1):
        size = _offer(symbols, i, i + 1, keys, merges, bits, heap, pairs, size)
    while size > 0:
        left, pair = heap[0] & 0xFFFFFFFF, pairs[0]
        size = _pop(heap, pairs, size)
        right = after[left]
        if right >= count or (np.int64(symbols[left]) << 32 | np.int64(symbols[right])) != pair:
            continue  # one of the two has been merged meanwhile
        symbols[left] = _merged(keys, merges, bits, symbols[left], symbols[right]) & 0xFFFFFFFF
        symbols[right] = -1
        after[left] = after[right]
        if after[right] < count:
            before[after[right]] = left
            size = _offer(symbols, left, after[right], keys, merges, bits, heap, pairs, size)
        if before[left] >= 0:
            size = _offer(symbols, before[left], left, keys, merges, bits, heap, pairs, size)
    kept = 0
    for i in range(count):
        if symbols[i] >= 0:
            symbols[kept] = symbols[i]
            kept += 1
    return kept


@_compiled(_Bytes, types.int64, types.int64, _I4, _I4, _U8, _I8, _U8, _I8, _I4, types.int64)
def _word(
    word: Bytes, start: int, end: int, char_ids: Int32, byte_ids: Int32,
    keys: NDArray[np.uint64], merges: Int64, bits: NDArray[np.uint64], scratch: Int64, out: Int32, first: int,
) -> Any:  # fmt: skip
    """Write the ids of one word; how many."""
    count = _symbols(word, start, end, char_ids, byte_ids, out, first)
    if count <= MAX_SHORT:
        return _merge_short(out, first, count, keys, merges, bits, scratch)
    return _merge_long(out, first, count, keys, merges, bits)


@_compiled(_Bytes, types.int64, types.int64, types.uint64, _U8, _I4, types.uint8[::1])
def _find(
    word: Bytes, start: int, end: int, hashed: int, slots: NDArray[np.uint64], arena: Int32, arena_bytes: Bytes
) -> Any:
    """The slot of a word: where it is held, or a free one."""
    tag = np.uint64(hashed) >> np.uint64(32)
    slot = np.int64(np.uint64(hashed) & np.uint64(NUM_SLOTS - 1))
    while slots[slot] != 0:
        if slots[slot] >> np.uint64(32) == tag:
            entry = np.int64(slots[slot] & np.uint64(0xFFFFFFFF))
            size = np.int64(arena[entry] & 0xFFFF)
            if size == end - start:
                first = 4 * (entry + 1)
                k = 0
                while k < size and arena_bytes[first + k] == word[start + k]:
                    k += 1
                if k == size:
                    return slot
        slot = (slot + 1) & (NUM_SLOTS - 1)
    return slot


@_compiled(_Bytes, types.int64, types.int64, _I4, types.int64, types.int64, _I4, types.uint8[::1], _I8)
def _hold(
    word: Bytes, start: int, end: int, out: Int32, first: int, count: int,
    arena: Int32, arena_bytes: Bytes, used: Int64,
) -> Any:  # fmt: skip
    """Keep a word and its ids; where, or 0 where there is no room."""
    size = end - start
    entry, first_id = used[1], used[1] + 1 + ((size + 3) >> 2)
    if used[0] == MAX_WORDS or first_id + count > ARENA_WORDS:
        return 0
    arena[entry] = size | count << 16
    for k in range(size):
        arena_bytes[4 * (entry + 1) + k] = word[start + k]
    for k in range(count):
        arena[first_id + k] = out[first + k]
    used[0], used[1] = used[0] + 1, first_id + count
    return entry


@_compiled(_Bytes, types.int64, types.int64, types.uint8[::1])
def _next_word(data: Bytes, start: int, end: int, isolated: Bytes) -> tuple[int, Any]:
    """Where the word that begins at `start` ends, which may be there, and its hash."""
    hashed: Any = _BASIS
    at, only_spaces = start, True
    while at < end:
        byte = data[at]
        if isolated[byte] or (byte == SPACE and not only_spaces):
            break
        only_spaces &= byte == SPACE
        hashed = (hashed ^ np.uint64(byte)) * _PRIME
        at += 1
    hashed = (hashed ^ hashed >> np.uint64(32)) * _MIX
    return at, hashed ^ hashed >> np.uint64(29)


@_compiled(
    _Bytes, types.int64, types.int64, types.uint64, _I4, _I4, _U8, _I8, _U8, _I8,
    _U8, _I4, types.uint8[::1], _I8, _I4, types.int64,
)  # fmt: skip
def _recall(
    data: Bytes, start: int, end: int, hashed: int,
    char_ids: Int32, byte_ids: Int32, keys: NDArray[np.uint64], merges: Int64, bits: NDArray[np.uint64], scratch: Int64,
    slots: NDArray[np.uint64], arena: Int32, arena_bytes: Bytes, used: Int64, out: Int32, first: int,
) -> Any:  # fmt: skip
    """Write the ids of a word from memory, or encode and keep it; how many."""
    slot = _find(data, start, end, hashed, slots, arena, arena_bytes)
    if slots[slot] != 0:
        entry = np.int64(slots[slot] & np.uint64(0xFFFFFFFF))
        count = np.int64(arena[entry]) >> 16
        first_id = entry + 1 + ((end - start + 3) >> 2)
        for k in range(count):
            out[first + k] = arena[first_id + k]
        return count
    count = _word(data, start, end, char_ids, byte_ids, keys, merges, bits, scratch, out, first)
    entry = _hold(data, start, end, out, first, count, arena, arena_bytes, used)
    if entry > 0:
        slots[slot] = np.uint64(hashed) >> np.uint64(32) << np.uint64(32) | np.uint64(entry)
    else:
        slots[:] = 0
        used[0], used[1] = 0, 1
    return count


@_compiled(
    _Bytes, _Offsets, types.int64, types.int64, types.boolean, _I4, _I4, _U8, _I8, _U8, types.uint8[::1],
    _U8, _I4, types.uint8[::1], _I8, _I4, _I8,
)  # fmt: skip
def _encode(
    data: Bytes, offsets: Int64, before: int, after: int, dummy_prefix: bool,
    char_ids: Int32, byte_ids: Int32, keys: NDArray[np.uint64], merges: Int64,
    bits: NDArray[np.uint64], isolated: Bytes,
    slots: NDArray[np.uint64], arena: Int32, arena_bytes: Bytes, used: Int64, out: Int32, starts: Int64,
) -> None:  # fmt: skip
    scratch = np.empty(MAX_SHORT, np.int64)
    count = 0
    for text in range(len(offsets) - 1):
        starts[text] = count
        if before >= 0:
            out[count] = before
            count += 1
        at, end = offsets[text], offsets[text + 1]
        if dummy_prefix and at < end:  # the first word, behind one space more
            start = at
            at, _ = _next_word(data, at, end, isolated)
            word = np.empty(at - start + 1, np.uint8)
            word[0] = SPACE
            word[1:] = data[start:at]
            count += _word(word, 0, len(word), char_ids, byte_ids, keys, merges, bits, scratch, out, count)
        while at < end:
            start = at
            at, hashed = _next_word(data, at, end, isolated)
            if at == start:
                out[count] = char_ids[data[at]] if char_ids[data[at]] >= 0 else byte_ids[data[at]]
                count += 1
                at += 1
            elif at - start > MAX_WORD_BYTES:
                count += _word(data, start, at, char_ids, byte_ids, keys, merges, bits, scratch, out, count)
            else:
                count += _recall(
                    data, start, at, hashed, char_ids, byte_ids, keys, merges, bits, scratch,
                    slots, arena, arena_bytes, used, out, count,
                )  # fmt: skip
        if after >= 0:
            out[count] = after
            count += 1
    starts[len(offsets) - 1] = count
