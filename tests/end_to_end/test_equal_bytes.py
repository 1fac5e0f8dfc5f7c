"""Same input, same bytes: the whole manifest is equal, so every file and every count is."""

import json
from pathlib import Path
from typing import Any

import pytest

VARIANTS: dict[str, tuple[dict[str, Any], list[Any], dict[str, str]]] = {
    "two workers": ({}, ["--workers", 2], {}),
    "units of 16 KiB": ({"unit_bytes": "16 KiB"}, ["--workers", 1], {}),
    "units of 16 KiB, three workers": ({"unit_bytes": "16 KiB"}, ["--workers", 3], {}),
    "units of 5000 bytes": ({"unit_bytes": 5000}, ["--workers", 2], {}),
    "hash seed 1": ({}, ["--workers", 2], {"PYTHONHASHSEED": "1"}),
    "Turkish locale, other time zone": ({}, ["--workers", 1], {"LC_ALL": "tr_TR.UTF-8", "TZ": "Asia/Tokyo"}),
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_how_the_work_is_cut_does_not_matter(
    variant: str, corpus: Any, undisturbed: dict[str, Any], curate: Any, read_manifest: Any, tmp_path: Path
) -> None:
    changes, options, environment = VARIANTS[variant]
    curate("run", corpus.pipeline(**changes), "--output", tmp_path / "out", *options, **environment)
    assert read_manifest(tmp_path / "out") == undisturbed


def test_s3_gives_the_same_bytes_as_local_disk(
    corpus: Any, undisturbed: dict[str, Any], curate: Any, read_manifest: Any, s3_url: str
) -> None:
    curate("run", corpus.pipeline(unit_bytes="16 KiB"), "--output", s3_url, "--workers", 2)
    assert read_manifest(s3_url) == undisturbed
    assert json.loads(curate("verify", s3_url, "--json").stdout)["ok"]


def test_there_are_many_shards_and_many_units(
    corpus: Any, undisturbed: dict[str, Any], curate: Any, tmp_path: Path
) -> None:
    assert len(undisturbed["splits"]["train"]["shards"]) >= 8
    assert undisturbed["merged"] == {"identity": {"same_record": 2}, "min_hash_dedup": {"near_duplicate": 3}}
    file = corpus.pipeline(unit_bytes="16 KiB")
    phases = json.loads(curate("plan", file, "--output", tmp_path / "out", "--json").stdout)["phases"]
    assert sum(phase["units"] or 0 for phase in phases) >= 60
    assert not (tmp_path / "out").exists()


def test_another_seed_gives_other_rows_of_the_same_documents(
    corpus: Any, undisturbed: dict[str, Any], curate: Any, read_manifest: Any, tmp_path: Path
) -> None:
    curate("run", corpus.pipeline(replace=("seed: 7", "seed: 8")), "--output", tmp_path / "out")
    other = read_manifest(tmp_path / "out")
    assert other["splits"]["train"]["digest"] != undisturbed["splits"]["train"]["digest"]
    assert other["splits"]["train"]["rows"] == undisturbed["splits"]["train"]["rows"]
    assert other["records"]["in"] == undisturbed["records"]["in"]
