"""Phases that do not need each other overlap: one source is still read when the exchange of another has ended."""

import json
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from tests.command import manifest_of

ROOT = Path(__file__).parents[2]
STAGES = """
import time
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pyarrow as pa

from curate.core.stage import Map


@dataclass(frozen=True, kw_only=True)
class Wait(Map):
    reads: ClassVar = ("text",)
    gate: str

    @property
    def adds(self):
        return {"text": pa.large_string()}

    def open(self):
        def wait(batch):
            while Path(self.gate).exists():
                time.sleep(0.01)
            return batch
        return wait
"""
PIPELINE = """
curate: 1
name: overlap
documents:
  slow:
    read: {{use: stages.jsonl.ReadJsonl, paths: "slow.jsonl", id: id, text: text}}
    steps: [{{use: waiting_stages.Wait, gate: {gate}}}]
  quick:
    read: {{use: stages.jsonl.ReadJsonl, paths: "quick.jsonl", id: id, text: text}}
    steps: [stages.dedup.ExactDedup]
dataset:
  from: [slow, quick]
  tokenizer: {{model: {tokenizer}}}
  rows: {{length: 16, packing: concat, per_shard: 4}}
"""


def wait_for_phase(run: "subprocess.Popen[str]", output: Path, phase: str) -> set[str]:
    """The phases that are sealed when this one is."""
    end, phases = time.monotonic() + 120, set[str]()
    while phase not in phases and run.poll() is None:
        assert time.monotonic() < end, f"sealed are only {phases}"
        time.sleep(0.05)
        phases = {json.loads(path.read_bytes())["phase"] for path in (output / "work/seals").glob("*.json")}
    return phases


def test_an_exchange_ends_while_another_source_is_read(
    curate: Any, start: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = tmp_path / "gate"
    (tmp_path / "waiting_stages.py").write_text(STAGES)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    for name in ("slow", "quick"):
        lines = [json.dumps({"id": f"{name}{number}", "text": f"{name} text {number // 2}"}) for number in range(20)]
        (tmp_path / f"{name}.jsonl").write_text("\n".join(lines))
    file = tmp_path / "pipeline.yaml"
    file.write_text(PIPELINE.format(gate=gate, tokenizer=ROOT / "examples/quickstart/tokenizer/tokenizer.model"))
    arguments = ("run", file, "--on", "local", "--workers", 2, "--output")
    curate(*arguments, tmp_path / "free")
    gate.touch()
    with start(*arguments, tmp_path / "held") as held:
        try:
            phases = wait_for_phase(held, tmp_path / "held", "documents.quick.exact_dedup")
        finally:
            gate.unlink()
        _, errors = held.communicate(timeout=120)
    assert held.returncode == 0, errors
    assert "documents.quick.exact_dedup" in phases and "documents.slow" not in phases
    assert manifest_of(tmp_path / "held") == manifest_of(tmp_path / "free")
