"""KeepTop: exactly the best share by (value, id), against sorting all documents in one list."""

import hashlib
import math
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stages.score import ALL_BITS, CountRanks, KeepTop, ascending, leading_zeros
from tests.oracle import Cuts, summarize

Value = int | float | None


def documents_of(values: list[Value], kind: pa.DataType, ids: list[bytes] | None = None) -> pa.RecordBatch:
    ids = ids or [hashlib.sha256(str(number).encode()).digest()[:16] for number in range(len(values))]
    return pa.RecordBatch.from_pydict({"id": pa.array(ids, pa.binary(16)), "value": pa.array(values, kind)})


def judge(documents: pa.RecordBatch, share: float, cuts: Cuts | None = None) -> list[str | None]:
    stage = KeepTop(column="value", share=share)
    reasons: list[str | None] = stage.open(*summarize(stage.summary(), documents, cuts))(documents).to_pylist()
    return reasons


def recount(documents: pa.RecordBatch, share: float) -> list[str | None]:
    """What one process makes of a list of all documents."""
    rows = documents.to_pylist()
    scored = [row for row in rows if row["value"] is not None and not math.isnan(row["value"])]
    scored.sort(key=lambda row: (-row["value"], row["id"]))
    top = {row["id"] for row in scored[: round(Fraction(repr(share)) * len(scored))]}
    with_score = {row["id"] for row in scored}
    return [None if row["id"] in top else "below_top" if row["id"] in with_score else "no_score" for row in rows]


def test_by_hand() -> None:
    ids = [bytes(15) + bytes([number]) for number in (4, 3, 2, 1, 9)]
    documents = documents_of([0.5, 0.9, 0.5, 0.1, None], pa.float32(), ids)
    assert judge(documents, 0.5) == ["below_top", None, None, "below_top", "no_score"]  # of two 0.5, the smaller id
    assert judge(documents, 0.75) == [None, None, None, "below_top", "no_score"]
    assert judge(documents, 1.0) == [None, None, None, None, "no_score"]


@pytest.mark.parametrize(("share", "num_kept"), [(0.124, 0), (0.125, 0), (0.126, 1), (0.25, 1), (0.375, 2), (0.5, 2)])
def test_the_number_is_rounded_and_half_goes_to_even(share: float, num_kept: int) -> None:
    documents = documents_of([1, 1, 1, 1], pa.int64())
    assert judge(documents, share).count(None) == num_kept


def test_a_share_is_what_is_written() -> None:
    """0.07 x 100 is 7.000000000000001 in floating point."""
    assert judge(documents_of(list(range(100)), pa.int32()), 0.07).count(None) == 7


KINDS: dict[pa.DataType, st.SearchStrategy[Value]] = {
    pa.float32(): st.none() | st.floats(width=32) | st.sampled_from([0.0, -0.0, 0.5]),
    pa.float64(): st.none() | st.floats() | st.sampled_from([0.0, -0.0, 1e-300]),
    pa.int64(): st.none() | st.integers(-(1 << 63), (1 << 63) - 1) | st.integers(-2, 2),
    pa.uint64(): st.none() | st.integers(0, (1 << 64) - 1) | st.integers(0, 2),
    pa.uint8(): st.none() | st.integers(0, 255),
}


@pytest.mark.parametrize("max_rows", [2, 5, 1 << 16])
@pytest.mark.parametrize("kind", KINDS, ids=str)
@settings(max_examples=40, deadline=None)
@given(data=st.data(), share=st.integers(1, 1000).map(lambda n: n / 1000), seed=st.integers(0, 1 << 32))
def test_any_column_and_any_number_of_rounds(
    kind: pa.DataType, max_rows: int, data: st.DataObject, share: float, seed: int
) -> None:
    documents = documents_of(data.draw(st.lists(KINDS[kind], max_size=30)), kind)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(CountRanks, "max_rows", max_rows)
        assert judge(documents, share, Cuts(seed=seed)) == recount(documents, share)


def test_large_numbers_of_documents_take_few_rounds_and_little_room() -> None:
    """200,000 documents of one value, then of 4-decimal values: the table is full, and the answer is exact."""
    rng = np.random.default_rng(1)
    ids = pa.array([hashlib.sha256(str(number).encode()).digest()[:16] for number in range(200_000)], pa.binary(16))
    for values in (np.ones(len(ids)), np.round(rng.random(len(ids)) ** 4, 4)):
        documents = pa.RecordBatch.from_pydict({"id": ids, "value": pa.array(values, pa.float32())})
        stage = KeepTop(column="value", share=0.1)
        tables = summarize(stage.summary(), documents)
        assert len(tables) <= 2
        assert all(0 < table.num_rows <= 1 << 16 for table in tables)
        reasons = stage.open(*tables)(documents)
        assert len(reasons) - reasons.null_count == 180_000
        assert reasons.to_pylist() == recount(documents, 0.1)


def test_a_round_narrows_the_range_by_16_bits_at_least() -> None:
    """The worst column there is: each value twice as far from the end as the one before."""
    values: list[Any] = [1 << bit for bit in range(64)] + [0] * 400
    documents = documents_of(values, pa.uint64())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(CountRanks, "max_rows", 4)
        tables = summarize(CountRanks(column="value", share=0.5), documents)
    bits = [table.column("bits")[0].as_py() for table in tables]
    assert bits == sorted(set(bits)) and bits[-1] <= ALL_BITS
    assert all(later - earlier >= 2 for earlier, later in pairwise(bits))


@given(st.lists(st.floats(allow_nan=False), min_size=2))
def test_numbers_sort_as_their_bits(values: list[float]) -> None:
    bits = ascending(pa.array(values, pa.float64()))
    for index in range(1, len(values)):
        assert (bits[index - 1] < bits[index]) == (values[index - 1] < values[index])


@given(st.integers(0, (1 << 64) - 1))
def test_leading_zeros(number: int) -> None:
    assert leading_zeros(np.array([number], np.uint64)).tolist() == [64 - number.bit_length()]


@pytest.mark.parametrize("share", [0.0, -0.1, 1.01])
def test_a_share_that_is_none_is_refused(share: float) -> None:
    with pytest.raises(ValueError, match="share is"):
        KeepTop(column="value", share=share)


def test_a_column_of_words_is_refused() -> None:
    stage = KeepTop(column="language", share=0.5)
    with pytest.raises(ValueError, match="column 'language' holds string; want numbers"):
        stage.check_columns({"language": pa.string()})
