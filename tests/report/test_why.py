"""why: look-ups by id and by name, the rule that decided, and for kept documents the way to their tokens."""

import json
from pathlib import Path

import numpy as np
import pytest

from curate.core.errors import PlanError, StorageError
from curate.report.why import OWN_RULES, as_lines, why
from manifests.rows import open_rows
from tests.manifests.builder import Tiny, origin, record_id, rewrite_manifest

EMPTY = {"key": "x", "bytes": 0, "sha256": "0" * 64, "rows": 0, "first_id": None, "last_id": None}


def test_a_dropped_record_has_stage_reason_and_numbers(output_url: str) -> None:
    answer = why(Tiny().publish(output_url), record_id("short 1").hex())
    assert answer == {
        "asked": record_id("short 1").hex(),
        "found_by": "id",
        "records": [
            {
                "id": record_id("short 1").hex(),
                "name": "short 1",
                "source": "web",
                "origin": origin("short 1", "web"),
                "fate": "dropped",
                "stage": "gopher_quality",
                "reason": "too_short",
                "numbers": {"words": 3.0},
                "place": f"web.jsonl@{len('short 1')}+0",
                "decision": {"stage": "gopher_quality", "reason": "too_short"},
            }
        ],
    }
    json.dumps(answer)


def test_every_kept_document_leads_to_its_tokens(tmp_path: Path) -> None:
    tiny = Tiny()
    url = tiny.publish(str(tmp_path))
    rows = open_rows(url)
    for document in (doc for doc in tiny.documents if doc.row >= 0):
        (record,) = (r for r in why(url, document.id.hex())["records"] if r["fate"] == "kept")
        pieces = record["pieces"]
        assert (record["split"], record["row"]) == (document.split, document.row) == (record["split"], pieces[0]["row"])
        assert record["document_tokens"] == len(document.tokens)
        assert record["shard"] == pieces[0]["shard"]
        tokens = [rows.row(document.split, p["row"])[p["start"] : p["start"] + p["length"]] for p in pieces]
        found = np.concatenate(tokens).tolist()
        assert found == document.tokens[: len(found)]
        assert len(found) == len(document.tokens) or document in (tiny.documents[14], tiny.documents[19])
        assert all((tmp_path / piece["shard"]).is_file() for piece in pieces)
    json.dumps(why(url, tiny.documents[0].id.hex()))


def test_merged_and_quarantined_records(tmp_path: Path) -> None:
    tiny = Tiny()
    url = tiny.publish(str(tmp_path))
    (merged,) = why(url, record_id("copy").hex())["records"]
    assert (merged["fate"], merged["kept_id"]) == ("merged", tiny.documents[0].id.hex())
    (broken,) = why(url, record_id("broken").hex().upper())["records"]
    assert (broken["stage"], broken["reason"], broken["detail"]) == ("read_jats", "bad_xml", "line 3")


@pytest.mark.parametrize("name", ["train 1", "http://web/train 1"])
def test_a_name_or_an_address_is_looked_up(output_url: str, name: str) -> None:
    answer = why(Tiny().publish(output_url), name)
    assert answer["found_by"] == "name"
    assert [record["fate"] for record in answer["records"]] == ["kept", "merged"]


def test_a_step_is_named_with_number_limit_and_the_steps_before_it(tmp_path: Path) -> None:
    steps = [
        {"name": "words", "use": "x.Words", "options": {}},
        {"name": "gopher_quality", "use": "x.Gopher", "options": {"min_words": 5, "more": 1}}
        | {"limits": {"too_short": ["words", "min_words"]}},
    ]
    pipeline = {"sources": [{"name": "web", "use": "x.ReadWeb", "options": {}, "steps": steps}], "mix": [{"name": "a"}]}
    tiny = Tiny()
    tiny.manifest["pipeline"] = pipeline
    url = tiny.publish(str(tmp_path))
    (dropped,) = why(url, "short 1")["records"]
    assert dropped["passed"] == ["read_web", "words"]
    assert dropped["decision"] == {
        "stage": "gopher_quality",
        "reason": "too_short",
        "use": "x.Gopher",
        "options": {"min_words": 5, "more": 1},
        "value": {"words": 3.0},
        "limit": {"min_words": 5},
    }
    assert list(as_lines(dropped))[-1] == "    min_words: 5"
    kept, merged = why(url, "train 1")["records"]
    assert kept["passed"] == ["read_web", "words", "gopher_quality"]
    assert "decision" not in kept
    assert merged["decision"] == {"stage": "pack", "reason": "same_record", "rule": OWN_RULES["pack"]}


def test_the_keeper_of_a_merged_record_comes_with_its_place_in_the_rows(tmp_path: Path) -> None:
    tiny = Tiny()
    url = tiny.publish(str(tmp_path))
    (copy,) = why(url, "copy")["records"]
    first = tiny.documents[0]
    assert (copy["kept"]["name"], copy["kept"]["fate"]) == (first.name, "kept")
    assert copy["kept"]["pieces"][0]["row"] == first.row
    (thin,) = why(url, "copy of short")["records"]
    assert (thin["kept"]["name"], thin["kept"]["fate"]) == ("short 1", "dropped")
    same = why(url, tiny.documents[1].name)["records"][1]
    assert (same["fate"], same["kept"]["id"], same["kept"]["fate"]) == ("merged", same["id"], "kept")


def test_an_id_reads_no_other_part_of_the_ledger(tmp_path: Path) -> None:
    tiny = Tiny()
    url = tiny.publish(str(tmp_path))
    for path in tmp_path.glob("*/ledger/part-0000[12].*"):
        path.unlink()
    first = tiny.ledger[0].column("id")[0].as_py()
    assert why(url, first.hex())["found_by"] == "id"
    with pytest.raises(StorageError, match="part-00001"):
        why(url, tiny.ledger[1].column("id")[0].as_py().hex())


def test_a_name_reads_no_part_of_the_ledger_but_its_own(tmp_path: Path) -> None:
    tiny = Tiny()
    url = tiny.publish(str(tmp_path))
    for path in tmp_path.glob("*/ledger/part-0000[12].*"):
        path.unlink()
    line = tiny.ledger[0].to_pylist()[0]
    assert why(url, line["name"])["records"][0]["id"] == line["id"].hex()


@pytest.mark.parametrize(
    ("text", "meant"), [("COPY", "copy"), ("urn:uuid:copy", None), ("www.web/copy", "http://web/copy")]
)
def test_what_is_near_is_named(tmp_path: Path, text: str, meant: str | None) -> None:
    url = Tiny().publish(str(tmp_path))
    with pytest.raises(PlanError) as caught:
        why(url, text)
    assert ("did you mean" in str(caught.value)) == (meant is not None)
    assert meant is None or f"did you mean {meant!r}?" in str(caught.value)


def test_the_beginning_of_an_id_leads_to_it(tmp_path: Path) -> None:
    id = record_id("copy").hex()
    with pytest.raises(PlanError, match=f"did you mean '{id}'"):
        why(Tiny().publish(str(tmp_path)), id[:9])


@pytest.mark.parametrize("nothing", ["", " "])
def test_nothing_is_no_question(tmp_path: Path, nothing: str) -> None:
    with pytest.raises(PlanError, match="which record"):
        why(Tiny().publish(str(tmp_path)), nothing)


@pytest.mark.parametrize("unknown", ["00" * 16, "ff" * 16, "ab", "PMC1", "zz" * 16])
def test_an_unknown_record_is_a_plan_error(tmp_path: Path, unknown: str) -> None:
    url = Tiny().publish(str(tmp_path))
    with pytest.raises(PlanError, match=f"no record has the id or name '{unknown}'"):
        why(url, unknown)


def test_an_empty_part_holds_nothing(tmp_path: Path) -> None:
    Tiny().publish(str(tmp_path))
    rewrite_manifest(tmp_path, lambda manifest: manifest["ledger"]["parts"].insert(0, EMPTY))
    assert why(str(tmp_path), record_id("copy").hex())["found_by"] == "id"


def test_a_damaged_part_is_a_storage_error(tmp_path: Path) -> None:
    tiny = Tiny()
    url = tiny.publish(str(tmp_path))
    for path in tmp_path.glob("*/ledger/part-*"):
        path.write_bytes(b"PAR1 but nothing more")
    with pytest.raises(StorageError, match=r"ledger/part-0000.*cannot be read as Parquet"):
        why(url, tiny.documents[0].id.hex())


def test_no_dataset_is_a_plan_error(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match="found no MANIFEST"):
        why(str(tmp_path), "00" * 16)
