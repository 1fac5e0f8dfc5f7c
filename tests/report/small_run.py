"""A run of forty lines, made in this process, that questions can be asked about."""

import json
from pathlib import Path

from curate.engine.places import Place
from curate.engine.runner import run
from curate.plan.build import build

ROOT = Path(__file__).parents[2]
PIPELINE = """\
curate: 1
seed: {seed}
documents:
  notes:
    read: {{use: stages.jsonl.ReadJsonl, paths: "*.jsonl", id: id, text: text}}
    steps:
      - stages.statistics.TextStatistics
      - {{use: stages.quality.GopherQuality, min_words: {min_words}}}
dataset:
  from: notes
  tokenizer: {{model: {tokenizer}}}
  rows: {{length: 16, per_shard: 16}}
limits: {{max_quarantined: 0.5}}
"""
SENTENCE = "Note {number} says that the cell divides and the nucleus of the other one does not follow it. "


def text_of(number: int) -> str:
    """The text of a note: every fourth one is short."""
    return SENTENCE.format(number=number) * (1 if number % 4 == 0 else 5)


def write_notes(folder: Path) -> None:
    """Forty notes, one of them twice, and a line that cannot be read."""
    lines = [json.dumps({"id": f"n{number}", "text": text_of(number)}) for number in range(40)]
    (folder / "notes.jsonl").write_text("\n".join([*lines, lines[1], '{"id": "cut", "te']) + "\n")


def make(folder: Path, output: str, *, min_words: int = 50, seed: int = 7, replace: bool = False) -> None:
    """Run the pipeline over the notes in `folder`."""
    file = folder / "pipeline.yaml"
    tokenizer = ROOT / "examples/quickstart/tokenizer/tokenizer.model"
    file.write_text(PIPELINE.format(min_words=min_words, seed=seed, tokenizer=tokenizer))
    run(build(file, output), place=Place(on="local", workers=1), replace=replace)
