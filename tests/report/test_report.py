"""The report: exact figures, both sides of the balance, and a rendering that a terminal can hold."""

import json
from pathlib import Path
from typing import Any

import pytest

from curate.core.errors import PlanError, StorageError
from curate.report.report import NUM_REASONS, render, report, stage_order
from tests.manifests.builder import Tiny, rewrite_manifest


def test_counts_records_by_fate_and_reason(output_url: str) -> None:
    facts = report(Tiny().publish(output_url))
    assert facts["records"] == {"in": 36, "kept": 19, "dropped": 13, "merged": 3, "quarantined": 1}
    assert facts["drops"] == {
        "drop_empty": {"no_text": 1},
        "gopher_quality": {"too_short": 2},
        "pack": {"tail": 1},
        "read_warc": {"metadata": 2, "request": 7},
    }
    assert facts["bytes"]["content"] == 4200
    assert facts["tokens"]["in_rows"] == 432
    assert facts["splits"]["train"]["rows"] == 23
    assert "shards" not in facts["splits"]["train"]
    assert facts["balanced"] is True
    assert facts["unbalanced"] == []
    json.dumps(facts)


@pytest.mark.parametrize("key", ["in", "kept", "dropped", "merged", "quarantined"])
def test_a_record_too_many_on_one_side_is_not_balanced(tmp_path: Path, key: str) -> None:
    def change(manifest: dict[str, Any]) -> None:
        manifest["records"][key] += 1

    Tiny().publish(str(tmp_path))
    rewrite_manifest(tmp_path, change)
    facts = report(str(tmp_path))
    assert facts["balanced"] is False
    assert any(line.startswith("sum 'every record has one fate'") for line in facts["unbalanced"])
    assert "NOT BALANCED:\n  sum '" in render(facts)


def test_a_byte_too_many_is_not_balanced(tmp_path: Path) -> None:
    Tiny().publish(str(tmp_path))
    rewrite_manifest(tmp_path, lambda manifest: manifest["bytes"].update(lost=101))
    assert report(str(tmp_path))["balanced"] is False


def test_stages_stand_in_an_order_that_every_source_keeps(tmp_path: Path) -> None:
    def source(name: str, use: str, *steps: str) -> dict[str, Any]:
        return {"name": name, "use": f"x.{use}", "options": {}, "steps": [{"name": step} for step in steps]}

    def change(manifest: dict[str, Any]) -> None:
        articles = source("articles", "ReadA", "extract_a", "exact_dedup", "drop_empty")
        web = source("web", "ReadB", "extract_b", "gopher_quality", "exact_dedup", "drop_empty")
        manifest["pipeline"] = {"sources": [articles, web]}

    Tiny().publish(str(tmp_path))
    rewrite_manifest(tmp_path, change)
    order = stage_order(json.loads(next(tmp_path.glob("*/manifest.json")).read_bytes()))
    assert order[:8] == [
        "read_a", "extract_a", "read_b", "extract_b", "gopher_quality", "identity", "exact_dedup", "drop_empty"
    ]  # fmt: skip
    assert order[8:] == ["read_jats", "read_warc", "pack"]
    assert report(str(tmp_path))["funnel"][-1]["left"] == 19


def test_no_dataset_and_a_damaged_one(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match="found no MANIFEST"):
        report(str(tmp_path))
    Tiny().publish(str(tmp_path))
    rewrite_manifest(tmp_path, lambda manifest: manifest.pop("records"))
    with pytest.raises(StorageError, match="records: expected an object, found nothing"):
        report(str(tmp_path))


RENDERED = """\
Dataset b5635b290177: rows of 16 tokens

Rows

 split        rows   tokens   documents
 --------------------------------------
 train          23      368          15
 validation      4       64           4

Records

 source     in   kept   dropped   merged   quarantined
 -----------------------------------------------------
 articles   12     10         1        0             1
 web        24      9        12        3             0
 all        36     19        13        3             1

Funnel

 stage            dropped   merged   quarantined   records left
 --------------------------------------------------------------
 read                   0        0             0             36
 drop_empty             1        0             0             35
 exact_dedup            0        2             0             33
 gopher_quality         2        0             0             31
 read_jats              0        0             1             30
 read_warc              9        0             0             21
 pack                   1        1             0             19

Why records were not kept

 stage/reason               fate          records
 ------------------------------------------------
 read_warc/request          dropped             7
 gopher_quality/too_short   dropped             2
 read_warc/metadata         dropped             2
 exact_dedup/same_text      merged              2
 drop_empty/no_text         dropped             1
 pack/tail                  dropped             1
 pack/same_record           merged              1
 read_jats/bad_xml          quarantined         1

Bytes

 source     stored   content   records   framing   skipped   lost
 ----------------------------------------------------------------
 articles      900     2,100     1,500       300       250     50
 web           900     2,100     1,500       300       250     50
 all         1,800     4,200     3,000       600       500    100

Tokens: 455 sent, 432 in rows, 18 left in the last tails, 5 of merged records.
Balanced: every record has one fate and every byte is accounted for.
"""


def test_rendering_of_the_tiny_dataset(tmp_path: Path) -> None:
    assert render(report(Tiny().publish(str(tmp_path)))).replace("\u2500", "-") == RENDERED


def test_rendering_shows_the_groups_of_a_mix(tmp_path: Path) -> None:
    def change(manifest: dict[str, Any]) -> None:
        manifest["splits"]["train"]["rows_by_group"] = {"domain": 20, "general": 3}
        manifest["splits"]["validation"]["rows_by_group"] = {"domain": 4}

    Tiny().publish(str(tmp_path))
    rewrite_manifest(tmp_path, change)
    lines = render(report(str(tmp_path))).splitlines()
    at = next(i for i, line in enumerate(lines) if line.lstrip().startswith("split "))
    assert lines[at].split() == ["split", "rows", "of", "domain", "of", "general", "tokens", "documents"]
    assert [line.split()[:4] for line in lines[at + 2 : at + 4]] == [
        ["train", "23", "20", "3"],
        ["validation", "4", "4", "0"],
    ]


def test_rendering_stays_narrow_plain_and_literal(tmp_path: Path) -> None:
    facts = report(Tiny().publish(str(tmp_path)))
    facts["drops"] = {f"stage_{i:02d}": {"[red]reason" + "x" * 150: 1000 - i} for i in range(50)}
    facts["records_by_source"]["a [bold]source[/bold] of a long name" * 3] = facts["records"]
    text = render(facts, width=80)
    assert max(map(len, text.splitlines())) <= 80
    assert "\x1b" not in text
    assert "[red]reason" in text
    assert "[bold]" in text
    assert f"{50 + 3 - NUM_REASONS} more reasons; --json lists them" in text


def test_rendering_of_nothing_at_all(tmp_path: Path) -> None:
    facts = report(Tiny().publish(str(tmp_path)))
    text = render(facts | {"splits": {}, "drops": {}, "merged": {}, "quarantined": {}})
    assert "Why records were not kept" in text
