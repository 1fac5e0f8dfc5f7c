"""Texts as units, in one pass over UTF-8: what de-duplication and decontamination compare.

A unit is a word (letters, numbers, marks), case folded, or a single character with its marks where a script writes no
spaces; all other characters only part units. Its hash is a chain over its folded UTF-8 bytes, eight at a time (little-
endian, the last filled with zeros), and `mix64` of that: ASCII words of up to eight letters, which are most, take one
step. tests/stages/reference_minhash.py holds it in plain Python.

All of it is in one file, the meaning of flags too: what is compiled is cached until this file changes.
"""

import functools
import sys
import unicodedata
from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
Offsets = NDArray[np.int64]
Words = NDArray[np.uint64]

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

_BASIS = np.uint64(0xCBF29CE484222325)
_CHAIN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1, _MIX_2 = np.uint64(0xFF51AFD7ED558CCD), np.uint64(0xC4CEB9FE1A85EC53)
_S1, _S2, _S3, _S7, _S29, _S33, _S56 = (np.uint64(shift) for shift in (1, 2, 3, 7, 29, 33, 56))
_ZERO, _EIGHT = np.uint64(0), np.uint64(8)

# Eight bytes at a time; a range test adds to each byte what carries into its highest bit.
_ONES, _HIGH = np.uint64(0x0101010101010101), np.uint64(0x8080808080808080)
_LOW7, _CASE = np.uint64(0x7F7F7F7F7F7F7F7F), np.uint64(0x2020202020202020)
_FROM_A, _ABOVE_Z = np.uint64(0x0101010101010101 * (0x80 - ord("a"))), np.uint64(0x0101010101010101 * (0x7F - ord("z")))
_FROM_0, _ABOVE_9 = np.uint64(0x0101010101010101 * (0x80 - ord("0"))), np.uint64(0x0101010101010101 * (0x7F - ord("9")))


def hash_units(data: Bytes, offsets: Offsets) -> tuple[Words, Offsets]:
    """The hashes of the units of all texts, and their offsets: those of text i lie from offset i to i + 1.

    Shapes: (bytes,), (texts + 1,) -> (units,), (texts + 1,).
    """
    hashes = np.empty(_most_units(offsets), np.uint64)
    starts = np.zeros(len(offsets), np.int64)
    _hash_units(data, offsets, characters(), hashes, np.empty((0, 2), np.int64), starts)
    return hashes[: starts[-1]], starts


def find_units(data: Bytes, offsets: Offsets) -> tuple[Words, NDArray[np.int64], Offsets]:
    """As hash_units, with the first byte of each unit and the one behind it. Shape: (units, 2)."""
    hashes = np.empty(_most_units(offsets), np.uint64)
    places = np.empty((len(hashes), 2), np.int64)
    starts = np.zeros(len(offsets), np.int64)
    _hash_units(data, offsets, characters(), hashes, places, starts)
    return hashes[: starts[-1]], places[: starts[-1]], starts


def mix_numbers(numbers: Words) -> Words:
    """`mix64` of each number. Any shape."""
    mixed = np.ascontiguousarray(numbers).ravel()
    _mix_numbers(mixed)
    return mixed.reshape(numbers.shape)


def _most_units(offsets: Offsets) -> int:
    """One needs two bytes at least, but for the last of a text."""
    return int(offsets[-1] - offsets[0]) // 2 + len(offsets)


def find_unstable(data: Bytes, offsets: Offsets) -> NDArray[np.int64]:
    """The stretches between white space whose units NFKC may change: first byte, and the one behind. Shape: (n, 2).

    NFKC of a text is that of its stretches: nothing becomes one with a space.
    """
    count = _find_unstable(data, offsets, characters(), np.empty((0, 2), np.int64))
    found = np.empty((count, 2), np.int64)
    _find_unstable(data, offsets, characters(), found)
    return found


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


# For steps that are taken millions of times: calling what was compiled apart is slow.
_inlined: Callable[[Callable[..., Any]], Callable[..., Any]] = numba.njit(inline="always")


def _constant(dtype: Any, num_dimensions: int) -> Any:
    return types.Array(dtype, num_dimensions, "C", readonly=True)


_u8, _u32, _u64, _i64 = types.uint8, types.uint32, types.uint64, types.int64


def _loader(kind: Any) -> Any:
    """A function that reads a number from an address: little-endian, and not aligned."""

    @intrinsic
    def load(_context: Any, _address: Any) -> Any:
        def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            pointer = context.get_value_type(kind).as_pointer()
            loaded = builder.load(builder.inttoptr(arguments[0], pointer))
            loaded.align = 1
            return loaded

        return kind(types.int64), generate

    return load


# In inner loops addresses take the place of arrays, which are counted whenever they get another name.
_byte, _entry, _eight_bytes = _loader(types.uint8), _loader(types.uint32), _loader(types.uint64)


@_inlined
def mix64(value: np.uint64) -> np.uint64:
    """The finalizer of MurmurHash3 for 64 bits: a bijection."""
    value ^= value >> _S33
    value *= _MIX_1
    value ^= value >> _S33
    value *= _MIX_2
    return value ^ (value >> _S33)


@_inlined
def _chain(value: np.uint64, block: np.uint64) -> np.uint64:
    value = (value ^ block) * _CHAIN
    return value ^ (value >> _S29)


@_inlined
def _code_point(data: int, at: int, end: int) -> tuple[Any, int]:
    """The code point at a position before `end`, and its bytes; bytes that are no UTF-8 are one each."""
    first = np.int64(_byte(data + at))
    if first < 0x80:
        return first, 1
    size = 2 if 0xC0 <= first < 0xE0 else 3 if 0xE0 <= first < 0xF0 else 4 if 0xF0 <= first < 0xF8 else 1
    if size == 1 or at + size > end:
        return 0xFFFD, 1
    code = first & (0x7F >> size)
    for k in range(1, size):
        code = code << 6 | np.int64(_byte(data + at + k)) & 0x3F
    return (code, size) if code < 0x110000 else (0xFFFD, size)


@_compiled(_constant(_u8, 1), _constant(_i64, 1), _constant(_u32, 1), _i64[:, ::1])
def _find_unstable(text_bytes: Bytes, offsets: Offsets, entries: NDArray[np.uint32], found: NDArray[np.int64]) -> int:
    """Write stretches while there is room, and count all."""
    data, table = np.int64(text_bytes.ctypes.data), np.int64(entries.ctypes.data)
    count = 0
    for text in range(len(offsets) - 1):
        at, end = offsets[text], offsets[text + 1]
        least = at  # where the stretch before ended
        while at < end:
            if _byte(data + at) < 0x80:
                at += 8 if at + 8 <= end and not _eight_bytes(data + at) & _HIGH else 1
                continue
            code, size = _code_point(data, at, end)
            if not _entry(table + 4 * code) & _UNSTABLE:
                at += size
                continue
            first = at
            while first > least and _byte(data + first - 1) > 0x20:
                first -= 1
            while at < end and _byte(data + at) > 0x20:
                at += 1
            if count < len(found):
                found[count, 0], found[count, 1] = first, at
            count += 1
            least = at
    return count


@_inlined
def _word_bytes(block: np.uint64) -> np.uint64:
    """The highest bit of each byte that is an ASCII letter or digit."""
    seven = block & _LOW7
    lower = seven | _CASE
    letters = (lower + _FROM_A) & ~(lower + _ABOVE_Z)
    digits = (seven + _FROM_0) & ~(seven + _ABOVE_9)
    return (letters | digits) & ~block & _HIGH


@intrinsic
def _num_low_zeros(_context: Any, _value: Any) -> Any:
    """How many bits lie below the lowest that is set: 64 where none is."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 0))

    return types.int64(types.uint64), generate


@_inlined
def _num_low_bytes(marks: np.uint64) -> Any:
    """How many bytes lie below the lowest that is marked in its highest bit: 8 where none is."""
    return _num_low_zeros(marks) >> 3  # type: ignore[call-arg]


@_inlined
def _append(
    value: np.uint64, pending: np.uint64, num_pending: np.uint64, folded: np.uint32
) -> tuple[np.uint64, np.uint64, np.uint64]:
    """Add the UTF-8 of a code point to the bytes that wait for a step of the chain."""
    code = np.uint64(folded)
    size = 1 if code < np.uint64(0x80) else 2 if code < np.uint64(0x800) else 3 if code < np.uint64(0x10000) else 4
    for k in range(size):
        if size == 1:
            byte = code
        elif k == 0:
            byte = np.uint64(0xF00 >> size & 0xFF) | code >> np.uint64(6 * (size - 1))
        else:
            byte = np.uint64(0x80) | (code >> np.uint64(6 * (size - 1 - k)) & np.uint64(0x3F))
        pending |= byte << (num_pending << _S3)
        num_pending += _S1
        if num_pending == _EIGHT:
            value, pending, num_pending = _chain(value, pending), _ZERO, _ZERO
    return value, pending, num_pending


@_inlined
def _find_start(data: int, at: int, end: int, last_load: int, table: int) -> int:
    """Where the next unit begins; `end` where none does."""
    while at < end:
        if at < last_load:
            block = _eight_bytes(data + at)
            num_bytes = _num_low_bytes(_word_bytes(block) | (block & _HIGH))
            if num_bytes:
                at += num_bytes
                continue
            if _byte(data + at) < 0x80:
                return at
        code, size = _code_point(data, at, end)
        if _entry(table + 4 * code) & _CODE:
            return at
        at += size
    return end


@_inlined
def _read_word(data: int, at: int, end: int, last_load: int, table: int) -> tuple[Any, int, int]:
    """The hash of the word that begins at a position, where it ends, and where the next unit may begin."""
    value, pending, num_pending = _BASIS, _ZERO, _ZERO
    while at < end:
        if at < last_load and num_pending == _ZERO:
            block = _eight_bytes(data + at)
            words = _word_bytes(block)
            num_bytes = min(_num_low_bytes(words ^ _HIGH), end - at)
            following = at
            letters = block | words >> _S2  # digits have that bit, too
            at += num_bytes
            if num_bytes == 8:
                value = _chain(value, letters)
                continue
            num_pending = np.uint64(num_bytes)
            pending = letters & ((_S1 << (num_pending << _S3)) - _S1)
            if at == end or _byte(data + at) < 0x80:
                # The same eight bytes tell how far it is to the next letter: one look at them the less.
                gap = _num_low_bytes((words | (block & _HIGH)) >> (num_pending << _S3))
                following = min(following + min(num_bytes + gap, 8), end)
                return mix64(_chain(value, pending) if num_pending else value), at, following
        code, size = _code_point(data, at, end)
        entry = _entry(table + 4 * code)
        if not entry & _SKIPPED:
            if entry & _ALONE or not entry & _CODE:
                break
            value, pending, num_pending = _append(value, pending, num_pending, entry & _CODE)
        at += size
    return mix64(_chain(value, pending) if num_pending else value), at, at


@_inlined
def _read_character(data: int, at: int, end: int, table: int) -> tuple[Any, int, int]:
    """As _read_word, of a character with its marks."""
    code, size = _code_point(data, at, end)
    value, pending, num_pending = _append(_BASIS, _ZERO, _ZERO, _entry(table + 4 * code) & _CODE)
    at += size
    while at < end:
        code, size = _code_point(data, at, end)
        entry = _entry(table + 4 * code)
        if entry & _MARK:
            value, pending, num_pending = _append(value, pending, num_pending, entry & _CODE)
        elif not entry & _SKIPPED:
            break
        at += size
    return mix64(_chain(value, pending) if num_pending else value), at, at


@_compiled(
    *(_constant(_u8, 1), _constant(_i64, 1), _constant(_u32, 1), _u64[::1], _i64[:, ::1], _i64[::1]),
)
def _hash_units(
    text_bytes: Bytes,
    offsets: Offsets,
    entries: NDArray[np.uint32],
    hashes: Words,
    places: NDArray[np.int64],
    starts: Offsets,
) -> None:
    """Write units; where they lie only if `places` has room."""
    data, table = np.int64(text_bytes.ctypes.data), np.int64(entries.ctypes.data)
    count = 0
    for text in range(len(offsets) - 1):
        end = offsets[text + 1]
        last_load = min(end, len(text_bytes) - 7)  # no eight bytes begin there or behind
        first = _find_start(data, offsets[text], end, last_load, table)
        while first < end:
            is_alone = False
            if _byte(data + first) >= 0x80:
                code, _ = _code_point(data, first, end)
                is_alone = (_entry(table + 4 * code) & _ALONE) != 0
            if is_alone:
                hashes[count], stop, following = _read_character(data, first, end, table)
            else:
                hashes[count], stop, following = _read_word(data, first, end, last_load, table)
            if len(places):
                places[count, 0], places[count, 1] = first, stop
            count += 1
            first = _find_start(data, following, end, last_load, table)
        starts[text + 1] = count


@_compiled(_u64[::1])
def _mix_numbers(numbers: Words) -> None:
    for k in range(len(numbers)):
        numbers[k] = mix64(numbers[k])
