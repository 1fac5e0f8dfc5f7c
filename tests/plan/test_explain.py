"""What `curate plan` says."""

from dataclasses import dataclass
from pathlib import Path

from curate.plan.build import build
from curate.plan.explain import as_text, explain


@dataclass(frozen=True)
class State:
    phase: str
    units: int | None
    done: int
    why: str


STATES = [State("documents.web", 62, 60, "2 receipts missing"), State("pack", None, 0, "waits")]

TEXT = """\
pipeline small (plan {plan_id}, seed 7)
output   {folder}/curate-out/small

source   web: 8 inputs, 40 B, in {folder}/data
  0.txt    5 B
  1.txt    5 B
  2.txt    5 B
  ...
  5.txt    5 B
  one.txt  5 B
  two.txt  5 B
  read_lines  tiny_stages.ReadLines     id name record_hash source origin content
  extract     tiny_stages.Extract       +text +title -content
  language    tiny_stages.Language      +language
  keep        tiny_stages.Keep
  repair      tiny_stages.Repair        +num_repairs -language
  drop_empty  stages.text.DropEmpty
  tokenize    stages.tokenize.Tokenize  +tokens -text

source   notes: 2 inputs, 2.0 MiB, in {folder}/notes
  a.txt  2.0 MiB
  b.txt  12 B
  read_lines     tiny_stages.ReadLines     id name record_hash source origin content
  extract_notes  tiny_stages.Extract       +text +title -content
  repair         tiny_stages.Repair        +num_repairs
  drop_empty     stages.text.DropEmpty
  tokenize       stages.tokenize.Tokenize  +tokens -text

rows     16 tokens of uint16, 64 rows a shard, by stages.pack.Concat
         tokenizer tiny.model ({vocab_size} ids), bos: document, eos: document

phases
  documents.web  62 units, 60 done, 2 to run  2 receipts missing
  pack           units not known yet          waits"""


def test_text(folder: Path) -> None:
    for name in ("0", "1", "2", "3", "4", "5", "one", "two"):
        (folder / "data" / f"{name}.txt").write_text("12345")
    (folder / "notes" / "a.txt").write_bytes(bytes(2 << 20))
    plan = build("pipeline.yaml")
    expected = TEXT.format(folder=folder, plan_id=plan.plan_id[:12], vocab_size=plan.rows.vocab_size)
    assert as_text(explain(plan, STATES)) == expected


def test_json(folder: Path) -> None:
    plan = build("pipeline.yaml")
    explained = explain(plan, STATES)
    assert explained["phases"] == [
        {"phase": "documents.web", "units": 62, "done": 60, "why": "2 receipts missing"},
        {"phase": "pack", "units": None, "done": 0, "why": "waits"},
    ]
    web = explained["sources"][0]
    assert (web["name"], web["root"], web["num_inputs"], web["num_bytes"]) == ("web", str(folder / "data"), 2, 26)
    assert [step["name"] for step in web["steps"]][:2] == ["read_lines", "extract"]
    assert web["steps"][0]["columns"]["content"] == "large_binary"
    assert explained["rows"]["tokenizer_sha256"] == plan.rows.tokenizer.sha256
