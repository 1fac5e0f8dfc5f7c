"""kill -9 at every crash point: the next run gives what an undisturbed one gives, and nothing more."""

import ast
import shutil
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from curate.core.storage import open_storage
from curate.engine.crash import CRASH_POINTS, VARIABLE
from manifests.verify import verify
from tests.command import manifest_of
from tests.faults.conftest import line

ROOT = Path(__file__).parents[2]
UNIT_POINTS = [name for name in CRASH_POINTS if name.startswith("unit.")]
LOCAL = ("--on", "local", "--workers", 1)  # the units run in the driver
CASES = [(name, 1) for name in CRASH_POINTS] + [(name, 4) for name in CRASH_POINTS if name[:4] in ("unit", "seal")]


def points_in_code() -> Iterator[str]:
    """The argument of each call of crash_point."""
    for path in sorted((ROOT / "curate").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "id", None) == "crash_point":
                (argument,) = node.args
                name = getattr(argument, "value", None)
                assert isinstance(name, str), f"{path}:{node.lineno}: a crash point needs a plain name"
                yield name


def test_each_point_is_in_the_code_once() -> None:
    assert Counter(points_in_code()) == Counter(CRASH_POINTS)


def keys(output: Path) -> list[str]:
    """All that an output holds, apart from the facts of its runs; data are named by their content."""
    found = [stored.key for stored in open_storage(str(output)).list()]
    return [key for key in found if not key.startswith("runs/")]


def check_equal(output: Path, undisturbed: Path) -> None:
    """Nothing was lost, nothing was doubled, nothing is left over."""
    assert manifest_of(output) == manifest_of(undisturbed)
    assert keys(output) == keys(undisturbed)
    assert verify(str(output))["ok"]
    assert not list(output.rglob("*.tmp"))


def check_readable(output: Path) -> None:
    """A reader sees no dataset or a whole one."""
    if (output / "MANIFEST").exists():
        assert verify(str(output))["ok"]


@pytest.mark.parametrize(("point", "visit"), CASES)
def test_a_driver_that_died_there_is_run_again(
    point: str, visit: int, tiny: Path, undisturbed: Path, curate: Any, tmp_path: Path
) -> None:
    output, mark = tmp_path / "out", tmp_path / "mark"
    curate("run", tiny, "--output", output, *LOCAL, code=-signal.SIGKILL, CURATE_CRASH_AT=f"{point}:{visit}:{mark}")
    assert mark.exists()
    check_readable(output)
    curate("run", tiny, "--output", output, *LOCAL)
    check_equal(output, undisturbed)


@pytest.mark.parametrize("point", UNIT_POINTS)
def test_a_worker_that_died_there_is_replaced(
    point: str, tiny: Path, undisturbed: Path, curate: Any, tmp_path: Path
) -> None:
    output, mark = tmp_path / "out", tmp_path / "mark"
    curate("run", tiny, "--output", output, "--on", "local", "--workers", 2, CURATE_CRASH_AT=f"{point}:2:{mark}")
    assert mark.exists()
    check_equal(output, undisturbed)


def test_units_are_reused_although_the_run_that_replaced_the_plan_died(
    tiny: Path, curate: Any, units_run: Any, tmp_path: Path
) -> None:
    folder, output, mark = tmp_path / "in", tmp_path / "out", tmp_path / "mark"
    shutil.copytree(tiny.parent, folder)
    file = folder / "pipeline.yaml"
    file.write_text(file.read_text().replace("unit_bytes: 1 KiB", "unit_bytes: 6 KiB"))
    curate("run", file, "--output", output, *LOCAL)
    (folder / "00.jsonl").write_text("\n".join(line(f"new-{index}") for index in range(8)) + "\n")
    crash = f"plan.after-claim:1:{mark}"
    curate("run", file, "--output", output, *LOCAL, "--replace", code=-signal.SIGKILL, CURATE_CRASH_AT=crash)
    curate("run", file, "--output", output, *LOCAL)
    assert units_run(output)[-1]["documents.lines"]["ran"] == 1


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("seal.before-sael:1", "did you mean 'seal.before-seal'?"),
        ("seal.before-seal", "want NAME:NTH"),
        ("seal.before-seal:0", "want NAME:NTH"),
        ("seal.before-seal:x:file", "want NAME:NTH"),
    ],
)
def test_a_wrong_setting_is_refused_before_any_work(
    setting: str, words: str, tiny: Path, curate: Any, tmp_path: Path
) -> None:
    done = curate("run", tiny, "--output", tmp_path / "out", *LOCAL, code=2, CURATE_CRASH_AT=setting)
    assert done.stderr.startswith(f"{VARIABLE}: ") and words in done.stderr
    assert not (tmp_path / "out").exists()


def test_nobody_dies_where_somebody_did(tiny: Path, curate: Any, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    mark.touch()
    curate("run", tiny, "--output", tmp_path / "out", *LOCAL, CURATE_CRASH_AT=f"plan.before-claim:1:{mark}")
