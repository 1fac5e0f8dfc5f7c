"""Each way in which a pipeline can be wrong, and its exact line."""

from pathlib import Path

import pytest

from curate.core.errors import PlanError
from curate.plan.build import build
from tests.plan.conftest import SMALL
from tests.plan.malformed import ALL, Malformed


def test_the_names_of_the_cases_are_distinct() -> None:
    assert len({case.name for case in ALL}) == len(ALL)


@pytest.mark.parametrize("case", ALL, ids=lambda case: case.name)
def test_malformed(case: Malformed, folder: Path) -> None:
    assert SMALL.count(case.old) == 1
    before = sorted(folder.rglob("*"))
    (folder / "pipeline.yaml").write_text(SMALL.replace(case.old, case.new), "utf-8")
    with pytest.raises(PlanError) as caught:
        build("pipeline.yaml")
    assert str(caught.value) == "pipeline.yaml" + case.message.replace("{folder}", str(folder))
    assert sorted(folder.rglob("*")) == before


def test_a_model_that_is_no_tokenizer(folder: Path) -> None:
    (folder / "pipeline.yaml").write_text(SMALL.replace("models/tiny.model", "models/language.bin"))
    with pytest.raises(
        PlanError, match=r"^pipeline.yaml:22: model of dataset.tokenizer: \S+/models/language.bin: not a "
    ) as caught:
        build("pipeline.yaml")
    assert "\n" not in str(caught.value)


def test_two_uses_of_one_step_on_two_branches_are_fine_when_equal(folder: Path) -> None:
    notes = "{use: tiny_stages.Extract, name: extract_notes, tables: drop}"
    (folder / "pipeline.yaml").write_text(SMALL.replace(notes, "{use: tiny_stages.Extract, tables: small}"))
    plan = build("pipeline.yaml")
    assert [source.steps[0].name for source in plan.sources] == ["extract", "extract"]


def test_a_stage_refused_in_its_constructor_is_located_at_the_option_that_it_names(folder: Path) -> None:
    keep = "{use: tiny_stages.Keep, min_words: 5}"
    spread = "use: tiny_stages.Keep\n        languages: [en]\n        min_words: -1"
    (folder / "pipeline.yaml").write_text(SMALL.replace(keep, spread))
    with pytest.raises(
        PlanError, match=r"^pipeline.yaml:12: tiny_stages.Keep: min_words must not be negative, not -1$"
    ):
        build("pipeline.yaml")
