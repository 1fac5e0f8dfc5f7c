"""Decontaminate: which item of which set; short items; Unicode; and the ledger of a run that says so."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from curate.core.errors import PlanError
from curate.core.hashing import sha256
from curate.core.stage import Asset
from curate.plan.assets import AssetFinder
from curate.plan.load import Place, Scalar
from stages.dedup import Contamination, Decontaminate
from tests.end_to_end.recount import ledger_of
from tests.stages.reference_minhash import units

QUESTION = "Which of these drugs is the first choice for a patient of sixty years with high blood pressure"  # 17 words
ANSWER = "An inhibitor of the enzyme that converts angiotensin one"  # 9 words


def asset(folder: Path, name: str, lines: list[Any]) -> Asset:
    path = folder / f"{name}.jsonl"
    path.write_text("\n".join(json.dumps(line) for line in lines), encoding="utf-8")
    return Asset(str(path), sha256(path.read_bytes()))


@pytest.fixture
def sets(tmp_path: Path) -> Mapping[str, Asset]:
    first = asset(tmp_path, "exam", [{"id": 7, "question": "What is it?"}, {"question": QUESTION, "choices": [ANSWER]}])
    return {"exam": first, "quiz": asset(tmp_path, "quiz", ["\u4e2d\u6587\u6570\u636e\u6e05\u6d17" * 3, QUESTION])}


def judged(stage: Decontaminate, texts: list[str | None]) -> list[str | None]:
    """What is told of each text, None for those that stay."""
    judge = stage.open()
    assert isinstance(judge, Contamination)
    batch = pa.RecordBatch.from_pydict({"text": pa.array(texts, pa.large_string())})
    reasons = judge(batch)
    told = iter(judge.details(batch.filter(reasons.is_valid())).to_pylist())
    return [None if reason is None else next(told) for reason in reasons.to_pylist()]


def test_thirteen_words_in_a_row_are_one_too_many(sets: dict[str, Asset]) -> None:
    words = QUESTION.split()
    texts = [
        "before " + " ".join(words[2:15]) + " after",
        "before " + " ".join(words[2:14]) + " after",
        QUESTION.upper().replace(" ", ",  "),
        f"so: {ANSWER}!",
        " ".join(ANSWER.split()[:8]),
        "What is it?",
        "x \u4e2d\u6587\u6570\u636e\u6e05\u6d17\u4e2d\u6587\u6570\u636e\u6e05\u6d17\u4e2d x",
        None,
        "",
    ]
    expected = ["exam:2", None, "exam:2", "exam:2", None, None, "quiz:1", None, None]
    assert judged(Decontaminate(sets=sets), texts) == expected


def test_the_length_is_an_option(sets: dict[str, Asset]) -> None:
    text = " ".join(QUESTION.split()[:8])
    assert judged(Decontaminate(sets=sets), [text]) == [None]
    assert judged(Decontaminate(sets=sets, ngram=8), [text]) == ["exam:2"]
    assert judged(Decontaminate(sets=sets, ngram=3), ["what IS it", "what is"]) == ["exam:1", None]
    with pytest.raises(ValueError, match="ngram is 0"):
        Decontaminate(sets=sets, ngram=0)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(st.sampled_from("abc"), max_size=14).map(" ".join), max_size=6), st.integers(1, 4))
def test_equal_to_plain_python(tmp_path_factory: pytest.TempPathFactory, texts: list[str], ngram: int) -> None:
    items = ["a b c a b", "c c", "b b a"]
    stage = Decontaminate(sets={"s": asset(tmp_path_factory.mktemp("s"), "s", items)}, ngram=ngram)
    runs = {tuple(units(item)[at : at + ngram]) for item in items for at in range(len(units(item)) - ngram + 1)}

    def holds(text: str) -> bool:
        words = units(text)
        return any(tuple(words[at : at + ngram]) in runs for at in range(len(words) - ngram + 1))

    assert [told is not None for told in judged(stage, list(texts))] == [holds(text) for text in texts]


def test_a_line_that_is_no_json_is_an_error_with_its_place(tmp_path: Path) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_text('{"a": "b"}\n{"a": \n', encoding="utf-8")
    with pytest.raises(PlanError, match=r"bad\.jsonl:2: not a line of JSON"):
        Decontaminate(sets={"bad": Asset(str(path), "00")}).open()


def test_a_pattern_names_files_in_order(tmp_path: Path) -> None:
    for name in ("b", "a", "c"):
        (tmp_path / f"{name}.jsonl").write_text("{}\n")
    finder, place = AssetFinder(tmp_path), Place("pipeline.yaml", 3)
    found = finder.expand(Scalar(place, "[ab].jsonl", True), "sets")
    assert [Path(one.text).name for one in found] == ["a.jsonl", "b.jsonl"]
    assert finder.expand(Scalar(place, "a.jsonl", True), "sets")[0].text == "a.jsonl"
    with pytest.raises(PlanError, match=r"pipeline.yaml:3: sets: no file matches 'x\*\.jsonl'"):
        finder.expand(Scalar(place, "x*.jsonl", True), "sets")


def test_the_ledger_names_the_item(corpus_of_lines: Any) -> None:
    ledger = corpus_of_lines([f"before {QUESTION} after", "a story of its own"])
    told = {line["name"]: (line["fate"], line["stage"], line["reason"], line["detail"]) for line in ledger}
    assert told["0"] == ("dropped", "decontaminate", "contaminated", "exam:1")
    assert told["1"][0] != "dropped" or told["1"][1] == "pack"


PIPELINE = """\
curate: 1
name: notes
documents:
  notes:
    read: {{use: stages.jsonl.ReadJsonl, paths: "notes.jsonl", id: id, text: text}}
    steps: [{{use: stages.dedup.Decontaminate, sets: "*exam*.jsonl"}}]
dataset:
  from: notes
  tokenizer: {{model: {tokenizer}, bos: document, eos: document}}
  rows: {{length: 8, packing: concat, per_shard: 64}}
"""


@pytest.fixture
def corpus_of_lines(tmp_path: Path, curate: Any, read_manifest: Any) -> Any:
    """Runs a pipeline over texts and gives its ledger."""

    def run(texts: list[str]) -> list[dict[str, Any]]:
        asset(tmp_path, "exam", [{"question": QUESTION}])
        lines = [json.dumps({"id": str(number), "text": text}) for number, text in enumerate(texts)]
        (tmp_path / "notes.jsonl").write_text("\n".join(lines))
        tokenizer = Path(__file__).parents[2] / "examples/quickstart/tokenizer/tokenizer.model"
        (tmp_path / "pipeline.yaml").write_text(PIPELINE.format(tokenizer=tokenizer))
        curate("run", tmp_path / "pipeline.yaml", "--output", tmp_path / "out", "--on", "local", "--workers", 1)
        return ledger_of(tmp_path / "out", read_manifest(tmp_path / "out"))

    return run
