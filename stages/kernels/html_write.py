"""The text of chosen blocks, as a document: paragraphs, headings, list items, rows of tables, code.

Each block is a line of its own, line breaks within it stay, other white space becomes one space, and control characters
go. A list item begins with `- `, two spaces further for each list around it; cells of a row stand between bars, empty
ones too; what is in `pre` keeps its white space. tests/stages/reference_html.py is the same in plain Python.
"""

from typing import Any

import numpy as np
from numba import types
from numpy.typing import NDArray

from stages.kernels.compiling import Bytes, compiled
from stages.kernels.html_page import Group, Names, Page

MAX_CLIMB = 4  # levels from a block up to the list item or `pre` that it belongs to
MAX_INDENT = 8  # lists within lists


def write(page: Page, names: Names, kept: NDArray[np.bool_]) -> bytes:
    """The bytes of the blocks that are kept."""
    out = np.empty(page.data.size + 32 * (page.num_blocks + 1) + 8 * len(page.nodes), np.uint8)
    size = _write(page.data, names.rules, page.nodes, page.spans, page.blocks, kept, out)
    return out[:size].tobytes()


_PRE, _TH = 12, 13  # places in html_scan.KNOWN_TAGS
_ITEM, _CELL, _ROW, _LIST, _TABLE = map(int, (Group.ITEM, Group.CELL, Group.ROW, Group.LIST, Group.TABLE))
_LINE_FEED, _SPACE, _DASH, _BAR = b"\n -|"

_Table = types.int64[:, ::1]
_Spans = types.int32[:, ::1]
_Rules = types.int32[:, ::1]
_Flags = types.boolean[::1]
_Out = types.uint8[::1]


@compiled(types.uint8)
def _is_dropped(byte: int) -> bool:
    """Whether a byte is a control character that is no white space."""
    return byte < 9 or 13 < byte < 32 or byte == 127


@compiled(Bytes, _Spans, types.int64, types.int64, types.boolean, _Out, types.int64)
def _write_line(data: Any, spans: Any, first: int, last: int, in_cell: bool, out: Any, size: int) -> int:
    """Write spans, with white space put together; the new size."""
    start, pending = size, np.uint8(0)
    for span in range(first, last):
        if spans[span, 0] < 0:
            pending = np.uint8(_SPACE if in_cell else _LINE_FEED)
            continue
        for at in range(spans[span, 0], spans[span, 1]):
            byte = data[at]
            if _is_dropped(byte):
                continue
            if byte <= 32:
                pending = max(pending, np.uint8(_SPACE)) if pending != _LINE_FEED else pending
                continue
            if pending and size > start:
                out[size] = pending
                size += 1
            pending = np.uint8(0)
            out[size] = byte
            size += 1
    return size


@compiled(Bytes, _Spans, types.int64, types.int64, _Out, types.int64)
def _write_code(data: Any, spans: Any, first: int, last: int, out: Any, size: int) -> int:
    """Write spans as they are, but for empty lines before and white space behind; the new size."""
    start = size
    for span in range(first, last):
        if spans[span, 0] < 0:
            out[size] = _LINE_FEED
            size += 1
            continue
        for at in range(spans[span, 0], spans[span, 1]):
            byte = data[at]
            is_first = size == start and (byte == _LINE_FEED or byte == 13)
            if not is_first and not _is_dropped(byte):
                out[size] = byte
                size += 1
    while size > start and out[size - 1] <= 32:
        size -= 1
    return size


@compiled(_Rules, _Table, types.int64)
def _item_of(rules: Any, nodes: Any, node: int) -> Any:
    """The list item that a node belongs to, or -1."""
    for _ in range(MAX_CLIMB):
        group = rules[nodes[node, 0], 0]
        if group & _ITEM:
            return node
        if group & (_LIST | _CELL | _TABLE) or node == 0:
            break
        node = nodes[node, 1]
    return np.int64(-1)


@compiled(_Table, types.int64)
def _is_code(nodes: Any, node: int) -> bool:
    for _ in range(MAX_CLIMB):
        if nodes[node, 0] == _PRE:
            return True
        if node == 0:
            break
        node = nodes[node, 1]
    return False


@compiled(_Rules, _Table, types.int64, _Flags, _Out, types.int64)
def _begin_item(rules: Any, nodes: Any, node: int, begun: Any, out: Any, size: int) -> int:
    """Write the mark of the list item that a node belongs to, before its first line; the new size."""
    item = _item_of(rules, nodes, node)
    if item < 0 or begun[item]:
        return size
    begun[item] = True
    num_lists, node = 0, item
    while node > 0:
        num_lists += rules[nodes[node, 0], 0] & _LIST != 0
        node = nodes[node, 1]
    for _ in range(2 * (min(num_lists, MAX_INDENT) - 1)):
        out[size] = _SPACE
        size += 1
    out[size], out[size + 1] = _DASH, _SPACE
    return size + 2


@compiled(_Rules, _Table, types.int64)
def _row_of(rules: Any, nodes: Any, node: int) -> Any:
    """The row of several cells that a block owned by one of them stands in, or -1."""
    row = nodes[node, 1]
    if rules[nodes[node, 0], 0] & _CELL and row > 0 and rules[nodes[row, 0], 0] & _ROW and nodes[row, 3] > 1:
        return row
    return np.int64(-1)


@compiled(_Rules, _Table, types.int64, types.int64, types.int64, _Out, types.int64)
def _skip_cells(rules: Any, nodes: Any, row: int, first: int, last: int, out: Any, size: int) -> int:
    """Write a bar for each cell of a row among nodes; the new size."""
    for node in range(first, last):
        if nodes[node, 1] == row and rules[nodes[node, 0], 0] & _CELL:
            out[size], out[size + 1], out[size + 2] = _SPACE, _BAR, _SPACE
            size += 3
    return size


@compiled(_Rules, _Table, types.int64, types.int64, _Out, types.int64)
def _end_row(rules: Any, nodes: Any, row: int, cell: int, out: Any, size: int) -> int:
    """Write what follows the last cell that is kept, and a rule below cells of headings; the new size."""
    last = cell + 1
    while last < len(nodes) and nodes[last, 2] > nodes[row, 2]:
        last += 1
    size = _skip_cells(rules, nodes, row, cell + 1, last, out, size)
    out[size], out[size + 1] = _SPACE, _BAR
    size += 2
    if nodes[cell, 0] == _TH:
        out[size], out[size + 1] = _LINE_FEED, _BAR
        size += 2
        for node in range(row + 1, last):
            if nodes[node, 1] == row:
                out[size], out[size + 1], out[size + 2], out[size + 3] = _DASH, _DASH, _DASH, _BAR
                size += 4
    return size


@compiled(_Rules, _Table, types.int64, types.int64, types.int64, types.int64, _Out, types.int64)
def _begin_cell(rules: Any, nodes: Any, row: int, cell: int, last_row: int, last_cell: int, out: Any, size: int) -> Any:
    """Write what stands between the last cell that was written and this one; the new size."""
    if row != last_row:
        out[size], out[size + 1] = _BAR, _SPACE
        return _skip_cells(rules, nodes, row, row + 1, cell, out, size + 2)
    if cell == last_cell:
        out[size] = _SPACE
        return size + 1
    return _skip_cells(rules, nodes, row, last_cell + 1, cell + 1, out, size)


@compiled(Bytes, _Rules, _Table, _Spans, _Table, _Flags, _Out)
def _write(data: Any, rules: Any, nodes: Any, spans: Any, blocks: Any, kept: Any, out: Any) -> Any:
    begun = np.zeros(len(nodes), np.bool_)
    last_row, last_cell = np.int64(-1), np.int64(-1)
    size = np.int64(0)
    for block in range(len(kept)):
        if not kept[block]:
            continue
        first, last, node = blocks[block, 0], blocks[block + 1, 0], blocks[block, 1]
        row = _row_of(rules, nodes, node)
        if last_row >= 0 and row != last_row:
            size = _end_row(rules, nodes, last_row, last_cell, out, size)
        before = size
        if size and (row < 0 or row != last_row):
            out[size] = _LINE_FEED
            size += 1
        if row >= 0:
            size = _begin_cell(rules, nodes, row, node, last_row, last_cell, out, size)
            last_cell = node
        else:
            size = _begin_item(rules, nodes, node, begun, out, size)
        marked = size
        if row < 0 and _is_code(nodes, node):
            size = _write_code(data, spans, first, last, out, size)
        else:
            size = _write_line(data, spans, first, last, row >= 0, out, size)
        if size == marked and row < 0:
            size = before  # nothing but control characters
        last_row = row
    if last_row >= 0:
        size = _end_row(rules, nodes, last_row, last_cell, out, size)
    return size
