"""Whom de-duplication keeps, and among which documents it looks."""

import itertools
import re
from typing import Any

import pyarrow as pa
import pytest

from curate.core.schema import ORIGIN
from stages.dedup import ExactDedup, MinHashDedup
from stages.keepers import Order, Preference, scope_numbers
from tests.oracle import Cuts, documents_of, run_exchange
from tests.stages.test_dedup import BASE, changed, clusters, fates

DATES = ["2014", "2014-05", None, "2014-05-02", "2014-05-02T10:00:00Z", "1899-12-31", "", "no date", "2013-12-31"]
SCORES = [0.5, None, -1.0, 0.0, 1e30, float("nan"), 0.9999, -1e-30, float("-inf")]


def kept_first(batch: pa.RecordBatch, *keep: Preference, score: str | None = None) -> list[list[int]]:
    """Positions in order; those that are equal stand together."""
    numbers = Order(keep, score).numbers(batch).tolist()
    ranked = sorted(range(len(numbers)), key=lambda one: (numbers[one], one))
    return [list(group) for _, group in itertools.groupby(ranked, key=numbers.__getitem__)]


def test_each_order_by_itself() -> None:
    batch = documents_of(["aa", "b", None, "cccc"], rank=[2, 0, 1, 0].__getitem__)
    assert kept_first(batch, "source_order") == [[1, 3], [2], [0]]
    assert kept_first(batch, "longest") == [[3], [0], [1], [2]]
    dated = documents_of(["x"] * len(DATES)).append_column("date", pa.array(DATES, pa.string()))
    assert kept_first(dated, "newest") == [[3, 4], [1], [0], [8], [5], [2, 6, 7]]
    scored = documents_of(["x"] * len(SCORES)).append_column("quality", pa.array(SCORES, pa.float64()))
    assert kept_first(scored, "highest", score="quality") == [[4], [6], [0], [3], [7], [2], [8], [1, 5]]


def test_orders_in_a_row_and_ties() -> None:
    batch = documents_of(["aa", "b", "cc", "cccc"], rank=[1, 0, 1, 0].__getitem__)
    assert kept_first(batch, "source_order", "longest") == [[3], [1], [0, 2]]
    assert kept_first(batch, "longest", "source_order") == [[3], [0, 2], [1]]
    assert kept_first(batch) == [[0, 1, 2, 3]]


def test_the_keeper_is_the_one_that_keep_names() -> None:
    texts = [" ".join(changed(BASE, place)) for place in (1, 2, 3)]
    batch = documents_of(texts).append_column("date", pa.array(["2001", "2003", "2002"]))
    batch = batch.append_column("score", pa.array([0.3, 0.2, 0.1], pa.float32()))
    for options, kept in (({"keep": ("newest",)}, 1), ({"keep": ("highest",), "score": "score"}, 0)):
        stage = MinHashDedup(**options)
        assert set(fates(run_exchange(stage, batch)).values()) == {("near_duplicate", kept)}
        assert {"date", "score"} & set(stage.columns_read()) == {"date" if kept else "score"}
    equal = documents_of(["x", "x"]).append_column("date", pa.array(["2001", "2003"]))
    assert fates(run_exchange(ExactDedup(keep=("newest",)), equal)) == {0: ("exact", 1)}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"keep": ("highest",)}, "highest and score, the column that it compares, are given together"),
        ({"score": "score"}, "highest and score"),
        ({"keep": ("source_order", "longest", "highest"), "score": "s"}, "take 76 bits of 64; leave one out"),
        ({"num_groups": 0}, "num_groups is 0"),
    ],
)
def test_orders_that_contradict_each_other_are_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=re.escape(said)):
        MinHashDedup(**options)


def placed(texts: list[str], places: list[tuple[int, str]]) -> pa.RecordBatch:
    origins = [{"source": "s", "key": key, "offset": 0, "length": 1, "inner": 0} for _, key in places]
    batch = documents_of(texts, rank=lambda number: places[number][0])
    return batch.append_column("origin", pa.array(origins, ORIGIN))


PLACES = [(0, "2013/a"), (0, "2013/b"), (0, "2014/a"), (1, "2013/a"), (0, "2014/b"), (1, "2013/a")]


@pytest.mark.parametrize(
    ("scope", "named"), [("global", [0] * 5), ("source", [0, 0, None, 0, 3]), ("dump", [0, None, None, 2, 3])]
)
def test_removal_stays_within_its_scope_and_clusters_do_not(scope: Any, named: list[int | None]) -> None:
    """FineWeb found that removal across dumps did harm; near-duplicates must never straddle splits all the same."""
    equal = [" ".join(BASE)] * 6
    similar = [" ".join(changed(BASE, place)) for place in range(6)]
    for texts in (equal, similar):
        for cuts in (Cuts(), Cuts(3, 4, 7)):
            outcome = run_exchange(MinHashDedup(scope=scope, keep=()), placed(texts, PLACES), cuts)
            expected = {one + 1: ("near_duplicate", kept) for one, kept in enumerate(named) if kept is not None}
            assert fates(outcome) == expected
            assert clusters(outcome) == dict.fromkeys(range(6), 0)


def test_equal_texts_elsewhere_do_not_hide_a_similar_one_in_the_scope() -> None:
    texts = [" ".join(BASE), " ".join(changed(BASE, 9)), " ".join(BASE)]
    outcome = run_exchange(MinHashDedup(scope="source", keep=()), placed(texts, [(0, "a"), (1, "b"), (1, "c")]))
    assert fates(outcome) == {2: ("near_duplicate", 1)}


def test_groups_are_of_inputs_and_as_many_as_asked() -> None:
    batch = placed(["x"] * 200, [(0, f"file{number % 100}") for number in range(200)])
    numbers = scope_numbers("group", 7, batch).tolist()
    assert len(set(numbers)) == 7
    assert numbers[:100] == numbers[100:]
