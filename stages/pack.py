"""Packings: how the documents of one bucket, in their order, become rows that are exactly full.

A packing sees lengths only. It is pure, so that any worker, at any time, plans the same rows.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, eq=False)
class Packed:
    """Pieces of documents in rows, sorted by (row, start), and the pieces that fill no row, in order.

    Piece i is the tokens [offset[i], offset[i] + length[i]) of document doc[i] (its position in the
    lengths given); they stand in row[i] from token start[i] on.
    """

    num_rows: int
    doc: Ints
    offset: Ints
    length: Ints
    row: Ints
    start: Ints
    tail_doc: Ints
    tail_offset: Ints
    tail_length: Ints


@dataclass(frozen=True, kw_only=True)
class Concat:
    """Documents one after the other, cut wherever a row is full: at most one cut a row, no padding.

    Source: the usual way to make pre-training rows, here without the remainder that group-wise
    chunking loses; the 88-billion-token PubMed corpus was made so.
    """

    version: ClassVar[int] = 1  # raise it when other rows come out: it enters the key

    def pack(self, lengths: Ints, row_length: int) -> Packed:
        """Rows of `row_length` tokens from documents of `lengths` tokens; an empty document has no piece.

        Raises: ValueError for a negative length or a row without room.
        """
        lengths = _checked(lengths, row_length)
        doc_ends = np.cumsum(lengths, dtype=np.int64)
        total = int(doc_ends[-1]) if lengths.size else 0
        num_rows = total // row_length
        row_starts = np.arange(num_rows + 1, dtype=np.int64) * row_length  # the last one begins the tail
        edges = np.union1d(doc_ends - lengths, row_starts)
        edges = edges[edges < total]  # where a piece begins
        doc = np.searchsorted(doc_ends, edges, side="right")  # passes over documents without tokens
        offset = edges - (doc_ends - lengths)[doc]
        length = np.diff(edges, append=total)
        in_rows = int(np.searchsorted(edges, num_rows * row_length))
        return Packed(
            num_rows=num_rows,
            doc=doc[:in_rows],
            offset=offset[:in_rows],
            length=length[:in_rows],
            row=edges[:in_rows] // row_length,
            start=edges[:in_rows] % row_length,
            tail_doc=doc[in_rows:],
            tail_offset=offset[in_rows:],
            tail_length=length[in_rows:],
        )


@dataclass(frozen=True, kw_only=True)
class BestFitFill:
    """Documents whole wherever they fit, and still no padding.

    A document longer than a row is cut into full rows and a rest. Rests and shorter documents go, the
    longest first, each into the row with the least room that holds it. Of the rows that are not full
    then, the emptiest are taken apart and fill the room in the others: at most one cut for each of these.

    Source: Ding et al. 2024, "Fewer Truncations Improve Language Modeling" (arXiv 2404.10830), section 3,
    best-fit-decreasing; filling the room is ours, because Trainium's loss does not mask padding.
    """

    version: ClassVar[int] = 1  # raise it when other rows come out: it enters the key

    def pack(self, lengths: Ints, row_length: int) -> Packed:
        """Rows of `row_length` tokens from documents of `lengths` tokens; an empty document has no piece.

        Raises: ValueError for a negative length or a row without room.
        """
        lengths = _checked(lengths, row_length)
        whole, rest = _fragments(lengths, row_length)
        row, num_rows = _best_fit(rest.length, row_length)
        fill = np.bincount(row, weights=rest.length, minlength=num_rows).astype(np.int64)
        by_fill = np.argsort(-fill, kind="stable")  # full rows come first
        num_kept = int(fill[fill < row_length].sum()) // row_length + int((fill == row_length).sum())
        rank = np.empty(num_rows, np.int64)
        rank[by_fill] = np.arange(num_rows)
        stays = rank[row] < num_kept
        order = np.lexsort((rest.doc, rank[row]))  # reserves: row after row
        reserve = rest.take(order[~stays[order]])
        filled, tail = _fill(reserve, row_length - fill[by_fill[:num_kept]])
        rest_rows = _Pieces(rest.doc, rest.offset, rest.length, rank[row]).take(np.flatnonzero(stays))
        placed = _joined([rest_rows, filled, _Pieces(whole.doc, whole.offset, whole.length, whole.row + num_kept)])
        return _packed(placed, num_kept + len(whole.doc), row_length, tail)


@dataclass(frozen=True, eq=False)
class _Pieces:
    """Pieces of documents, and a row for each."""

    doc: Ints
    offset: Ints
    length: Ints
    row: Ints

    def take(self, places: Ints) -> "_Pieces":
        return _Pieces(self.doc[places], self.offset[places], self.length[places], self.row[places])


def _checked(lengths: Ints, row_length: int) -> Ints:
    if row_length < 1:
        raise ValueError(f"row_length is {row_length}, must be at least 1")
    lengths = np.asarray(lengths, dtype=np.int64)
    if lengths.size and int(lengths.min()) < 0:
        raise ValueError(f"document {int(lengths.argmin())} has length {int(lengths.min())}")
    return lengths


def _joined(parts: list[_Pieces]) -> _Pieces:
    columns = ((part.doc, part.offset, part.length, part.row) for part in parts)
    return _Pieces(*(np.concatenate(column) for column in zip(*columns, strict=True)))


def _fragments(lengths: Ints, row_length: int) -> tuple[_Pieces, _Pieces]:
    """The pieces that fill a row each, a row for each, and those that are left: shorter, no row yet."""
    counts = lengths // row_length
    doc = np.repeat(np.arange(len(lengths)), counts)
    within = np.arange(len(doc)) - np.repeat(np.cumsum(counts) - counts, counts)
    whole = _Pieces(doc, within * row_length, np.full(len(doc), row_length), np.arange(len(doc)))
    left = np.flatnonzero(lengths % row_length)
    return whole, _Pieces(left, counts[left] * row_length, lengths[left] % row_length, np.zeros(len(left), np.int64))


def _best_fit(lengths: Ints, row_length: int) -> tuple[Ints, int]:
    """The row of each piece, and the number of rows: pieces by length, the longest and earliest first."""
    rows = np.zeros(len(lengths), np.int64)
    rows_by_room: dict[int, list[int]] = {}
    rooms = 0  # bit r: there is a row with room for r tokens more
    num_rows = 0
    sizes = lengths.tolist()
    for piece in np.argsort(-lengths, kind="stable").tolist():
        size = sizes[piece]
        fitting = rooms >> size
        if fitting:
            room = size + (fitting & -fitting).bit_length() - 1
            row = rows_by_room[room].pop()
            rooms ^= (not rows_by_room[room]) << room
        else:
            room, row = row_length, num_rows
            num_rows += 1
        rows[piece] = row
        left = room - size
        if left:
            rows_by_room.setdefault(left, []).append(row)
            rooms |= 1 << left
    return rows, num_rows


def _fill(reserve: _Pieces, room: Ints) -> tuple[_Pieces, _Pieces]:
    """Reserves laid end to end into the room of rows 0, 1, ..., cut where it ends; and what is left of them."""
    piece_ends = np.cumsum(reserve.length)
    room_ends = np.cumsum(room)
    total, total_room = int(reserve.length.sum()), int(room.sum())
    edges = np.union1d(piece_ends - reserve.length, np.append(room_ends - room, total_room))
    edges = edges[edges < total]
    piece = np.searchsorted(piece_ends, edges, side="right")
    offset = reserve.offset[piece] + edges - (piece_ends - reserve.length)[piece]
    row = np.searchsorted(room_ends, edges, side="right")  # passes over full rows
    pieces = _Pieces(reserve.doc[piece], offset, np.diff(edges, append=total), row)
    num_placed = int(np.searchsorted(edges, total_room))
    return pieces.take(np.arange(num_placed)), pieces.take(np.arange(num_placed, len(edges)))


def _packed(placed: _Pieces, num_rows: int, row_length: int, tail: _Pieces) -> Packed:
    """The pieces of each row in the order of their documents."""
    placed = placed.take(np.lexsort((placed.offset, placed.doc, placed.row)))
    tail = tail.take(np.lexsort((tail.offset, tail.doc)))
    return Packed(
        num_rows=num_rows,
        doc=placed.doc,
        offset=placed.offset,
        length=placed.length,
        row=placed.row,
        start=np.cumsum(placed.length) - placed.length - placed.row * row_length,  # every row is full
        tail_doc=tail.doc,
        tail_offset=tail.offset,
        tail_length=tail.length,
    )
