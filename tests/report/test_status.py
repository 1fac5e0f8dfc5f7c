"""status: what storage says of a run that is done, stopped, failed or under way."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from curate.core.errors import BalanceError, PlanError
from curate.report.status import as_text, status
from manifests.fetch import fetch
from tests.report.small_run import make, write_notes


def test_a_run_that_is_done(tmp_path: Path, output_url: str) -> None:
    write_notes(tmp_path)
    make(tmp_path, output_url)
    found = status(output_url)
    assert (found["state"], found["num_missing"], found["missing"]) == ("done", 0, [])
    phases = [phase["phase"] for phase in found["phases"]]
    assert phases[0] == "documents.notes"
    assert sorted(phases[1:]) == ["hf", "ledger", "names", "pack", "shards", "tails", "unused"]  # some within a second
    assert all(phase["sealed"] and phase["done"] == phase["units"] for phase in found["phases"])
    assert found["last_receipt"]["phase"] in {"ledger", "names"}  # these overlap
    (run,) = found["runs"]
    assert (run["status"], run["error"]) == ("done", None)
    assert run["seconds"] > 0
    json.dumps(found)
    assert "names            1 of 1 units, sealed" in as_text(found)


@pytest.mark.parametrize(
    ("crash", "phase", "done"), [("unit.after-receipt-before-return:1", 0, 1), ("unit.before-first-output:2", 1, 0)]
)
def test_a_run_that_was_killed(tmp_path: Path, crash: str, phase: int, done: int) -> None:
    write_notes(tmp_path)
    program = (
        "import sys, pathlib; from tests.report.small_run import make; make(pathlib.Path(sys.argv[1]), sys.argv[2])"
    )
    arguments = [sys.executable, "-c", program, str(tmp_path), str(tmp_path / "out")]
    environment = os.environ | {"CURATE_CRASH_AT": crash, "PYTHONPATH": str(Path(__file__).parents[2])}
    killed = subprocess.run(arguments, env=environment, capture_output=True, check=False)
    assert killed.returncode == -9, killed.stderr
    found = status(str(tmp_path / "out"))
    assert found["state"] == "running"
    assert len(found["phases"]) == phase + 1
    last = found["phases"][-1]
    assert (last["done"], last["sealed"]) == (done, False)
    assert found["num_missing"] == len(found["missing"]) == last["units"] - done
    assert "running, or killed without a word" in as_text(found)
    make(tmp_path, str(tmp_path / "out"))
    assert [run["status"] for run in status(str(tmp_path / "out"))["runs"]] == ["done", "running"]
    assert status(str(tmp_path / "out"))["state"] == "done"


def test_a_run_that_failed_says_why(tmp_path: Path) -> None:
    (tmp_path / "notes.jsonl").write_text("no JSON\n" * 9)
    with pytest.raises(BalanceError):
        make(tmp_path, str(tmp_path / "out"))
    found = status(str(tmp_path / "out"))
    assert found["state"] == "failed"
    assert found["runs"][0]["error"].startswith("BalanceError: notes: 9 of 9 records are quarantined")
    assert ": failed after " in as_text(found)


def test_a_copy_without_work_is_done(tmp_path: Path) -> None:
    write_notes(tmp_path)
    make(tmp_path, str(tmp_path / "out"))
    fetch(str(tmp_path / "out"), str(tmp_path / "copy"))
    found = status(str(tmp_path / "copy"))
    assert (found["state"], found["phases"], found["plan_id"]) == ("done", [], None)
    assert found["dataset_id"] == status(str(tmp_path / "out"))["dataset_id"]


def test_where_no_run_has_begun(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match="found neither PLAN nor MANIFEST"):
        status(str(tmp_path))
