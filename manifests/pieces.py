"""The document table of a shard as arrays, and what must hold among its lines."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manifests.layout import UNKNOWN_LICENSE, id_array
from manifests.problems import Problems

Int64 = NDArray[np.int64]

_NUMBERS = ("row", "start", "length", "token_offset", "document_tokens")
NEVER_NULL = (*_NUMBERS, "id", "group", "source")


@dataclass(frozen=True, kw_only=True, eq=False)
class Pieces:
    """The document table of a shard as arrays, one item a piece."""

    row: Int64
    start: Int64
    length: Int64
    token_offset: Int64
    document_tokens: Int64
    id: NDArray[np.bytes_]  # S16
    group: tuple[Int64, list[str]]  # codes and what they mean
    source: tuple[Int64, list[str]]
    license: tuple[Int64, list[str]]

    @property
    def begins(self) -> NDArray[np.bool_]:
        """Pieces that begin a document."""
        begins: NDArray[np.bool_] = self.token_offset == 0
        return begins

    @property
    def ends(self) -> NDArray[np.bool_]:
        """Pieces that end a document."""
        ends: NDArray[np.bool_] = self.token_offset + self.length == self.document_tokens
        return ends


def pieces_of(table: Any) -> Pieces:
    """The pieces in a document table, which has no nulls where a piece needs a value."""
    numbers = {name: table.column(name).to_numpy().astype(np.int64) for name in _NUMBERS}
    return Pieces(
        **numbers,
        id=id_array(table.column("id")),
        group=_coded(table.column("group"), ""),
        source=_coded(table.column("source"), ""),
        license=_coded(table.column("license"), UNKNOWN_LICENSE),
    )


def _coded(column: Any, null: str) -> tuple[Int64, list[str]]:
    coded = column.fill_null(null).combine_chunks().dictionary_encode()
    return coded.indices.to_numpy().astype(np.int64), coded.dictionary.to_pylist()


def check_tiling(key: str, pieces: Pieces, num_rows: int, length: int, problems: Problems) -> None:
    """Pieces are sorted, lie end to end in each row and fill every row; a row has one group."""
    row, start, stop = pieces.row, pieces.start, pieces.start + pieces.length
    opens = np.append(True, row[1:] != row[:-1])[: len(row)]
    last = np.flatnonzero(np.append(row[1:] != row[:-1], True)[: len(row)])
    problems.expect(key, "rows that have pieces", num_rows, len(last))
    problems.first(
        key,
        "order of rows",
        row[last] != np.arange(len(last)),
        lambda i: f"expected row {i}, found row {row[last[i]]}",
    )
    expected = np.where(opens, 0, np.roll(stop, 1))
    problems.first(
        key,
        "pieces",
        start != expected,
        lambda i: f"row {row[i]}: expected one at token {expected[i]}, found one at {start[i]}",
    )
    problems.first(
        key,
        "end of a row",
        stop[last] != length,
        lambda i: f"row {row[last[i]]}: expected pieces up to token {length}, found up to {stop[last[i]]}",
    )
    _check_pieces(key, pieces, opens, problems)


def _check_pieces(key: str, pieces: Pieces, opens: NDArray[np.bool_], problems: Problems) -> None:
    row, stop = pieces.row, pieces.token_offset + pieces.length
    problems.first(
        key,
        "length of a piece",
        pieces.length < 1,
        lambda i: f"row {row[i]}: expected 1 or more, found {pieces.length[i]}",
    )
    problems.first(
        key,
        "end of a piece",
        stop > pieces.document_tokens,
        lambda i: f"row {row[i]}: expected within {pieces.document_tokens[i]} tokens, found up to {stop[i]}",
    )
    codes, names = pieces.group
    problems.first(
        key,
        "group of a row",
        ~opens & (codes != np.roll(codes, 1)),
        lambda i: f"row {row[i]}: expected {names[codes[i - 1]]!r} alone, found {names[codes[i]]!r} too",
    )
