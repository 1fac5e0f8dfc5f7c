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
        if row_length < 1:
            raise ValueError(f"row_length is {row_length}, must be at least 1")
        lengths = np.asarray(lengths, dtype=np.int64)
        if lengths.size and int(lengths.min()) < 0:
            raise ValueError(f"document {int(lengths.argmin())} has length {int(lengths.min())}")
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
