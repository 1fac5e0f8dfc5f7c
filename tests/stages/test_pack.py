"""Concat: tiny tables by hand, and its laws: every token once, rows exactly full, order kept."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from stages.pack import Concat, Packed


def pack(lengths: list[int], row_length: int) -> Packed:
    return Concat().pack(np.array(lengths, dtype=np.int64), row_length)


def pieces(packed: Packed) -> list[tuple[int, ...]]:
    """(row, start, doc, offset, length) of each piece."""
    columns = (packed.row, packed.start, packed.doc, packed.offset, packed.length)
    return [tuple(piece) for piece in np.stack(columns, axis=1).tolist()]


def tail(packed: Packed) -> list[tuple[int, ...]]:
    """(doc, offset, length) of each piece that fills no row."""
    return [tuple(p) for p in np.stack((packed.tail_doc, packed.tail_offset, packed.tail_length), axis=1).tolist()]


def test_documents_are_cut_where_rows_are_full() -> None:
    packed = pack([3, 6, 1], 4)
    assert packed.num_rows == 2
    assert pieces(packed) == [(0, 0, 0, 0, 3), (0, 3, 1, 0, 1), (1, 0, 1, 1, 4)]
    assert tail(packed) == [(1, 5, 1), (2, 0, 1)]


def test_a_document_that_fills_rows_exactly_is_not_cut_further() -> None:
    packed = pack([4, 8], 4)
    assert pieces(packed) == [(0, 0, 0, 0, 4), (1, 0, 1, 0, 4), (2, 0, 1, 4, 4)]
    assert tail(packed) == []


def test_documents_without_tokens_have_no_piece() -> None:
    packed = pack([0, 2, 0, 0, 2, 0], 4)
    assert pieces(packed) == [(0, 0, 1, 0, 2), (0, 2, 4, 0, 2)]
    assert tail(packed) == []
    assert pieces(pack([0, 0], 4)) == [] == tail(pack([0, 0], 4))


def test_two_documents_that_do_not_fit_one_row_leave_no_row_of_padding() -> None:
    packed = pack([7, 7, 7], 8)  # sambanova/generative_data_prep#46
    assert packed.num_rows == 2
    assert int(packed.length.sum()) == 16
    assert tail(packed) == [(2, 2, 5)]


def test_empty_input_and_less_than_one_row() -> None:
    nothing = pack([], 4)
    assert nothing.num_rows == 0
    assert pieces(nothing) == [] == tail(nothing)
    assert tail(pack([1, 2], 4)) == [(0, 0, 1), (1, 0, 2)]


def test_positions_beyond_32_bits_are_exact() -> None:
    long = (1 << 33) + 1
    packed = Concat().pack(np.array([long, 3], dtype=np.int64), 1 << 31)
    assert packed.num_rows == 4
    assert packed.offset.tolist() == [0, 1 << 31, 1 << 32, 3 << 31]
    assert tail(packed) == [(0, long - 1, 1), (1, 0, 3)]


def test_refuses_what_is_no_length() -> None:
    with pytest.raises(ValueError, match="document 1 has length -2"):
        pack([3, -2], 4)
    with pytest.raises(ValueError, match="row_length is 0"):
        pack([3], 0)


@given(st.lists(st.integers(0, 25), max_size=60), st.integers(1, 12))
def test_every_token_stands_once_and_in_order_and_every_row_is_full(lengths: list[int], row_length: int) -> None:
    packed = pack(lengths, row_length)
    tokens = [(doc, position) for doc, length in enumerate(lengths) for position in range(length)]
    assert packed.num_rows == len(tokens) // row_length
    placed: dict[tuple[int, int], tuple[int, int]] = {}
    for row, start, doc, offset, length in pieces(packed):
        assert 1 <= length <= row_length - start
        for i in range(length):
            placed[row, start + i] = (doc, offset + i)
    in_rows = packed.num_rows * row_length
    every_place = [(row, start) for row in range(packed.num_rows) for start in range(row_length)]
    assert sorted(placed) == every_place
    assert [placed[place] for place in every_place] == tokens[:in_rows]
    left = [(doc, offset + i) for doc, offset, length in tail(packed) for i in range(length)]
    assert left == tokens[in_rows:]
    assert len(left) < row_length


@given(st.lists(st.integers(0, 25), max_size=60), st.integers(1, 12))
def test_pieces_are_as_few_as_the_cuts_demand_and_all_numbers_are_int64(lengths: list[int], row_length: int) -> None:
    packed = pack(lengths, row_length)
    columns: list[NDArray[np.int64]] = [
        packed.doc, packed.offset, packed.length, packed.row, packed.start,
        packed.tail_doc, packed.tail_offset, packed.tail_length,
    ]  # fmt: skip
    assert all(column.dtype == np.int64 for column in columns)
    same_doc = packed.doc[1:] == packed.doc[:-1]
    assert (packed.start[1:][same_doc] == 0).all()  # a document continues only at the head of a row
    assert [p[:2] for p in pieces(packed)] == sorted(p[:2] for p in pieces(packed))
