"""Kill it anywhere and go on: the same command again gives the same bytes and redoes almost nothing."""

import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.command import command

WORKERS = 2


def receipts(output: Path) -> int:
    return sum(1 for _ in (output / "work/receipts").rglob("*.json")) if (output / "work/receipts").exists() else 0


def wait_for(condition: Callable[[], bool], process: "subprocess.Popen[str]", seconds: float = 120) -> None:
    """Poll until the condition holds; an early end of the process ends the wait too."""
    end = time.monotonic() + seconds
    while not condition() and process.poll() is None:
        assert time.monotonic() < end, "nothing happened"
        time.sleep(0.002)


@pytest.fixture(scope="module")
def num_receipts(corpus: Any, tmp_path_factory: pytest.TempPathFactory) -> int:
    """Receipts that an undisturbed run with units of 16 KiB leaves."""
    output = tmp_path_factory.mktemp("count")
    file = corpus.pipeline(unit_bytes="16 KiB")
    subprocess.run(command("run", file, "--output", output), check=True, capture_output=True)
    return receipts(output)


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9, 1.0])
def test_kill_9_of_the_driver(
    share: float, corpus: Any, undisturbed: dict[str, Any], num_receipts: int, curate: Any, start: Any,
    read_manifest: Any, units_run: Any, tmp_path: Path,
) -> None:  # fmt: skip
    output = tmp_path / "out"
    arguments = ("run", corpus.pipeline(unit_bytes="16 KiB"), "--output", output, "--workers", WORKERS)
    process = start(*arguments)
    wait_for(lambda: receipts(output) >= share * num_receipts and (output / "PLAN").exists(), process)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    left = receipts(output)
    curate(*arguments)
    assert read_manifest(output) == undisturbed
    last = units_run(output)[-1] if left < num_receipts else {}
    assert sum(phase["ran"] for phase in last.values()) <= num_receipts - left
    assert receipts(output) == num_receipts


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_stops_it_cleanly(
    number: signal.Signals, code: int, corpus: Any, undisturbed: dict[str, Any], curate: Any, start: Any,
    read_manifest: Any, tmp_path: Path,
) -> None:  # fmt: skip
    output = tmp_path / "out"
    arguments = ("run", corpus.pipeline(unit_bytes="16 KiB"), "--output", output, "--workers", WORKERS)
    process = start(*arguments)
    wait_for(lambda: receipts(output) >= 5, process)
    process.send_signal(number)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == code, errors
    assert "Traceback" not in errors
    assert not (output / "MANIFEST").exists()
    curate(*arguments)
    assert read_manifest(output) == undisturbed


def test_a_finished_run_has_nothing_to_do(corpus: Any, curate: Any, tmp_path: Path, units_run: Any) -> None:
    arguments = ("run", corpus.pipeline(), "--output", tmp_path / "out")
    curate(*arguments)
    assert "nothing to do" in curate(*arguments).stderr
    assert len(units_run(tmp_path / "out")) == 1


def test_lost_working_data_are_made_again(
    corpus: Any, undisturbed: dict[str, Any], curate: Any, read_manifest: Any, tmp_path: Path
) -> None:
    output = tmp_path / "out"
    curate("run", corpus.pipeline(), "--output", output)
    (output / "MANIFEST").unlink()
    for number, path in enumerate(sorted((output / "work/data").rglob("*.parquet"))):
        if number % 2:
            path.unlink()
    curate("run", corpus.pipeline(), "--output", output)
    assert read_manifest(output) == undisturbed
