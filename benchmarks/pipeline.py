"""How much faster is the whole quickstart with two worker processes than with one?

Both run through the real command, alternately, each time into an empty folder; start-up, planning and publishing are
included.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks import Figures

ROUNDS = 3
PIPELINE = Path(__file__).parents[1] / "examples" / "quickstart" / "pipeline.yaml"
COMMAND = Path(sys.executable).parent / "curate"


def measure() -> Figures:
    """Median seconds with one and with two workers, and what was made."""
    seconds: dict[int, list[float]] = {1: [], 2: []}
    verified = []
    with tempfile.TemporaryDirectory() as folder:
        for turn in range(ROUNDS):
            for workers in (1, 2):
                output = Path(folder) / f"{turn}-{workers}"
                seconds[workers].append(_timed_run(output, workers))
                verified.append(_verified(output))
    train = verified[0]["splits"]["train"]
    digests = {result["splits"]["train"]["digest"] for result in verified}
    if len(digests) != 1:
        raise SystemExit(f"the runs made different datasets: {sorted(digests)}")
    one, two = (statistics.median(seconds[workers]) for workers in (1, 2))
    return {
        "speedup_2_workers": round(one / two, 2),
        "seconds_1_worker": round(one, 2),
        "seconds_2_workers": round(two, 2),
        "rounds": ROUNDS,
        "cores": len(os.sched_getaffinity(0)),
        "input_bytes": sum(path.stat().st_size for path in _inputs()),
        "tokens": train["tokens"],
        "tokens_per_second_2_workers": round(train["tokens"] / two),
        "digest": train["digest"],
    }


def lines(figures: Figures) -> list[str]:
    """The figures for people."""
    return [
        f"{figures['speedup_2_workers']}x with 2 workers against 1 (medians of {figures['rounds']} alternating runs, "
        f"{figures['cores']} cores)",
        f"{figures['seconds_1_worker']} s and {figures['seconds_2_workers']} s for {figures['input_bytes']:,} bytes of "
        f"input and {figures['tokens']:,} tokens: the quickstart, from the command's start to its end",
    ]


def _inputs() -> list[Path]:
    folders = (PIPELINE.parent / name for name in ("pmc", "web", "general"))
    return [path for folder in folders for path in folder.iterdir()]


def _timed_run(output: Path, workers: int) -> float:
    command = [str(COMMAND), "run", str(PIPELINE), "--output", str(output), "--on", "local", "--workers", str(workers)]
    start = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    return time.perf_counter() - start


def _verified(output: Path) -> Figures:
    command = [str(COMMAND), "verify", str(output), "--json"]
    answer: Figures = json.loads(subprocess.check_output(command))
    return answer
