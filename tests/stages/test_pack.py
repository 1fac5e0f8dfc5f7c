"""Packings: tiny tables by hand, and their laws: every token once, rows exactly full, no needless cut."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from stages.pack import BestFitFill, Concat, Packed


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


def fit(lengths: list[int], row_length: int) -> Packed:
    return BestFitFill().pack(np.array(lengths, dtype=np.int64), row_length)


def test_best_fit_keeps_documents_whole_where_they_fit() -> None:
    packed = fit([6, 3, 7, 5, 4, 1, 6], 8)
    # 7 + 1, 5 + 3, then 6, 6 and 4 in rows of their own: the 4 fills both, half and half.
    assert pieces(packed) == [
        (0, 0, 2, 0, 7), (0, 7, 5, 0, 1),
        (1, 0, 1, 0, 3), (1, 3, 3, 0, 5),
        (2, 0, 0, 0, 6), (2, 6, 4, 0, 2),
        (3, 0, 4, 2, 2), (3, 2, 6, 0, 6),
    ]  # fmt: skip
    assert tail(packed) == []


def test_best_fit_cuts_a_long_document_into_full_rows_and_a_rest() -> None:
    packed = fit([19, 5], 8)
    assert pieces(packed) == [(0, 0, 0, 16, 3), (0, 3, 1, 0, 5), (1, 0, 0, 0, 8), (2, 0, 0, 8, 8)]
    assert tail(packed) == []


def test_best_fit_leaves_less_than_a_row_and_needs_no_document() -> None:
    assert tail(fit([7, 7, 7], 8)) == [(2, 2, 5)]
    assert pieces(fit([7, 7, 7], 8)) == [(0, 0, 0, 0, 7), (0, 7, 2, 0, 1), (1, 0, 1, 0, 7), (1, 7, 2, 1, 1)]
    assert pieces(fit([], 8)) == [] == tail(fit([], 8))
    assert pieces(fit([0, 0], 8)) == [] == tail(fit([0], 8))
    assert tail(fit([3, 2], 8)) == [(0, 0, 3), (1, 0, 2)]
    with pytest.raises(ValueError, match="document 0 has length -1"):
        fit([-1], 8)


@given(st.lists(st.integers(0, 40), max_size=80), st.integers(1, 16))
def test_best_fit_places_every_token_once_fills_every_row_and_cuts_no_more_than_it_must(
    lengths: list[int], row_length: int
) -> None:
    packed = fit(lengths, row_length)
    assert packed.num_rows == sum(lengths) // row_length
    places = [(row, start + i) for row, start, _, _, length in pieces(packed) for i in range(length)]
    assert places == [(row, start) for row in range(packed.num_rows) for start in range(row_length)]
    found = [(doc, offset + i) for _, _, doc, offset, length in pieces(packed) for i in range(length)]
    left = [(doc, offset + i) for doc, offset, length in tail(packed) for i in range(length)]
    assert sorted(found + left) == [(doc, i) for doc, length in enumerate(lengths) for i in range(length)]
    assert len(left) < row_length
    # What is left over is the end of its document, so that a document without a token in a row is whole.
    assert all(offset + length == lengths[doc] for doc, offset, length in tail(packed))
    cuts = Counter(doc for _, _, doc, _, _ in pieces(packed)) + Counter(doc for doc, _, _ in tail(packed))
    needed = [max(1, -(-length // row_length)) for length in lengths]
    extra = sum(count - needed[doc] for doc, count in cuts.items())
    rests = sorted((length % row_length for length in lengths if length % row_length), reverse=True)
    assert 0 <= extra <= best_fit_rows_with_room(rests, row_length)


def best_fit_rows_with_room(lengths: list[int], row_length: int) -> int:
    """Rows that best-fit-decreasing leaves with room, in plain Python."""
    rooms: list[int] = []
    for length in lengths:
        fitting = [room for room in rooms if room >= length]
        if fitting:
            rooms.remove(min(fitting))
        rooms.append((min(fitting) if fitting else row_length) - length)
    return sum(room > 0 for room in rooms)


def test_best_fit_cuts_far_fewer_documents_than_concat() -> None:
    """Abstracts and articles: lengths as measured on PubMed, log-normal; most cuts of concat are needless."""
    lengths = np.random.default_rng(1).lognormal(6.2, 1.0, 5000).astype(np.int64) + 1
    cut = {}
    for packing in (Concat(), BestFitFill()):
        packed = packing.pack(lengths, 4096)
        counts = np.bincount(np.append(packed.doc, packed.tail_doc), minlength=len(lengths))
        cut[type(packing)] = int(((counts > 1) & (lengths <= 4096)).sum())
    assert cut[BestFitFill] * 5 < cut[Concat]
