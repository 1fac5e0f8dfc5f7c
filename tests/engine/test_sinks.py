"""Splits are drawn for clusters, by a hash of (seed, cluster) alone."""

import dataclasses

from hypothesis import given
from hypothesis import strategies as st

from curate.core.hashing import digest
from curate.engine.sinks import split_of
from tests.engine.plans import mixed_plan

PLAN = dataclasses.replace(mixed_plan(), splits=(("validation", 0.05), ("test", 0.2)))
CLUSTERS = [bytes.fromhex(digest(number))[:16] for number in range(20_000)]
clusters = st.binary(min_size=16, max_size=16)


def test_each_split_gets_its_share() -> None:
    drawn = [split_of(PLAN, cluster) for cluster in CLUSTERS]
    assert abs(drawn.count("validation") - 1000) < 5 * 31  # five standard deviations
    assert abs(drawn.count("test") - 4000) < 5 * 57
    assert drawn.count("train") == 20_000 - drawn.count("validation") - drawn.count("test")


@given(clusters)
def test_more_for_the_first_split_only_adds_to_it(cluster: bytes) -> None:
    larger = dataclasses.replace(PLAN, splits=(("validation", 0.1), ("test", 0.2)))
    if split_of(PLAN, cluster) == "validation":
        assert split_of(larger, cluster) == "validation"


def test_the_seed_decides_and_without_splits_all_is_train() -> None:
    other = dataclasses.replace(PLAN, seed=8)
    assert [split_of(other, one) for one in CLUSTERS[:2000]] != [split_of(PLAN, one) for one in CLUSTERS[:2000]]
    assert {split_of(mixed_plan(), one) for one in CLUSTERS[:100]} == {"train"}
