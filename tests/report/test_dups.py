"""dups: clusters by size, the kept one beside the removed ones, with what differs."""

import json
from pathlib import Path
from typing import Any

import pytest

from curate.report.dups import as_text, differences, dups

TOKENIZER = Path(__file__).parents[2] / "examples/quickstart/tokenizer/tokenizer.model"
PIPELINE = f"""\
curate: 1
name: notes
documents:
  notes:
    read: {{use: stages.jsonl.ReadJsonl, paths: "notes.jsonl", id: id, text: text}}
    steps: [stages.dedup.ExactDedup, stages.dedup.MinHashDedup]
dataset:
  from: notes
  tokenizer: {{model: {TOKENIZER}, bos: document, eos: document}}
  rows: {{length: 8, packing: concat, per_shard: 64}}
"""
BASE = [f"word{number}" for number in range(200)]


@pytest.fixture
def made(tmp_path: Path, curate: Any) -> str:
    texts = {"same1": "a text of its own", "same2": "a text of its own", "alone": "another one"}
    texts |= {f"page{number}": " ".join(["first", *BASE[:-1], f"last{number}"]) for number in range(5)}
    texts["longest"] = " ".join([*BASE[:-1], "at the end of it all"])
    lines = [json.dumps({"id": name, "text": text}) for name, text in texts.items()]
    (tmp_path / "notes.jsonl").write_text("\n".join(lines))
    (tmp_path / "pipeline.yaml").write_text(PIPELINE)
    curate("run", tmp_path / "pipeline.yaml", "--output", tmp_path / "out", "--on", "local", "--workers", 1)
    return str(tmp_path / "out")


def test_clusters_the_largest_first(made: str, curate: Any) -> None:
    found = dups(made, 5)
    assert (found["num_removed"], found["num_clusters"], found["sizes"]) == (6, 2, {"2": 1, "5-9": 1})
    pages, same = found["clusters"]
    assert (pages["size"], len(pages["removed"]), pages["kept"]["name"]) == (6, 3, "longest")
    assert {one["stage"] for one in pages["removed"]} == {"min_hash_dedup"}
    for one in pages["removed"]:
        number = one["name"].removeprefix("page")
        assert one["differences"].startswith("[-first-] word0 word1")
        assert one["differences"].endswith(f"word198 [-last{number}-] {{+at the end of it all+}}")
        assert one["text"].startswith("first word0")
    assert (same["size"], same["removed"][0]["reason"]) == (2, "exact")
    assert same["removed"][0]["differences"] == "a text of its own"
    assert len(dups(made, 1)["clusters"]) == 1
    assert json.loads(curate("dups", made, "--json").stdout) == found
    shown = curate("dups", made).stdout
    assert "6 records were removed in 2 clusters; by size: 1 of 2, 1 of 5-9" in shown
    assert "and 2 more" in shown and "kept    longest: notes, notes.jsonl@" in shown


def test_an_input_that_is_gone_leaves_the_rest(made: str, tmp_path: Path) -> None:
    (tmp_path / "notes.jsonl").unlink()
    found = dups(made, 5)
    assert [cluster["size"] for cluster in found["clusters"]] == [6, 2]
    assert all(one["text"] is one["differences"] is None for one in found["clusters"][0]["removed"])
    assert "(no text: " in as_text(found)


def test_differences_are_marked_in_the_words_around_them() -> None:
    words = [f"w{number}" for number in range(40)]
    marked = differences(" ".join([*words, "new"]), " ".join(["old", *words]))
    assert marked == f"[-old-] {' '.join(words[:8])} ... {' '.join(words[-8:])} {{+new+}}"
    assert differences("a b", None) is None
