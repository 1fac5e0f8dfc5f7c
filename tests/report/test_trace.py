"""trace: from tokens to the text of the input, through edges, and without inputs or tokenizer."""

import json
from pathlib import Path

import pytest

from curate.core.errors import PlanError
from curate.report.trace import as_text, trace_row, trace_token
from manifests.fetch import fetch
from manifests.rows import open_rows
from tests.report.small_run import make, text_of, write_notes


def test_each_token_of_some_rows_leads_to_its_place_in_the_text(tmp_path: Path, output_url: str) -> None:
    write_notes(tmp_path)
    make(tmp_path, output_url)
    seen = set()
    for row in (0, 1):
        for position in range(0, 16, 3):
            found = trace_token(output_url, "train", row, position)
            text, document = found["text"], found["document"]
            whole = text_of(int(document["name"][1:]))
            assert whole[text["begin"] : text["end"]] == text["token"]
            assert whole.find(text["before"] + text["token"] + text["after"]) >= 0
            is_edge = found["token"]["piece"] in ("<s>", "</s>")
            assert (found["note"] is not None) == is_edge
            assert is_edge or found["decoded"]["token"].strip() == text["token"].strip()
            assert found["input"] == str(tmp_path / "notes.jsonl")
            seen.add(is_edge)
        assert json.loads(json.dumps(found)) == found
    assert False in seen
    assert ">>>" in as_text(found)


def test_control_tokens_stand_at_the_ends_of_the_text(tmp_path: Path) -> None:
    write_notes(tmp_path)
    make(tmp_path, str(tmp_path / "out"))
    rows = open_rows(str(tmp_path / "out"))
    tokens = [(row, at, id) for row in range(rows.splits["train"]) for at, id in enumerate(rows.row("train", row)[:])]
    for control, edge in ((1, 0), (2, -1)):
        row, at, _ = next(one for one in tokens if one[2] == control)
        found = trace_token(str(tmp_path / "out"), "train", row, at)
        length = len(text_of(int(found["document"]["name"][1:])))
        assert found["text"]["begin"] == found["text"]["end"] == (0 if edge == 0 else length)
        assert "control token" in found["note"]


def test_a_row_lists_its_pieces(tmp_path: Path) -> None:
    write_notes(tmp_path)
    make(tmp_path, str(tmp_path / "out"))
    found = trace_row(str(tmp_path / "out"), "train", 1)
    assert found["pieces"][0]["start"] == 0
    assert sum(piece["length"] for piece in found["pieces"]) == 16
    for piece in found["pieces"]:
        assert piece["begins"].strip() in text_of(int(piece["document"]["name"][1:]))
    assert f"of {found['pieces'][0]['document_tokens']} of n" in as_text(found)


@pytest.mark.parametrize(
    ("place", "message"),
    [
        (("trian", 0, 0), "did you mean 'train'?"),
        (("train", 10_000, 0), "row 10000: train has "),
        (("train", -1, 0), "row -1: train has "),
        (("train", 0, 16), "position 16: rows have tokens 0 to 15"),
    ],
)
def test_a_place_that_is_not_there(tmp_path: Path, place: tuple[str, int, int], message: str) -> None:
    write_notes(tmp_path)
    make(tmp_path, str(tmp_path / "out"))
    with pytest.raises(PlanError) as caught:
        trace_token(str(tmp_path / "out"), *place)
    assert message in str(caught.value)


def test_a_dataset_elsewhere_still_names_document_and_bytes(tmp_path: Path) -> None:
    write_notes(tmp_path)
    make(tmp_path, str(tmp_path / "out"))
    fetch(str(tmp_path / "out"), str(tmp_path / "copy"))
    there, here = (trace_token(str(tmp_path / name), "train", 2, 3) for name in ("out", "copy"))
    assert here["document"] == there["document"]
    assert (here["text"], here["decoded"], here["input"]) == (None, None, None)
    assert "is not known to lie anywhere here; where the inputs lie is not known" in here["note"]
