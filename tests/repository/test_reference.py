"""The reference pages are what the code says, and their tables say something of every key."""

import re
from pathlib import Path

import pytest

from curate.core.errors import PlanError
from curate.plan.build import build
from curate.plan.catalog import shipped
from docs.reference.make_reference import pages, stages_page
from tests.plan.conftest import tokenizer_model

__all__ = ["tokenizer_model"]  # a fixture

ROOT = Path(__file__).parents[2]
PIPELINE = ROOT / "docs" / "reference" / "pipeline.md"


@pytest.mark.parametrize("name", ["pipeline.md", "stages.md"])
def test_a_page_is_what_the_code_says(name: str) -> None:
    (page,) = (path for path in pages() if path.name == name)
    assert page.read_text("utf-8") == pages()[page], f"{name} is not current: run `make reference` and commit the page"


def test_every_stage_is_on_the_page_with_every_option_and_reason() -> None:
    text = stages_page(shipped())
    for one in shipped():
        section = text.partition(f"`{one.use}`, a {one.family}")[2].partition("\n## ")[0]
        assert all(f"| `{option.name}` |" in section for option in one.options), one.use
        assert all(f"`{reason}`" in section for reason in one.reasons), one.use


def test_every_table_of_keys_is_made() -> None:
    text = PIPELINE.read_text("utf-8")
    made = re.findall(r"<!-- keys: (\w+) -->\n\| key ", text)
    assert made == re.findall(r"<!-- keys: (\w+) -->", text)
    assert set(made) == {"PipelineKeys", "DatasetKeys", "Tokenizer", "RowsKeys", "MixGroup", "Limits", "Run"}


def test_the_pipeline_of_the_page_is_one(tmp_path: Path, tokenizer_model: Path) -> None:
    match = re.search(r"^```yaml\n(.*?)^```", PIPELINE.read_text("utf-8"), flags=re.M | re.S)
    assert match
    file = tmp_path / "pipeline.yaml"
    file.write_text(match[1])
    (tmp_path / "tokenizer.model").write_bytes(tokenizer_model.read_bytes())
    with pytest.raises(PlanError, match=r"pipeline.yaml:6: no file matches 'data/\*.jsonl'; there is no folder"):
        build(file)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "a.jsonl").write_text('{"id": "1", "text": "a"}\n')
    assert [step.name for step in build(file).sources[0].steps][:3] == [
        "text_statistics",
        "gopher_quality",
        "exact_dedup",
    ]
    file.write_text(match[1].replace("min_words", "min_word"))
    with pytest.raises(PlanError) as caught:
        build(file)
    assert str(caught.value).removeprefix(f"{tmp_path}/") in PIPELINE.read_text("utf-8")
