"""A corpus so small that a run takes a second, cut into many units."""

import json
import subprocess
from pathlib import Path

import pytest

from tests.command import command

ROOT = Path(__file__).parents[2]
PIPELINE = """
curate: 1
name: tiny
seed: 7
documents:
  lines:
    read: {{use: stages.jsonl.ReadJsonl, paths: "*.jsonl", id: id, text: text}}
    steps:
      - stages.dedup.ExactDedup
      - stages.statistics.TextStatistics
      - {{use: stages.score.KeepTop, column: mean_word_length, share: 0.9}}
dataset:
  from: lines
  tokenizer: {{model: {tokenizer}, bos: document, eos: document}}
  rows: {{length: 64, packing: concat, per_shard: 16}}
limits: {{max_quarantined: 0.2}}
run: {{unit_bytes: 1 KiB}}
"""


def line(name: str) -> str:
    """A document."""
    return json.dumps({"id": name, "text": f"document {name} says that the cell divides and the other does not " * 5})


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three files of lines; a repeated record, a copy under another id, a conflict of ids, a line that is no JSON."""
    folder = tmp_path_factory.mktemp("tiny")
    for number in range(3):
        lines = [line(f"d{number}-{index}") for index in range(8)]
        (folder / f"{number}.jsonl").write_text("\n".join(lines) + "\n")
    copy = json.dumps(json.loads(line("d1-1")) | {"id": "copy"})
    odd = [line("d0-3"), copy, json.dumps({"id": "d0-4", "text": "other words"}), '{"id": "broken", "text"']
    (folder / "3.jsonl").write_text("\n".join(odd) + "\n")
    file = folder / "pipeline.yaml"
    file.write_text(PIPELINE.format(tokenizer=ROOT / "examples/quickstart/tokenizer/tokenizer.model"))
    return file


@pytest.fixture(scope="session")
def undisturbed(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The output of a run of `tiny` that nothing disturbed."""
    output = tmp_path_factory.mktemp("undisturbed") / "out"
    done = subprocess.run(
        command("run", tiny, "--output", output, "--workers", 1), capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return output
