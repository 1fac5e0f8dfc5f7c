"""HTML to nodes and blocks of text, in one pass over the bytes and without a tree of objects.

A block is the text between two boundaries of block-level elements; two line breaks in a row are a boundary too. It
consists of spans of bytes, and belongs to the innermost block-level element around it. The rules are those of the HTML
standard as far as they decide where text belongs: implied end tags yes, formatting that is opened again no.
Costs are linear: nothing is looked for twice, and at most MAX_DEPTH elements are open.
tests/stages/reference_html.py is the same in plain Python.
"""

from typing import Any

import numpy as np
from numba import types

from stages.kernels.compiling import Bytes, borrowed, compiled, inlined
from stages.kernels.html_attributes import _attributes, _find_byte, _hash_name, look_up
from stages.kernels.html_page import (
    _A,
    _BANG,
    _BLOCKS,
    _BODY,
    _BR,
    _BREAKS,
    _CHILDREN,
    _CLASS,
    _CONTENT,
    _DASH,
    _DEPTH,
    _EXCESS,
    _FOREIGN,
    _GT,
    _HEAD,
    _HEADING,
    _HTML,
    _INLINE,
    _IS_P,
    _IS_TITLE,
    _LINKS,
    _LT,
    _META,
    _META_TAG,
    _NAME,
    _NESTS,
    _NO_COMMENT_END,
    _NO_END,
    _NODE_CLASS,
    _NODE_DEPTH,
    _NODE_WORDS,
    _NODES,
    _OPEN,
    _OPEN_TAGS,
    _P,
    _PARENT,
    _QUESTION,
    _RAW,
    _SCRIPT,
    _SELF_CLOSED,
    _SLASH,
    _SPANS,
    _STACK,
    _STATE_SIZE,
    _STYLE_TAG,
    _TAG,
    _TITLE,
    _TITLE_TAG,
    _VOID,
    _WORDS,
    MAX_DEPTH,
    Block,
    Names,
    Node,
    Page,
    Span,
    _At,
    _Blocks,
    _Keys,
    _Longs,
    _Nodes,
    _Rules,
    _Spans,
    _State,
    _Values,
)


def scan(content: bytes, names: Names) -> Page:
    """The nodes, spans and blocks of a page in UTF-8. Bytes that are not are text like any other."""
    data, longs = np.frombuffer(content, np.uint8), np.frombuffer(content, np.uint64, len(content) // 8)
    most = np.count_nonzero(data == _LT) + 2  # each gives at most one node, and two spans
    nodes, spans = np.empty((most, len(Node)), np.int64), np.empty((2 * most, len(Span)), np.int32)
    blocks = np.empty((2 * most, len(Block)), np.int64)
    state = np.zeros(_STATE_SIZE, np.int64)
    _scan(data, longs, names.keys, names.values, names.rules, nodes, spans, blocks, state)
    title, meta = state[_TITLE : _TITLE + 2].tolist(), state[_META : _META + 2].tolist()
    num_blocks = state[_BLOCKS] + 1
    return Page(data, nodes[: state[_NODES]], spans[: state[_SPANS]], blocks[:num_blocks], tuple(title), tuple(meta))


@inlined(_Nodes, _State, _At)
def _pop_to(nodes: Any, state: Any, depth: int) -> None:
    """Close what is open from this place of the stack on."""
    for at in range(depth, state[_DEPTH]):
        tag = nodes[state[_STACK + at], _TAG]
        state[_OPEN_TAGS + tag] -= 1
        state[_LINKS] -= tag == _A
    state[_DEPTH] = min(state[_DEPTH], depth)


@inlined(_Nodes, _State, types.int64, types.uint64)
def _push(nodes: Any, state: Any, tag: int, name: Any) -> None:
    """Open an element."""
    depth = state[_DEPTH]
    if depth == MAX_DEPTH:
        state[_EXCESS] += 1
        return
    number, parent = state[_NODES], state[_STACK + depth - 1]
    nodes[number, _TAG], nodes[number, _PARENT], nodes[number, _NODE_DEPTH] = tag, parent, depth
    nodes[number, _CHILDREN], nodes[number, _NAME] = 0, np.int64(name)
    nodes[number, _NODE_WORDS], nodes[number, _NODE_CLASS] = state[_WORDS], state[_CLASS]
    nodes[parent, _CHILDREN] += 1
    state[_STACK + depth] = number
    state[_DEPTH] += 1
    state[_NODES] += 1
    state[_OPEN_TAGS + tag] += 1
    state[_LINKS] += tag == _A


@inlined(_Nodes, _State)
def _leave_head(nodes: Any, state: Any) -> None:
    """Close a head that is still open."""
    if state[_OPEN_TAGS + _HEAD]:
        for at in range(1, state[_DEPTH]):
            if nodes[state[_STACK + at], _TAG] == _HEAD:
                _pop_to(nodes, state, at)
                break


@inlined(_Rules, _Nodes, _State, types.int64)
def _imply_ends(rules: Any, nodes: Any, state: Any, tag: int) -> None:
    """Close what a start tag closes without saying so."""
    group, ends, stops = rules[tag, 0], rules[tag, 1], rules[tag, 2]
    if (ends == _IS_P and not state[_OPEN_TAGS + _P]) or (tag == _A and not state[_LINKS]):
        ends = 0
    if ends:
        outermost: Any = np.int64(0)
        for at in range(state[_DEPTH] - 1, 0, -1):
            open_group = rules[nodes[state[_STACK + at], _TAG], 0]
            if open_group & ends:
                outermost = at
            if open_group & stops:
                break
        if outermost:
            _pop_to(nodes, state, outermost)
    top = state[_DEPTH] - 1
    if group & _HEADING and top and rules[nodes[state[_STACK + top], _TAG], 0] & _HEADING:
        _pop_to(nodes, state, top)


@inlined(_Rules, _Nodes, _Spans, _Blocks, _State, _At, _At, types.boolean)
def _add_text(
    rules: Any, nodes: Any, spans: Any, blocks: Any, state: Any, start: int, stop: int, is_blank: bool
) -> None:
    """A span of text for the block at hand, or for a new one."""
    if is_blank and not state[_OPEN]:
        return
    if not state[_OPEN]:
        at, words = state[_DEPTH] - 1, np.int64(0)
        while at > 0 and rules[nodes[state[_STACK + at], _TAG], 0] & _INLINE:
            words |= nodes[state[_STACK + at], _NODE_WORDS]
            at -= 1
        block = state[_BLOCKS]
        blocks[block, 0], blocks[block, 1] = state[_SPANS], state[_STACK + at]
        blocks[block, 2], blocks[block, 3] = words, 0
        state[_BLOCKS] += 1
        state[_OPEN] = 1
    span = state[_SPANS]
    spans[span, 0], spans[span, 1], spans[span, 2] = start, stop, state[_LINKS] > 0
    state[_SPANS] += 1
    if not is_blank:
        state[_BREAKS] = 0


@inlined(_Spans, _Blocks, _State)
def _break_line(spans: Any, blocks: Any, state: Any) -> None:
    """A line break within the block at hand; the second in a row ends it."""
    state[_BREAKS] += 1
    if not state[_OPEN]:
        return
    if state[_BREAKS] >= 2:
        state[_OPEN] = 0
        return
    blocks[state[_BLOCKS] - 1, 3] += 1
    span = state[_SPANS]
    spans[span, 0], spans[span, 1], spans[span, 2] = -1, -1, 0
    state[_SPANS] += 1


@inlined(Bytes, _Longs, _At, types.uint64, types.boolean)
def _find_end_tag(data: Any, longs: Any, at: int, name: Any, nests: bool) -> Any:
    """Start and end of the end tag of a raw element that begins here; the last one seen if they do not pair up."""
    depth = 1
    start: Any = np.int64(-1)
    after: Any = np.int64(-1)
    while depth:
        at = _find_byte(data, longs, at, _LT)
        if at + 1 >= data.size:
            break
        if data[at + 1] == _SLASH:
            found, stop = _hash_name(data, at + 2)
            if found == name:
                depth -= 1
                start, after = at, min(_find_byte(data, longs, stop, _GT) + 1, data.size)
                at = after - 1
        elif nests:
            found, _ = _hash_name(data, at + 1)
            depth += found == name
        at += 1
    return start, after


@inlined(Bytes, _Longs, _Rules, _State, _At, types.int64, types.uint64)
def _skip_raw(data: Any, longs: Any, rules: Any, state: Any, at: int, tag: int, name: Any) -> Any:
    """Go past an element whose content is no text; its start tag ends here."""
    start: Any = np.int64(-1)
    after: Any = np.int64(-1)
    if rules[tag, 0] & _FOREIGN and state[_SELF_CLOSED]:
        return at
    if not state[_NO_END + tag]:
        start, after = _find_end_tag(data, longs, at, name, rules[tag, 0] & _NESTS != 0)
    if after < 0:
        state[_NO_END + tag] = 1
        if (tag in (_SCRIPT, _STYLE_TAG)) and not state[_SELF_CLOSED]:
            return data.size
        start, after = at, at
        if tag == _TITLE_TAG:
            start = after = _find_byte(data, longs, at, _LT)
    if tag == _TITLE_TAG and state[_TITLE] < 0:
        state[_TITLE], state[_TITLE + 1] = at, start
    return after


@inlined(Bytes, _Longs, _Keys, _Values, _Rules, _Nodes, _Spans, _Blocks, _State, _At)
def _start_tag(
    data: Any, longs: Any, keys: Any, values: Any, rules: Any, nodes: Any, spans: Any, blocks: Any, state: Any, at: int
) -> Any:
    """Take a start tag; where it ends."""
    name, at = _hash_name(data, at + 1)
    tag = max(look_up(keys, values, name), 0)
    at = _attributes(data, longs, keys, values, at, state)
    if at < 0:
        return data.size
    group = rules[tag, 0]
    if tag == _META_TAG and state[_IS_TITLE] and state[_META] < 0:
        state[_META], state[_META + 1] = state[_CONTENT], state[_CONTENT + 1]
    if group & _RAW:
        return _skip_raw(data, longs, rules, state, at, tag, name)
    if tag == _BODY:
        _leave_head(nodes, state)
    _imply_ends(rules, nodes, state, tag)
    if tag == _BR:
        _break_line(spans, blocks, state)
    elif not group & _INLINE:
        state[_OPEN] = 0
    if not group & _VOID:
        _push(nodes, state, tag, name)
    return at


@inlined(_Rules, _Nodes, _State, types.int64, types.uint64)
def _close(rules: Any, nodes: Any, state: Any, tag: int, name: Any) -> None:
    """Close the element of an end tag, and what is open within it, if it is open within the bounds of the rules."""
    if not state[_OPEN_TAGS + tag]:
        return
    stops = rules[tag, 3]
    for at in range(state[_DEPTH] - 1, 0, -1):
        node = state[_STACK + at]
        if nodes[node, _NAME] == np.int64(name):
            _pop_to(nodes, state, at)
            return
        if rules[nodes[node, _TAG], 0] & stops:
            return


@inlined(Bytes, _Longs, _Keys, _Values, _Rules, _Nodes, _Spans, _Blocks, _State, _At)
def _end_tag(
    data: Any, longs: Any, keys: Any, values: Any, rules: Any, nodes: Any, spans: Any, blocks: Any, state: Any, at: int
) -> Any:
    """Take an end tag; where it ends."""
    name, at = _hash_name(data, at + 2)
    tag = max(look_up(keys, values, name), 0)
    after = min(_find_byte(data, longs, at, _GT) + 1, data.size)
    group = rules[tag, 0]
    if tag == _BR:
        _break_line(spans, blocks, state)
    elif not group & _INLINE and not group & _VOID:
        state[_OPEN] = 0
    if group & (_VOID | _RAW) or tag in (_BODY, _HTML):
        return after
    if state[_EXCESS]:
        state[_EXCESS] -= 1
    else:
        _close(rules, nodes, state, tag, name)
    return after


@inlined(Bytes, _Longs, _At, _State)
def _declaration(data: Any, longs: Any, at: int, state: Any) -> Any:
    """Go past a comment or another declaration; one that never ends is over at the next `>`."""
    size = data.size
    if at + 3 < size and data[at + 2] == _DASH and data[at + 3] == _DASH and not state[_NO_COMMENT_END]:
        stop = _find_byte(data, longs, at + 4, _GT)
        while stop < size:
            dash = stop - 2 if data[stop - 1] == _BANG and stop > at + 6 else stop - 1
            if data[dash] == _DASH and data[dash - 1] == _DASH:
                return stop + 1
            stop = _find_byte(data, longs, stop + 1, _GT)
        state[_NO_COMMENT_END] = 1
    return min(_find_byte(data, longs, at + 2, _GT) + 1, size)


@inlined(Bytes, _Longs, _Rules, _Nodes, _Spans, _Blocks, _State, _At)
def _text(data: Any, longs: Any, rules: Any, nodes: Any, spans: Any, blocks: Any, state: Any, at: int) -> int:
    """Take text up to the next `<`; where it ends. The first byte is text, whatever it is."""
    start, is_blank = at, data[at] <= 32
    at += 1
    while is_blank and at < data.size and data[at] != _LT:
        is_blank = data[at] <= 32
        at += 1
    if not is_blank:
        at = _find_byte(data, longs, at, _LT)
    _add_text(rules, nodes, spans, blocks, state, start, at, is_blank)
    return at


@compiled(Bytes, _Longs, _Keys, _Values, _Rules, _Nodes, _Spans, _Blocks, _State)
def _scan(
    data: Any, longs: Any, keys: Any, values: Any, rules: Any, nodes: Any, spans: Any, blocks: Any, state: Any
) -> None:
    data, longs, keys, values, rules = (
        borrowed(data), borrowed(longs), borrowed(keys), borrowed(values), borrowed(rules),
    )  # fmt: skip
    nodes, spans, blocks, state = borrowed(nodes), borrowed(spans), borrowed(blocks), borrowed(state)
    nodes[0] = 0
    nodes[0, _PARENT] = -1
    state[_NODES] = state[_DEPTH] = 1
    state[_TITLE : _META + 2] = -1
    at = np.int64(0)
    while at < data.size:
        following = np.int64(data[at + 1]) if at + 1 < data.size else 0
        if data[at] != _LT:
            at = _text(data, longs, rules, nodes, spans, blocks, state, at)
        elif 97 <= following | 32 <= 122:
            at = _start_tag(data, longs, keys, values, rules, nodes, spans, blocks, state, at)
        elif following == _SLASH and at + 2 < data.size and 97 <= data[at + 2] | 32 <= 122:
            at = _end_tag(data, longs, keys, values, rules, nodes, spans, blocks, state, at)
        elif following in (_BANG, _QUESTION) or (following == _SLASH and at + 2 < data.size):
            at = _declaration(data, longs, at, state)
        else:
            at = _text(data, longs, rules, nodes, spans, blocks, state, at)
    blocks[state[_BLOCKS]] = 0
    blocks[state[_BLOCKS], 0] = state[_SPANS]
