"""why: a look-up by id, a scan by name, and for kept documents the way to their tokens."""

import json
from pathlib import Path

import numpy as np
import pytest

from curate.core.errors import PlanError, StorageError
from curate.report.why import why
from manifests.rows import open_rows
from tests.manifests.builder import Tiny, origin, record_id, rewrite_manifest


def test_a_dropped_record_has_stage_reason_and_numbers(output_url: str) -> None:
    answer = why(Tiny().publish(output_url), record_id("short 1").hex())
    assert answer == {
        "id": record_id("short 1").hex(),
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


def test_a_name_is_scanned_for_and_said_so(tmp_path: Path) -> None:
    answer = why(Tiny().publish(str(tmp_path)), "train 1")
    assert answer["found_by"] == "name, after reading all of the ledger"
    assert [record["fate"] for record in answer["records"]] == ["kept", "merged"]


def test_an_id_reads_no_other_part_of_the_ledger(tmp_path: Path) -> None:
    tiny = Tiny()
    url = tiny.publish(str(tmp_path))
    for path in tmp_path.glob("*/ledger/part-0000[12].*"):
        path.unlink()
    first = tiny.ledger[0].column("id")[0].as_py()
    assert why(url, first.hex())["found_by"] == "id"
    with pytest.raises(StorageError, match="part-00001"):
        why(url, "train 1")


@pytest.mark.parametrize("unknown", ["00" * 16, "ff" * 16, "ab", "PMC1", "", "copy ", "zz" * 16])
def test_an_unknown_record_is_a_plan_error(tmp_path: Path, unknown: str) -> None:
    url = Tiny().publish(str(tmp_path))
    with pytest.raises(PlanError, match=f"no record has the id or name '{unknown}'"):
        why(url, unknown)


def test_an_empty_part_holds_nothing(tmp_path: Path) -> None:
    Tiny().publish(str(tmp_path))
    rewrite_manifest(
        tmp_path, lambda manifest: manifest["ledger"]["parts"][0].update(rows=0, first_id=None, last_id=None)
    )
    assert why(str(tmp_path), record_id("copy").hex())["found_by"] in {"id", "name, after reading all of the ledger"}


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
