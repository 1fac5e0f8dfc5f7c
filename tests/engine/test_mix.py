"""Mixing groups of rows: counts by share, order by error feedback, exactly."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from curate.core.errors import PlanError
from curate.engine.mix import Allocation, allocate, order, share_rows
from curate.plan.plan import Group
from tests.engine.plans import mixed_plan

DOMAIN = Group(name="domain", sources=("web",))
GENERAL = Group(name="general", sources=("notes",), share=0.01)

shares = st.integers(1, 999).map(lambda n: n / 1000)
counts = st.lists(st.integers(0, 400), min_size=1, max_size=4)


@pytest.mark.parametrize(
    ("share", "whole", "rows"),
    [
        (0.01, 99, 1),  # 1 of 100
        (0.01, 0, 0),
        (0.01, 49, 0),  # 0.49 of 49.49
        (0.01, 50, 1),  # 0.51
        (0.1, 9, 1),
        (0.1, 100, 11),  # 11 of 111: 11.1
        (0.5, 7, 7),
        (0.01, 3960, 40),  # exactly 40 of 4,000
        (0.01, 21_000_000, 212_121),
    ],
)
def test_rows_of_one_share(share: float, whole: int, rows: int) -> None:
    assert share_rows([None, share], whole) == [0, rows]


def test_several_shares_are_of_the_same_total() -> None:
    assert share_rows([0.1, None, 0.2], 70) == [10, 0, 20]


@given(st.lists(shares, max_size=4).filter(lambda s: sum(map(Fraction, map(str, s))) < 1), st.integers(0, 10**7))
def test_each_share_is_rounded_of_the_total_that_includes_them_all(parts: list[float], whole: int) -> None:
    rows = share_rows([None, *parts], whole)
    total = whole + sum(rows)
    assert rows == [0, *(round(Fraction(str(share)) * total) for share in parts)]


def test_a_share_takes_its_rows_and_the_rest_is_left() -> None:
    assert allocate(mixed_plan(DOMAIN, GENERAL), "train", [990, 50]).places == (990, 10)


def test_without_a_mix_every_row_has_a_place() -> None:
    assert allocate(mixed_plan(), "train", [12]) == Allocation(("all",), (12,), (12,))


def test_splits_beside_train_take_all_rows() -> None:
    assert allocate(mixed_plan(DOMAIN, GENERAL), "validation", [3, 5]).places == (3, 5)


def test_too_few_rows_are_refused_with_what_would_help() -> None:
    with pytest.raises(PlanError) as caught:
        allocate(mixed_plan(DOMAIN, GENERAL), "train", [990, 4])
    assert str(caught.value) == (
        "mix group 'general' has 4 train rows, but 0.01 of the mix is 10; "
        "add input to it, lower its share, or set its epochs to 3"
    )


def test_no_rows_at_all_are_not_helped_by_epochs() -> None:
    with pytest.raises(PlanError) as caught:
        allocate(mixed_plan(DOMAIN, GENERAL), "train", [990, 0])
    assert str(caught.value).endswith("but 0.01 of the mix is 10; add input to it, lower its share")


def test_epochs_repeat_rows_from_the_first_on() -> None:
    general = Group(name="general", sources=("notes",), share=0.5, epochs=3)
    mix = allocate(mixed_plan(DOMAIN, general), "train", [7, 3])
    assert mix.places == (7, 7)
    group, number = order("train", mix, 0, mix.num_rows)
    assert number[group == 1].tolist() == [0, 1, 2, 3, 4, 5, 6]  # the shards take them modulo 3


def test_epochs_of_a_group_that_is_taken_whole_count_in_the_total() -> None:
    domain = Group(name="domain", sources=("web",), epochs=2)
    general = Group(name="general", sources=("notes",), share=0.1)
    assert allocate(mixed_plan(domain, general), "train", [45, 20]).places == (90, 10)


def test_by_hand() -> None:
    group, number = order("train", Allocation(("a", "b"), (6, 2), (6, 2)), 0, 8)
    assert group.tolist() == [0, 0, 1, 0, 0, 0, 1, 0]
    assert number.tolist() == [0, 1, 0, 2, 3, 4, 1, 5]


def test_validation_and_test_keep_groups_apart_in_order() -> None:
    mix = Allocation(("a", "b", "c"), (2, 0, 3), (2, 0, 3))
    group, number = order("validation", mix, 0, 5)
    assert (group.tolist(), number.tolist()) == ([0, 0, 2, 2, 2], [0, 1, 0, 1, 2])


@given(counts, st.data())
def test_every_window_is_a_part_of_the_whole_order(places: list[int], data: st.DataObject) -> None:
    mix = Allocation(tuple(map(str, range(len(places)))), tuple(places), tuple(places))
    split = data.draw(st.sampled_from(["train", "validation"]))
    whole = order(split, mix, 0, mix.num_rows)
    first = data.draw(st.integers(0, mix.num_rows))
    window = order(split, mix, first, data.draw(st.integers(0, mix.num_rows - first)))
    for part, all_of_it in zip(window, whole, strict=True):
        assert part.tolist() == all_of_it[first : first + len(part)].tolist()


@given(counts)
def test_each_row_has_one_place_in_order(places: list[int]) -> None:
    mix = Allocation(tuple(map(str, range(len(places)))), tuple(places), tuple(places))
    group, number = order("train", mix, 0, mix.num_rows)
    for index, count in enumerate(places):
        assert number[group == index].tolist() == list(range(count))


@given(st.integers(0, 3000), st.integers(0, 3000))
def test_every_prefix_of_two_groups_is_within_one_row_of_the_target(one: int, other: int) -> None:
    group, _ = order("train", Allocation(("a", "b"), (one, other), (one, other)), 0, one + other)
    so_far = np.cumsum(group == 1)
    prefix = np.arange(1, len(group) + 1)
    assert (np.abs(so_far * (one + other) - prefix * other) < one + other).all()  # less than one row, in whole numbers


@given(counts)
def test_every_prefix_of_more_groups_stays_near_the_target(places: list[int]) -> None:
    total = sum(places)
    group, _ = order("train", Allocation(tuple(map(str, range(len(places)))), tuple(places), tuple(places)), 0, total)
    prefix = np.arange(1, total + 1)
    for index, count in enumerate(places):
        behind = prefix * count - np.cumsum(group == index) * total
        assert (np.abs(behind) <= total * (len(places) - 1)).all()
