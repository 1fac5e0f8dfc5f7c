"""Independent jobs on one output: the same bytes, whoever did what and however often they were killed."""

import random
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from curate.core.storage import open_storage
from manifests.verify import verify
from tests.command import command

MAX_KILLS = 8
ONE = ("--on", "local", "--workers", 1)


class Fleet:
    """Three jobs, begun again with and without --wait whenever they end, until all are done."""

    def __init__(self, seed: int, start: Any, *arguments: Any) -> None:
        self._chance = random.Random(seed)
        self._start = start
        self._arguments = arguments
        self._running: dict[int, subprocess.Popen[str]] = {}

    def run(self) -> None:
        """Until each job has ended with 0; on the way kill so many."""
        kills_left = MAX_KILLS
        try:
            for job in (1, 2, 3):
                self._begin(job)
            while self._running:
                time.sleep(self._chance.uniform(0.2, 1.5))
                self._look()
                if self._running and kills_left:
                    kills_left -= 1
                    self._kill(self._chance.choice(sorted(self._running)))
        finally:
            for process in self._running.values():
                process.kill()
                process.communicate()

    def _begin(self, job: int) -> None:
        wait = self._chance.choice([[], ["--wait"]])
        self._running[job] = self._start(*self._arguments, "--job", f"{job}/3", *wait)

    def _kill(self, job: int) -> None:
        self._running[job].kill()
        self._running[job].communicate()
        self._begin(job)

    def _look(self) -> None:
        for job, process in list(self._running.items()):
            if process.poll() is None:
                continue
            _, errors = process.communicate()
            assert process.returncode in (0, 3), errors
            del self._running[job]
            if process.returncode == 3:
                assert "other jobs hold" in errors
                self._begin(job)


def test_three_jobs_that_are_killed_at_random(
    output_url: str, corpus: Any, undisturbed: dict[str, Any], start: Any, read_manifest: Any
) -> None:
    Fleet(1, start, "run", corpus.pipeline(unit_bytes="64 KiB"), "--output", output_url, *ONE).run()
    assert read_manifest(output_url) == undisturbed
    assert verify(output_url)["ok"]


def test_jobs_without_wait_take_turns_and_do_nothing_twice(
    corpus: Any, undisturbed: dict[str, Any], curate: Any, read_manifest: Any, units_run: Any, tmp_path: Path
) -> None:
    output = tmp_path / "out"
    arguments = ("run", corpus.pipeline(unit_bytes="64 KiB"), "--output", output, *ONE)
    done = curate(*arguments, "--job", "1/2", code=3)
    assert "other jobs hold" in done.stderr and "run again or use --wait" in done.stderr
    assert not (output / "MANIFEST").exists()
    codes = [3]
    while codes[-1] == 3 and len(codes) < 20:
        turn = command(*arguments, "--job", f"{1 + len(codes) % 2}/2")
        codes.append(subprocess.run(turn, capture_output=True, timeout=300).returncode)
    assert codes == [3] * (len(codes) - 1) + [0]
    assert read_manifest(output) == undisturbed
    num_receipts = len(list(open_storage(str(output)).list("work/receipts/")))
    assert sum(phase["ran"] for one in units_run(output) for phase in one.values()) == num_receipts


def test_a_job_that_never_comes_is_taken_over(
    corpus: Any, undisturbed: dict[str, Any], curate: Any, read_manifest: Any, tmp_path: Path
) -> None:
    output = tmp_path / "out"
    file = corpus.pipeline(replace=("run: {", "run: {take_over_after_seconds: 1, "), unit_bytes="64 KiB")
    done = curate("run", file, "--output", output, *ONE, "--job", "1/2", "--wait")
    assert "waits for other jobs: " in done.stderr and "takes over" in done.stderr
    assert read_manifest(output) == undisturbed


@pytest.mark.parametrize(
    ("options", "words"),
    [(["--job", "4/3"], "want I/N"), (["--wait"], "--wait goes with --job")],
    ids=["4/3", "wait alone"],
)
def test_wrong_options(options: list[str], words: str, corpus: Any, curate: Any, tmp_path: Path) -> None:
    done = curate("run", corpus.pipeline(), "--output", tmp_path / "out", *options, code=2)
    assert words in done.stderr
    assert not (tmp_path / "out").exists()
