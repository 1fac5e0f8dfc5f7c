"""A merged record names one that is in the output, also where its first keeper was merged later."""

import io
import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from curate.core.storage import open_storage

ROOT = Path(__file__).parents[2]
PIPELINE = """
curate: 1
name: chain
documents:
  lines:
    read: {{use: stages.jsonl.ReadJsonl, paths: "lines.jsonl", id: id, text: text}}
    steps:
      - stages.dedup.ExactDedup
      - {{use: stages.dedup.MinHashDedup, keep: [longest]}}
dataset:
  from: lines
  tokenizer: {{model: {tokenizer}}}
  rows: {{length: 16, packing: concat, per_shard: 4}}
"""


def test_a_copy_names_the_keeper_of_its_keeper(curate: Any, read_manifest: Any, tmp_path: Path) -> None:
    words = " ".join(f"word{number}" for number in range(300))
    texts = {"first": words, "copy": words, "longer": f"{words} and one more", "other": "something else entirely " * 9}
    names = sorted(texts)
    lines = [json.dumps({"id": name, "text": texts[name]}) for name in names] + [
        json.dumps({"id": "copy", "text": words})
    ]
    (tmp_path / "lines.jsonl").write_text("\n".join(lines))
    tokenizer = ROOT / "examples/quickstart/tokenizer/tokenizer.model"
    (tmp_path / "pipeline.yaml").write_text(PIPELINE.format(tokenizer=tokenizer))
    curate("run", tmp_path / "pipeline.yaml", "--output", tmp_path / "out", "--workers", 1)
    manifest, storage = read_manifest(tmp_path / "out"), open_storage(str(tmp_path / "out"))
    folder = manifest["dataset_id"][:12]
    (part,) = manifest["ledger"]["parts"]
    rows = pq.read_table(io.BytesIO(storage.read(f"{folder}/{part['key']}"))).to_pylist()
    by_id = {row["id"]: row["name"] for row in rows}
    merged = [(row["name"], row["stage"], by_id[row["kept_id"]]) for row in rows if row["fate"] == "merged"]
    assert sorted(one[0] for one in merged) == ["copy", "copy", "first"]
    assert {keeper for _, _, keeper in merged} == {"longer"}
    assert {row["name"] for row in rows if row["fate"] == "kept"} == {"longer", "other"}
    assert json.loads(curate("verify", tmp_path / "out", "--json").stdout)["ok"]
