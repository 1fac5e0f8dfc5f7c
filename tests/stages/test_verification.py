"""Exact Jaccard of shingles: equal to plain Python; bounded for long texts; which pairs are compared at all."""

import random
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stages.kernels.buffers import text_buffers
from stages.kernels.minhash import collect_shingles, compare_shingles
from stages.signatures import normalized, value_array, value_stretches
from stages.verification import MAX_DOUBTS, ReplyShingles, doubtful_counts
from tests.stages.reference_minhash import hash_shingle, jaccard, shingles
from tests.strategies import texts


def collected(found: list[str], ngram: int) -> list[list[int]]:
    values, offsets = collect_shingles(*text_buffers(normalized(pa.array(found, pa.large_string()))), ngram)
    return [values[start:stop].tolist() for start, stop in pairwise(offsets)]


@settings(max_examples=100, deadline=None)
@given(st.lists(texts, max_size=6), st.integers(1, 6))
def test_shingles_are_those_of_the_reference(found: list[str], ngram: int) -> None:
    assert collected(found, ngram) == [sorted({hash_shingle(one) for one in shingles(text, ngram)}) for text in found]


@settings(max_examples=100, deadline=None)
@given(st.lists(st.lists(st.sampled_from("abcd"), min_size=1, max_size=12).map(" ".join), min_size=2, max_size=5))
def test_the_index_is_exact(found: list[str]) -> None:
    values, offsets = collect_shingles(*text_buffers(pa.array(found, pa.large_string())), 2)
    partner = np.arange(-1, len(found) - 1)
    expected = [-1.0, *(jaccard(one, other, 2) for one, other in zip(found[1:], found[:-1], strict=True))]
    assert compare_shingles(values, offsets, partner).tolist() == expected


def test_of_long_texts_a_sample_of_bounded_size_is_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stages.kernels.minhash.MAX_SHINGLES", 1000)
    rng = random.Random(1)
    pool = [f"w{rng.randrange(10**9)}" for _ in range(10_000)]
    found = [" ".join(pool), " ".join(pool[:8000]), " ".join(pool[:500])]
    values, offsets = collect_shingles(*text_buffers(pa.array(found, pa.large_string())), 1)
    assert np.diff(offsets).tolist() == [1000, 1000, 500]
    estimate = compare_shingles(values, offsets, np.array([1, 0, 0]))
    assert estimate[0] == estimate[1] == pytest.approx(0.8, abs=0.04)
    assert estimate[2] == pytest.approx(0.05, abs=0.02)  # the short one is known beyond the sample, too


def test_shingles_travel_unchanged() -> None:
    values, offsets = np.arange(7, dtype=np.uint32) * np.uint32(0x11111111), np.array([0, 3, 3, 7])
    array = value_array(values, offsets)
    array.validate(full=True)
    for start in range(3):
        found, bounds = value_stretches(array.slice(start))
        assert found.tolist() == values[offsets[start] :].tolist()
        assert bounds.tolist() == (offsets[start:] - offsets[start]).tolist()


@pytest.mark.parametrize(
    ("num_values", "threshold", "expected"),
    [(126, 0.8, (88, 115)), (9000, 0.8, (6301, 8101)), (126, 1.0, (114, 139)), (141, 0.5, (53, 89)), (4, 0.1, (-1, 3))],
    ids=["3 standard errors", "0.1", "equal shingles", "low", "few values"],
)
def test_where_the_estimate_does_not_decide(num_values: int, threshold: float, expected: tuple[int, int]) -> None:
    assert doubtful_counts(num_values, threshold) == expected


def test_a_document_compares_a_bounded_number_of_pairs() -> None:
    number = 3 * MAX_DOUBTS
    likely = np.arange(number) % 2 == 1
    mail = pa.table(
        {
            "row": pa.array([4] * number, pa.uint32()),
            "id": pa.array([bytes(16)] * number, pa.binary(16)),
            "other": pa.array([one.to_bytes(16, "big") for one in range(1, number + 1)], pa.binary(16)),
            "preference": pa.array([number] * number, pa.uint64()),
            "other_preference": pa.array(range(number), pa.uint64()),
            "scope": pa.array([0] * number, pa.uint64()),
            "is_likely": pa.array(likely),
        }
    )
    documents = pa.table({"text": pa.array(["a b"], pa.large_string()), "row": pa.array([4], pa.uint32())})
    rows = ReplyShingles(1).open()(documents, mail)
    chosen = sorted(int.from_bytes(one, "big") - 1 for one in rows.column("keeper").to_pylist())
    assert chosen == sorted({*range(8), *range(1, 17, 2)})  # the 8 most preferred, and the 8 likely ones
