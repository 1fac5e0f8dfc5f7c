"""sample: the same records each time, each of the rule, with the text that is in the input now, or why not."""

import json
import os
from pathlib import Path

import pytest

from curate.core.errors import PlanError
from curate.report.sample import as_text, sample
from tests.report.small_run import make, text_of, write_notes


@pytest.fixture
def made(tmp_path: Path, output_url: str) -> str:
    write_notes(tmp_path)
    make(tmp_path, output_url)
    return output_url


def test_samples_of_a_stage_with_their_text(made: str, tmp_path: Path) -> None:
    found = sample(made, "gopher_quality", 4)
    assert (found["rejected_by"], found["num_records"], len(found["samples"])) == ("gopher_quality", 10, 4)
    for one in found["samples"]:
        number = int(one["name"][1:])
        assert number % 4 == 0
        assert (one["text"], one["note"], one["input"]) == (text_of(number), None, str(tmp_path / "notes.jsonl"))
        assert (one["reason"], one["numbers"]["num_words"]) == ("too_few_words", 18.0)
    json.dumps(found)
    assert sample(made, "too_few_words", 4)["samples"] == found["samples"]
    more = sample(made, "gopher_quality/too_few_words", 100)["samples"]
    assert more[:4] == found["samples"]
    assert {one["name"] for one in more} == {f"n{number}" for number in range(0, 40, 4)}
    assert [one["name"] for one in sample(made, "gopher_quality", 4, seed=8)["samples"]] != [
        one["name"] for one in found["samples"]
    ]
    assert "4 of them" in as_text(found)
    assert text_of(0)[:40] in as_text(sample(made, "gopher_quality", 100))


def test_merged_and_quarantined_records_are_samples_too(made: str) -> None:
    (merged,) = sample(made, "same_record", 5)["samples"]
    assert (merged["name"], merged["fate"], merged["text"]) == ("n1", "merged", text_of(1))
    (broken,) = sample(made, "bad_json", 5)["samples"]
    assert (broken["fate"], broken["text"]) == ("quarantined", None)
    assert "the reader gives no document there" in broken["note"]
    assert broken["place"].startswith("notes.jsonl@")


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ("gopher_qualit", "did you mean 'gopher_quality'?"),
        ("", "the rules that refused some are: gopher_quality/too_few_words"),
    ],
)
def test_an_unknown_rule_names_those_there_are(made: str, rule: str, message: str) -> None:
    with pytest.raises(PlanError) as caught:
        sample(made, rule, 3)
    assert message in str(caught.value)


def test_records_that_are_counted_only_cannot_be_shown(tmp_path: Path) -> None:
    from tests.manifests.builder import Tiny

    with pytest.raises(PlanError, match="'request' are counted by type and not listed"):
        sample(Tiny().publish(str(tmp_path)), "request", 3)
    (short, _) = sample(str(tmp_path), "too_short", 3)["samples"]
    assert short["text"] is None
    assert short["note"].startswith("where the inputs lie is not known: runs/")


def test_an_input_that_changed_or_went_is_said_and_not_guessed(tmp_path: Path) -> None:
    write_notes(tmp_path)
    make(tmp_path, str(tmp_path / "out"))
    notes = tmp_path / "notes.jsonl"
    os.utime(notes, ns=(1, 1))
    (one,) = sample(str(tmp_path / "out"), "gopher_quality", 1)["samples"]
    assert one["text"] is None
    assert "changed since the plan was made" in one["note"]
    notes.unlink()
    (one,) = sample(str(tmp_path / "out"), "gopher_quality", 1)["samples"]
    assert one["note"].startswith("the input is not there: cannot read ")
    assert f"note: {one['note']}" in as_text(sample(str(tmp_path / "out"), "gopher_quality", 1))
