"""Splits, mix and exports of a pipeline: what the plan makes of them, and what enters its id."""

from pathlib import Path

import pytest

from curate.plan.build import build
from curate.plan.plan import Group, Plan
from tests.plan.conftest import SMALL

ROWS = "  rows: {length: 16, packing: concat, per_shard: 64}\n"
SPLITS = "  splits: {validation: 0.002, test: 0.002}\n"
MIX = """\
  mix:
    domain:  {sources: [web], take: all}
    general: {sources: [notes], share: 0.01}
"""
EXPORTS = "  exports: [hf]\n"


def planned(*keys: str) -> Plan:
    """The plan of SMALL with these keys of `dataset`."""
    Path("pipeline.yaml").write_text(SMALL.replace(ROWS, ROWS + "".join(keys)))
    return build("pipeline.yaml")


@pytest.mark.usefixtures("folder")
def test_the_whole_grammar_of_mix_and_splits() -> None:
    plan = planned(SPLITS, MIX, EXPORTS)
    assert plan.splits == (("validation", 0.002), ("test", 0.002))
    assert plan.groups == (
        Group(name="domain", sources=("web",), share=None, epochs=1),
        Group(name="general", sources=("notes",), share=0.01, epochs=1),
    )
    assert plan.exports == ("hf",)


@pytest.mark.usefixtures("folder")
def test_without_them_all_sources_are_one_group_and_all_is_train() -> None:
    plan = planned()
    assert (plan.splits, plan.groups, plan.exports) == ((), (), ())


@pytest.mark.usefixtures("folder")
def test_epochs_allow_repeats_in_any_group() -> None:
    mix = MIX.replace("take: all", "take: all, epochs: 2").replace("share: 0.01", "share: 0.01, epochs: 4")
    assert [group.epochs for group in planned(mix).groups] == [2, 4]


@pytest.mark.usefixtures("folder")
def test_one_source_for_a_group_may_be_written_without_a_list() -> None:
    assert planned(MIX.replace("[notes]", "notes")).groups == planned(MIX).groups


@pytest.mark.usefixtures("folder")
def test_each_of_them_decides_about_the_dataset_and_so_enters_the_plan_id() -> None:
    variants = [
        planned(),
        planned(SPLITS),
        planned(SPLITS.replace("0.002, test", "0.003, test")),
        planned("  splits: {test: 0.002, validation: 0.002}\n"),
        planned(MIX),
        planned(MIX.replace("0.01", "0.02")),
        planned(MIX.replace("0.01", "0.01, epochs: 2")),
        planned(MIX.replace("general", "other")),
        planned(EXPORTS),
    ]
    assert len({plan.plan_id for plan in variants}) == len(variants)


@pytest.mark.usefixtures("folder")
def test_an_exchange_reads_columns_and_changes_none() -> None:
    exchange = "      - tiny_stages.Repair\n      - {use: tiny_stages.MeetBy, column: num_repairs}\n"
    Path("pipeline.yaml").write_text(SMALL.replace("      - tiny_stages.Repair\n", exchange))
    for source in build("pipeline.yaml").sources:
        names = [step.name for step in source.steps]
        at = names.index("meet_by")
        assert source.columns[at + 1] == source.columns[at]


@pytest.mark.usefixtures("folder")
def test_two_exchanges_of_one_class_have_names_of_their_own() -> None:
    exchanges = "      - tiny_stages.Repair\n      - tiny_stages.Meet\n      - {use: tiny_stages.Meet, name: again}\n"
    Path("pipeline.yaml").write_text(SMALL.replace("      - tiny_stages.Repair\n", exchanges))
    web, notes = build("pipeline.yaml").sources
    assert [step.name for step in web.steps][-4:] == ["meet", "again", "drop_empty", "tokenize"]
    assert web.steps[-4:] == notes.steps[-4:]
