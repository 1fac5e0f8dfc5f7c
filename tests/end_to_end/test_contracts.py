"""A stage that breaks its contract is named, and a record that kills its process is found."""

import json
from pathlib import Path
from typing import Any

import pytest

from curate.core.storage import open_storage

STAGES = """
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa

from curate.core.errors import DataError
from curate.core.stage import Columns, Filter, Map, with_columns


class Upper(Map):
    reads: ClassVar = ("text",)

    @property
    def adds(self) -> Columns:
        return {"text": pa.large_string()}


@dataclass(frozen=True, kw_only=True)
class LoseOne(Upper):
    def open(self):
        return lambda batch: batch.slice(1)


@dataclass(frozen=True, kw_only=True)
class Swap(Upper):
    def open(self):
        return lambda batch: batch.take(pa.array(list(range(batch.num_rows))[::-1]))


@dataclass(frozen=True, kw_only=True)
class Clock(Upper):
    def open(self):
        def stamp(batch):
            texts = [f"{text} {time.perf_counter_ns()}" for text in batch.column("text").to_pylist()]
            return with_columns(batch, {"text": pa.array(texts, pa.large_string())})
        return stamp


@dataclass(frozen=True, kw_only=True)
class Buggy(Upper):
    def open(self):
        return lambda batch: 1 / 0


@dataclass(frozen=True, kw_only=True)
class BadData(Upper):
    def open(self):
        def check(batch):
            for name in batch.column("url").to_pylist():
                if name == "http://site/33":
                    raise DataError("poison", "as wanted")
            return batch
        return check


@dataclass(frozen=True, kw_only=True)
class Crash(Upper):
    def open(self):
        def check(batch):
            if "http://site/33" in batch.column("url").to_pylist():
                os.abort()
            return batch
        return check


@dataclass(frozen=True, kw_only=True)
class Undeclared(Filter):
    reads: ClassVar = ("text",)
    reasons: ClassVar = ("short",)

    def open(self):
        return lambda batch: pa.array(["long"] * batch.num_rows)
"""


@pytest.fixture
def odd_stages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "odd_stages.py").write_text(STAGES)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))


def with_step(corpus: Any, name: str, **changes: Any) -> Path:
    path: Path = corpus.pipeline(web_steps=f"      - odd_stages.{name}\n", **changes)
    return path


@pytest.mark.usefixtures("odd_stages")
@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("LoseOne", "step 'lose_one' (odd_stages.LoseOne) was given"),
        ("Swap", "step 'swap' (odd_stages.Swap) changed the order of the rows"),
        ("Clock", "step 'clock' (odd_stages.Clock) is not deterministic"),
        ("Buggy", "step 'buggy' (odd_stages.Buggy): ZeroDivisionError"),
        ("Undeclared", "step 'undeclared' (odd_stages.Undeclared) gave the reason 'long'"),
    ],
)
def test_a_broken_stage_fails_the_run_and_is_named(
    name: str, words: str, workers: int, corpus: Any, curate: Any, tmp_path: Path
) -> None:
    done = curate("run", with_step(corpus, name), "--output", tmp_path / "out", "--workers", workers, code=1)
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "out/MANIFEST").exists()


@pytest.mark.usefixtures("odd_stages")
@pytest.mark.parametrize(("name", "reason", "workers"), [("BadData", "poison", 1), ("Crash", "killed", 2)])
def test_one_bad_record_is_quarantined_and_its_neighbors_are_kept(
    name: str, reason: str, workers: int, corpus: Any, undisturbed: dict[str, Any], curate: Any, read_manifest: Any,
    tmp_path: Path,
) -> None:  # fmt: skip
    output = tmp_path / "out"
    curate("run", with_step(corpus, name), "--output", output, "--workers", workers)
    records, expected = read_manifest(output)["records"], undisturbed["records"]
    assert records["in"] == expected["in"]
    assert records["quarantined"] == expected["quarantined"] + 1
    assert records["kept"] == expected["kept"] - 1
    assert sum(reasons.get(reason, 0) for reasons in read_manifest(output)["quarantined"].values()) == 1
    assert json.loads(curate("verify", output, "--json").stdout)["ok"]


@pytest.mark.usefixtures("odd_stages")
def test_too_many_quarantined_is_exit_5(corpus: Any, curate: Any, tmp_path: Path) -> None:
    done = curate("run", with_step(corpus, "BadData", max_quarantined=0.001), "--output", tmp_path / "out", code=5)
    assert "limits.max_quarantined" in done.stderr
    assert not (tmp_path / "out/MANIFEST").exists()


def test_another_plan_is_refused_before_any_work_and_reuses_what_is_equal(
    corpus: Any, curate: Any, read_manifest: Any, units_run: Any, tmp_path: Path
) -> None:
    output = tmp_path / "out"
    curate("run", corpus.pipeline(), "--output", output)
    first = read_manifest(output)
    changed = corpus.pipeline(replace=("extractor: resiliparse", "extractor: trafilatura"))
    before = sorted(stored.key for stored in open_storage(str(output)).list())
    done = curate("run", changed, "--output", output, code=4)
    assert "extractor" in done.stderr and "--replace" in done.stderr
    assert sorted(stored.key for stored in open_storage(str(output)).list()) == before
    curate("run", changed, "--output", output, "--replace")
    second = read_manifest(output)
    assert second["dataset_id"] != first["dataset_id"]
    assert "documents.articles" not in units_run(output)[-1]  # its seal is there
    assert units_run(output)[-1]["documents.web"]["ran"] > 0
    assert json.loads(curate("verify", output, "--json").stdout)["ok"]


def test_a_new_input_adds_units_and_the_others_are_reused(
    corpus: Any, curate: Any, units_run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output, extra = tmp_path / "out", corpus.folder / "general/aa.jsonl"
    curate("run", corpus.pipeline(unit_bytes="16 KiB"), "--output", output)
    try:
        extra.write_text('{"id": "new", "text": "a new line of text"}\n')
        done = curate("run", corpus.pipeline(unit_bytes="16 KiB"), "--output", output, code=4)
        assert "aa.jsonl added" in done.stderr
        curate("run", corpus.pipeline(unit_bytes="16 KiB"), "--output", output, "--replace")
    finally:
        extra.unlink()
    assert units_run(output)[-1]["documents.general"]["ran"] == 1
