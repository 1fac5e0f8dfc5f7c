"""Stars and members: tiny tables in, exact tables out, however they are cut; components of any graph."""

import itertools
import random
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from curate.core.exchange import Reducer
from stages.clusters import LargeStarReducer, MembersReducer, SmallStarReducer
from stages.verification import EDGE
from tests.oracle import schema_of

Rows = list[tuple[Any, ...]]  # id, other, relation, home


def text_id(number: int) -> bytes:
    return number.to_bytes(16, "big")


def table(rows: Sequence[tuple[Any, ...]]) -> pa.Table:
    """Rows of EDGE, in order; all have one key, so that ids stand together."""
    columns = list(zip(*rows, strict=True)) or [()] * 4
    data = {
        "key": [0] * len(rows),
        "id": [text_id(one) for one in columns[0]],
        "other": [text_id(one) for one in columns[1]],
        "relation": columns[2],
        "preference": columns[3],
        "home": columns[3],
    }
    return pa.table(data, schema=schema_of("key", EDGE))


def links(pairs: Sequence[tuple[int, int]]) -> Rows:
    return [(*pair, 0, None) for pair in sorted(pairs)]


def reduced(reducer: Reducer, rows: Rows, cuts: Sequence[int] = ()) -> list[tuple[int, int]]:
    """What a reducer gives for rows in parts, as (id, other), sorted."""
    bounds = [0, *sorted(cuts), len(rows)]
    found: list[tuple[int, int]] = []
    for start, stop in itertools.pairwise(bounds):
        if rows[start:stop]:
            given = reducer.reduce(table(rows[start:stop]))
            ids = [[int.from_bytes(one, "big") for one in given.column(name).to_pylist()] for name in ("id", "other")]
            found += zip(*ids, strict=True)
    return sorted(found)


CUTS = [(), (1,), (2,), (3,), (1, 2, 3, 4, 5), tuple(range(1, 9))]


@pytest.mark.parametrize("cuts", CUTS)
def test_large_star_links_what_is_above_to_the_smallest(cuts: Sequence[int]) -> None:
    reducer = LargeStarReducer()
    rows = links([(5, 2), (5, 2), (5, 4), (5, 7), (5, 7), (5, 9), (6, 8)])
    assert reduced(reducer, rows, cuts) == [(7, 2), (8, 6), (9, 2)]  # equal rows once
    assert reducer.num_changed == 2  # 8 is linked to 6 as before


@pytest.mark.parametrize("cuts", CUTS)
def test_small_star_links_all_to_the_smallest_from_both_ends(cuts: Sequence[int]) -> None:
    reducer = SmallStarReducer()
    rows = links([(8, 3), (8, 3), (8, 5), (8, 5), (8, 6), (9, 1)])
    expected = [(8, 3), (5, 3), (6, 3), (9, 1)]
    assert reduced(reducer, rows, cuts) == sorted(expected + [pair[::-1] for pair in expected])
    assert reducer.num_changed == 2  # 5 and 6


@pytest.mark.parametrize("cuts", CUTS)
def test_members_name_each_document_once_and_its_pairs(cuts: Sequence[int]) -> None:
    rows: Rows = [(1, 2, 0, 10), (1, 3, 0, None), (2, 1, 0, None), (2, 1, 2, 20), (2, 3, 1, 20)]
    rows += [(2, 4, 0, None), (2, 5, 0, 20), (3, 1, 0, None), (3, 2, 0, 30)]
    reducer = MembersReducer()
    assert reduced(reducer, rows, cuts) == [(1, 1), (2, 1), (2, 2), (2, 3), (3, 3)]


def test_members_go_to_the_smallest_of_their_cluster() -> None:
    given = MembersReducer().reduce(table([(1, 2, 0, 10), (2, 1, 2, 20), (2, 3, 1, 20)]))
    lines = {(one["id"][-1], one["other"][-1]): one for one in given.to_pylist()}
    assert {pair: line["relation"] for pair, line in lines.items()} == {(1, 1): 0, (2, 2): 0, (2, 1): 2, (2, 3): 1}
    assert {line["cluster"] for line in lines.values()} == {text_id(1)}
    assert {line["home"] for pair, line in lines.items() if pair[0] == 2} == {20}


def run_loop(pairs: list[tuple[int, int]]) -> tuple[dict[int, int], int]:
    """The smallest node of each component, and turns."""
    edges = [pair for one, other in pairs for pair in ((one, other), (other, one))]
    for turn in range(1, 100):
        large, small = LargeStarReducer(), SmallStarReducer()
        edges = reduced(small, links(reduced(large, links(edges))))
        if large.num_changed + small.num_changed == 0:
            return {one: min(one, other) for one, other in edges}, turn
    raise AssertionError("did not settle")


def smallest(pairs: list[tuple[int, int]]) -> dict[int, int]:
    """The same by spreading the smallest until nothing changes."""
    label = {one: one for pair in pairs for one in pair}
    before: dict[int, int] = {}
    while before != label:
        before = dict(label)
        for one, other in pairs:
            label[one] = label[other] = min(label[one], label[other])
    return label


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)).filter(lambda pair: pair[0] != pair[1]), max_size=40))
def test_components_of_any_graph(pairs: list[tuple[int, int]]) -> None:
    assert run_loop(pairs)[0] == smallest(pairs)


@pytest.mark.parametrize("order", ["ascending", "zigzag", "shuffled"])
def test_a_long_chain_takes_few_turns(order: str) -> None:
    nodes = list(range(2000))
    if order == "zigzag":
        nodes[::2], nodes[1::2] = range(1000), range(1000, 2000)
    if order == "shuffled":
        random.Random(1).shuffle(nodes)
    found, turns = run_loop(list(itertools.pairwise(nodes)))
    assert found == dict.fromkeys(range(2000), 0)
    assert turns <= 14
