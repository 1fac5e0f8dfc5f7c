"""What `curate stages` says of a stage is what its class says; nothing else lists stages."""

import json
import subprocess
import sys
from dataclasses import dataclass
from typing import ClassVar, Literal

import pytest

from curate.core.errors import PlanError
from curate.core.stage import Asset, Filter, Map, Reader
from curate.plan.catalog import describe, find, least_yaml, options_of, shipped, type_words
from curate.report.stages import list_text, stage_text
from stages.quality import GopherQuality
from tests.command import command
from tests.laws.cases import shipped as classes_of
from tests.plan.conftest import folder, tokenizer_model

__all__ = ["folder", "tokenizer_model"]  # fixtures


def test_every_stage_that_ships_is_listed_once_with_a_contract() -> None:
    found = shipped()
    assert {one.use for one in found} >= {"stages.quality.GopherQuality", "stages.warc.ReadWarc"}
    for family in (Reader, Map, Filter):
        names = sorted(f"{cls.__module__}.{cls.__qualname__}" for cls in classes_of(family))
        assert [one.use for one in found if one.family == family.__name__] == names
    assert all(one.contract.endswith(".") and one.line for one in found)


@pytest.mark.parametrize("name", ["GopherQuality", "gopher_quality", "stages.quality.GopherQuality"])
def test_a_stage_is_found_by_its_path_its_class_and_its_step_name(name: str) -> None:
    one = find(name)
    assert (one.use, one.family, one.file) == ("stages.quality.GopherQuality", "Filter", "stages/quality.py")
    assert one.reasons[0] == "too_few_words" and "num_words" in one.reads and one.adds == {}
    options = {option.name: option for option in one.options}
    assert options["min_words"].default == "50" and options["min_words"].type == "a whole number"
    assert options["min_mean_word_length"].comment == "code points"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("GopherQualty", "curate stages: no stage 'GopherQualty' ships with curate; did you mean 'GopherQuality'?"),
        (
            "Unheard",
            "curate stages: no stage 'Unheard' ships with curate; `curate stages` lists them, and a stage of yours "
            "has its import path",
        ),
        (
            "stages.qualty.X",
            "curate stages: stages.qualty.X: no module 'stages.qualty'; did you mean 'stages.quality'?",
        ),
        (
            "curate.core.stage.Filter",
            "curate stages: curate.core.stage.Filter is not a complete stage: a dataclass of the family Reader, Map, "
            "Filter or Exchange",
        ),
    ],
)
def test_an_unknown_stage_is_an_error_that_says_what_to_do(name: str, message: str) -> None:
    with pytest.raises(PlanError) as caught:
        find(name)
    assert str(caught.value) == message


@pytest.mark.usefixtures("folder")
def test_a_stage_of_the_users_own_is_described_in_full() -> None:
    one = find("tiny_stages.Keep")
    assert (one.family, one.version, one.file) == ("Filter", 1, "tiny_stages.py")
    assert {option.name: option.default for option in one.options} == {
        "min_words": "50",
        "min_score": "0.5",
        "is_strict": "false",
        "languages": "[en]",
        "order": "first",
        "weights": "{title: 1.0, body: 2}",
        "label": "null",
        "timeout_seconds": "60.0",
    }
    types = {option.name: option.type for option in one.options}
    assert types["order"] == "one of first, longest"
    assert types["label"] == "a text, or null"
    assert types["weights"] == "a mapping of title, body"
    assert find("tiny_stages.Extract").adds == {"text": "large_string", "title": "string"}
    assert find("tiny_stages.Extract").removes == ("content",)


@dataclass(frozen=True, kw_only=True)
class Sized(Filter):
    """Drops what is large."""

    reasons: ClassVar[tuple[str, ...]] = ("large",)

    limit: int  # of words
    model: Asset
    max_record_bytes: int = 3 << 20  # decompressed
    from_: Literal["front", "back"] = "front"


def test_options_are_the_fields_as_yaml_has_them() -> None:
    limit, model, largest, origin = options_of(Sized)
    assert (limit.required, limit.default, limit.comment) == (True, None, "of words")
    assert (model.type, model.required) == ("a file's path", True)
    assert (largest.default, largest.type, largest.comment) == ("3 MiB", "a size such as 64 MiB", "decompressed")
    assert (origin.name, origin.default, origin.type) == ("from", "front", "one of front, back")


def test_types_are_said_in_words() -> None:
    assert type_words(tuple[str, ...], "names") == "a list, each a text"
    assert type_words(dict[str, float], "shares") == "a mapping, each value a number"


def test_the_least_that_a_pipeline_needs() -> None:
    assert least_yaml(find("GopherQuality")) == "- stages.quality.GopherQuality"
    assert least_yaml(find("KeepLanguages")) == "- {use: stages.language.KeepLanguages, languages: ...}"
    assert least_yaml(find("ReadWarc")) == "read: {use: stages.warc.ReadWarc, paths: ...}"


def test_the_list_has_a_heading_a_family_and_fits_a_terminal() -> None:
    text = list_text(shipped())
    assert [line.split(":")[0] for line in text.splitlines() if line and line[0] != " "][:4] == [
        "readers",
        "maps",
        "filters",
        "exchanges",
    ]
    assert max(map(len, text.splitlines())) <= 140


def test_the_text_of_a_stage_has_its_docstring_options_and_columns() -> None:
    text = stage_text(describe(GopherQuality))
    for part in ("Drops documents that do not look like prose", "min_words", "reasons: too_few_words", "in a pipeline"):
        assert part in text
    assert "depends on its model" in stage_text(find("Tokenize"))
    assert "the identity columns (id, name, record_hash, source, origin)" in stage_text(find("ReadWarc"))


def test_the_command_prints_text_and_json() -> None:
    def call(*arguments: str) -> str:
        return subprocess.run(command("stages", *arguments), check=True, capture_output=True, text=True).stdout

    listed = json.loads(call("--json"))
    assert {one["use"] for one in listed} == {one.use for one in shipped()}
    assert "stages.quality.GopherQuality" in call("GopherQuality")


def test_the_catalog_loads_no_stage_before_it_is_asked() -> None:
    code = "import sys, curate.plan.catalog; print(*[name for name in sys.modules if name.startswith('stages')])"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout == "\n"
