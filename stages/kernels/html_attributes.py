"""Names and attributes of tags, read byte by byte."""

from typing import Any

import numpy as np
from numba import types

from stages.kernels.compiling import Bytes, inlined
from stages.kernels.html_page import (
    _ATTRIBUTE_SALT,
    _BASIS,
    _CLASS,
    _CLASS_SALT,
    _CONTENT,
    _EQUALS,
    _GT,
    _HIGH_BITS,
    _IS_TITLE,
    _LOW_BITS,
    _LT,
    _META_SALT,
    _PRIME,
    _SELF_CLOSED,
    _SHIFT,
    _SLASH,
    _WORDS,
    ARIA_HIDDEN_BIT,
    HIDDEN_BIT,
    MAX_CLASS_BYTES,
    MAX_VALUE_BYTES,
    MAX_WORD_LETTERS,
    MIN_PREFIX_LETTERS,
    PAIR_BIT,
    PAIR_FIRST,
    PAIR_SECOND,
    POST_GROUP,
    TABLE_SIZE,
    _At,
    _Keys,
    _Longs,
    _State,
    _Values,
)


@inlined(_Keys, _Values, types.uint64)
def look_up(keys: Any, values: Any, key: Any) -> Any:
    """The value of a salted hash, or -1."""
    at = np.int64(key >> _SHIFT) & (TABLE_SIZE - 1)
    while values[at] >= 0:
        if keys[at] == key:
            return np.int64(values[at])
        at = (at + 1) & (TABLE_SIZE - 1)
    return np.int64(-1)


@inlined(types.uint64, types.int64)
def fold(value: Any, byte: int) -> Any:
    """One step of FNV-1a."""
    return (value ^ np.uint64(byte)) * _PRIME


@inlined(Bytes, _At)
def _hash_name(data: Any, at: int) -> tuple[Any, int]:
    """Hash of the lower-case name that begins here, and where it ends."""
    value = _BASIS
    while at < data.size:
        byte = np.int64(data[at])
        if byte <= 32 or byte in (_GT, _SLASH, _EQUALS):
            break
        value = fold(value, byte | 32 if 65 <= byte <= 90 else byte)
        at += 1
    return value, at


@inlined(Bytes, _Longs, _At, types.int64)
def _find_byte(data: Any, longs: Any, at: int, wanted: int) -> int:
    """The position of a byte, or the end. `longs` are the same bytes, eight at a time."""
    while at < data.size and at & 7:
        if data[at] == wanted:
            return at
        at += 1
    pattern, word = np.uint64(wanted) * _LOW_BITS, at >> 3
    while word < longs.size:
        differences = longs[word] ^ pattern  # has a zero byte where the byte is, and (x - 1) & ~x a high bit there
        if (differences - _LOW_BITS) & ~differences & _HIGH_BITS:
            break
        word += 1
    at = max(at, word << 3)
    while at < data.size and data[at] != wanted:
        at += 1
    return at


@inlined(Bytes, _At)
def _skip_space(data: Any, at: int) -> int:
    while at < data.size and data[at] <= 32:
        at += 1
    return at


@inlined(Bytes, _At, types.int64)
def _closing_quote(data: Any, at: int, quote: int) -> Any:
    """Where a quoted value ends; -1 where its closing quote is missing."""
    bound, start = min(data.size, at + MAX_VALUE_BYTES), at
    while at < bound:
        if data[at] == quote:
            return at
        at += 1
    for before in range(start, bound):
        if data[before] == _LT:
            return np.int64(-1)
    while at < data.size and data[at] != _LT:
        if data[at] == quote:
            return at
        at += 1
    return np.int64(-1)


@inlined(Bytes, _Keys, _Values, _At, _At)
def _word_groups(data: Any, keys: Any, values: Any, start: int, stop: int) -> Any:
    """Groups of a word of a class: of its whole, or of its longest known beginning and of the rest; -1 where none."""
    value, prefix, prefix_stop, whole = _BASIS, np.int64(-1), start, np.int64(-1)
    for at in range(start, stop):
        value = fold(value, np.int64(data[at]) | 32)
        if at - start >= 1:
            whole = look_up(keys, values, value ^ _CLASS_SALT)
            if whole >= 0 and at - start >= MIN_PREFIX_LETTERS - 1:
                prefix, prefix_stop = whole, at + 1
    if whole >= 0 or prefix < 0:
        return np.int64(-1), whole
    value = _BASIS
    for at in range(prefix_stop, stop):
        value = fold(value, np.int64(data[at]) | 32)
    rest = look_up(keys, values, value ^ _CLASS_SALT)
    return (prefix, rest) if rest >= 0 else (np.int64(-1), prefix)


@inlined(types.int64, types.int64)
def _pair(first: int, second: int) -> Any:
    """PAIR_BIT where a word of `first` before one of `second` names the place of the text."""
    if first < 0 or second < 0 or not PAIR_FIRST >> first & 1:
        return np.int64(0)
    if PAIR_SECOND >> second & 1 or (second == POST_GROUP and first != POST_GROUP):
        return np.int64(1) << PAIR_BIT
    return np.int64(0)


@inlined(Bytes, _Keys, _Values, _At, _At)
def _class_words(data: Any, keys: Any, values: Any, start: int, stop: int) -> Any:
    """Bits of the groups of the words of an attribute's value; words end where letters do, and within camelCase."""
    bits, before, at = np.int64(0), np.int64(-1), start
    while at < stop:
        if not 97 <= data[at] | 32 <= 122:
            at += 1
            continue
        word = at
        at += 1
        while at < stop and 97 <= data[at] | 32 <= 122 and at - word < MAX_WORD_LETTERS:
            if data[at] < 97 <= data[at - 1]:
                break
            at += 1
        first, second = _word_groups(data, keys, values, word, at)
        if first >= 0:
            bits |= np.int64(1) << first | _pair(first, second)
            before = np.int64(-1)
        if second >= 0:
            bits |= np.int64(1) << second | _pair(before, second)
        before = second
    return bits


@inlined(Bytes, _At, _At)
def _hides(data: Any, start: int, stop: int) -> bool:
    """Whether a style says display: none; of `display` four letters are looked at, of `none` three."""
    for first in range(start, stop - 9):
        if data[first] == 100 and data[first + 1] == 105 and data[first + 2] == 115 and data[first + 6] == 121:
            at = first + 7
            while at < stop and (data[at] <= 32 or data[at] == 58):
                at += 1
            if at + 2 < stop and data[at] == 110 and data[at + 1] == 111 and data[at + 2] == 110:
                return True
    return False


@inlined(Bytes, _Keys, _Values, types.int64, _At, _At, _State)
def _note(  # noqa: C901 - a case an attribute
    data: Any, keys: Any, values: Any, attribute: int, start: int, stop: int, state: Any
) -> None:
    """Enter what an attribute says."""
    if attribute == 0 or attribute == 1:
        stop = min(stop, start + MAX_CLASS_BYTES)
        state[_WORDS] |= _class_words(data, keys, values, start, stop)
        if attribute == 0 and stop > start:
            value = _BASIS
            for at in range(start, stop):
                value = fold(value, np.int64(data[at]))
            state[_CLASS] = np.int64(value)
    elif attribute == 2:
        if _hides(data, start, stop):
            state[_WORDS] |= np.int64(1) << HIDDEN_BIT
    elif attribute == 3:
        state[_WORDS] |= np.int64(1) << HIDDEN_BIT
    elif attribute == 4:
        if start < stop and data[start] == 116:
            state[_WORDS] |= np.int64(1) << ARIA_HIDDEN_BIT
    elif attribute == 5:
        value = _BASIS
        for at in range(start, min(stop, start + MAX_WORD_LETTERS)):
            value = fold(value, np.int64(data[at]))
        state[_IS_TITLE] |= look_up(keys, values, value ^ _META_SALT) == 0
    elif attribute == 6:
        state[_CONTENT], state[_CONTENT + 1] = start, stop


@inlined(Bytes, _Longs, _Keys, _Values, _At, _State)
def _attribute(data: Any, longs: Any, keys: Any, values: Any, at: int, state: Any) -> Any:
    """Read one attribute; where it ends."""
    if data[at] == _EQUALS:
        at += 1
    name, at = _hash_name(data, at)
    attribute = look_up(keys, values, name ^ _ATTRIBUTE_SALT)
    equals = _skip_space(data, at)
    if equals >= data.size or data[equals] != _EQUALS:
        _note(data, keys, values, attribute, at, at, state)
        return at
    start = _skip_space(data, equals + 1)
    if start < data.size and (data[start] == 34 or data[start] == 39):
        quote = data[start]
        start += 1
        stop = _closing_quote(data, start, quote)
        after = stop + 1
        if stop < 0:
            stop = after = _find_byte(data, longs, start, _GT)
    else:
        stop = start
        while stop < data.size and data[stop] > 32 and data[stop] != _GT:
            stop += 1
        after = stop
    _note(data, keys, values, attribute, start, stop, state)
    return after


@inlined(Bytes, _Longs, _Keys, _Values, _At, _State)
def _attributes(data: Any, longs: Any, keys: Any, values: Any, at: int, state: Any) -> Any:
    """Read a start tag from behind its name; where it ends, -1 where it does not."""
    for at_state in range(_WORDS, _CONTENT + 2):
        state[at_state] = 0
    while at < data.size and data[at] != _GT:
        if data[at] == _SLASH:
            at += 1
            state[_SELF_CLOSED] = at < data.size and data[at] == _GT
        elif data[at] <= 32:
            at += 1
        else:
            at = _attribute(data, longs, keys, values, at, state)
    return at + 1 if at < data.size else np.int64(-1)
