"""KeepTop in a pipeline: the documents that one process would choose from a list of all, however the work is cut."""

import json
from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from curate.core.exchange import Exchange
from curate.core.stage import Filter, Map, Slice, with_columns
from curate.engine import summaries
from curate.engine.context import Context
from curate.engine.passes import meetings, with_identity
from curate.engine.places import Place
from curate.engine.runner import run
from curate.engine.task import with_source
from curate.plan.build import build
from curate.plan.plan import Plan, Source, Step
from stages.score import CountRanks, KeepTop
from tests.end_to_end.recount import ledger_of
from tests.oracle import run_exchange

CORPUS = "  corpus: {from: [articles, web, general], steps: [stages.dedup.MinHashDedup]}\n"
STEPS = """\
  texts:
    from: [articles, general]
    steps: [stages.statistics.TextStatistics]
  corpus:
    from: [texts, web]
    steps:
      - stages.dedup.ExactDedup
      - {use: stages.score.KeepTop, name: best, column: mean_word_length, share: 0.45}
      - stages.dedup.MinHashDedup
"""
WEB = "      - {use: stages.score.KeepTop, column: num_words, share: 0.9}\n"  # in the pipeline of conftest.py
PAGES = WEB.replace("use:", "name: pages, use:").replace("num_words, share: 0.9", "mean_word_length, share: 0.8")


def pipeline(corpus: Any, **changes: Any) -> Path:
    path: Path = corpus.pipeline(replace=(CORPUS, STEPS), web_steps=PAGES, **changes)
    return path


class Recount:
    """The whole plan in one process, on lists of all documents; what is chosen is sorted anew here."""

    def __init__(self, plan: Plan) -> None:
        self.documents = {source.name: self._read(plan, source) for source in plan.sources}
        self.left = {source.name: list(with_identity(source.steps)) for source in plan.sources}
        self.dropped: Counter[str] = Counter()
        for step, sources in meetings(plan):
            names = [source.name for source in sources]
            for name in names:
                self._go_on(name)
                assert self.left[name].pop(0) == step
            self._meet(step, names)
        for name in self.left:
            self._go_on(name)

    def _read(self, plan: Plan, source: Source) -> pa.RecordBatch:
        context, read, batches = Context(plan), source.reader.open(), []
        for item in source.inputs:
            with context.open_input(source, item) as file:
                batches += [one.batch for one in read(Slice(item, 0, item.size, proven=True), file)]
        batch = with_source(pa.concat_batches(batches), source.name)
        rank = pa.array([plan.sources.index(source)] * batch.num_rows, pa.uint16())
        return with_columns(batch, {"rank": rank})

    def _go_on(self, name: str) -> None:
        """Maps and filters up to the next step that needs all documents, or to the tokens."""
        while self.left[name] and not isinstance(self.left[name][0].stage, Exchange | KeepTop):
            stage = self.left[name].pop(0).stage
            assert isinstance(stage, Map | Filter)
            answer = stage.open()(self.documents[name])
            is_map = isinstance(stage, Map)
            self.documents[name] = answer if is_map else self.documents[name].filter(answer.is_null())

    def _meet(self, step: Step, names: list[str]) -> None:
        if isinstance(step.stage, Exchange):
            columns = ["id", "rank", *step.stage.columns_read()]
            columns += ["origin"] if step.name == "identity" else []
            together = pa.concat_batches([self.documents[name].select(columns) for name in names])
            gone = run_exchange(step.stage, together).removed()
        else:
            assert isinstance(step.stage, KeepTop)
            gone = self._not_top(step.stage, names)
        self.dropped[step.name] += len(gone)
        first = 0
        for name in names:
            number = self.documents[name].num_rows
            stays = [position not in gone for position in range(first, first + number)]
            self.documents[name] = self.documents[name].filter(pa.array(stays, pa.bool_()))
            first += number

    def _not_top(self, stage: KeepTop, names: list[str]) -> set[int]:
        batches = [self.documents[name].select(["id", stage.column]) for name in names]
        rows = [row for batch in batches for row in batch.to_pylist()]
        ranked = sorted(range(len(rows)), key=lambda position: (-rows[position][stage.column], rows[position]["id"]))
        return set(ranked[round(Fraction(repr(stage.share)) * len(rows)) :])

    @property
    def ids(self) -> set[bytes]:
        """Of what is tokenized."""
        return {one for batch in self.documents.values() for one in batch.column("id").to_pylist()}


def test_the_kept_documents_are_those_of_a_recount_in_one_process(
    corpus: Any, curate: Any, read_manifest: Any, tmp_path: Path
) -> None:
    output = tmp_path / "out"
    curate("run", pipeline(corpus, unit_bytes="16 KiB"), "--output", output, "--on", "local", "--workers", 2)
    manifest = read_manifest(output)
    assert json.loads(curate("verify", output, "--json").stdout)["ok"]
    recount = Recount(build(str(pipeline(corpus)), str(tmp_path / "none")))
    tokenized = [line for line in ledger_of(output, manifest) if line["fate"] == "kept" or line["reason"] == "tail"]
    assert {line["id"] for line in tokenized} == recount.ids
    drops = {name: manifest["drops"][name]["below_top"] for name in ("keep_top", "pages", "best")}
    assert drops == {name: recount.dropped[name] for name in drops}
    assert min(drops.values()) > 10


def test_small_tables_many_rounds_and_combine_phases_do_not_show(
    corpus: Any, read_manifest: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, place = pipeline(corpus, unit_bytes="64 KiB"), Place(on="local", workers=1)
    run(build(str(file), str(tmp_path / "whole")), place=place)
    monkeypatch.setattr(CountRanks, "max_rows", 16)
    monkeypatch.setattr(summaries, "FAN_IN", 2)
    run(build(str(file), str(tmp_path / "small")), place=place)
    assert read_manifest(tmp_path / "small") == read_manifest(tmp_path / "whole")
    seals = [json.loads(path.read_bytes()) for path in (tmp_path / "small/work/seals").iterdir()]
    phases = {seal["phase"] for seal in seals}
    assert {"summary.best.0.combine3", "summary.best.1", "summary.best.1.combine1"} <= phases


def test_two_steps_that_choose_from_other_documents_need_two_names(corpus: Any, curate: Any, tmp_path: Path) -> None:
    again = "{use: stages.score.KeepTop, column: num_words, share: 0.9}"
    steps = STEPS.replace("[stages.statistics.TextStatistics]", f"[stages.statistics.TextStatistics, {again}]")
    done = curate("plan", corpus.pipeline(replace=(CORPUS, steps)), "--output", tmp_path / "out", code=2)
    assert "two steps are named 'keep_top'" in done.stderr


def test_a_column_of_words_is_refused_with_its_line(corpus: Any, curate: Any, tmp_path: Path) -> None:
    file = corpus.pipeline(web_steps=PAGES.replace("mean_word_length", "url"))
    done = curate("plan", file, "--output", tmp_path / "out", code=2)
    assert "stages.score.KeepTop: column 'url' holds string; want numbers (source 'web')" in done.stderr


def test_a_summary_is_no_step(corpus: Any, curate: Any, tmp_path: Path) -> None:
    file = corpus.pipeline(web_steps="      - {use: stages.score.CountRanks, column: num_words, share: 0.5}\n")
    done = curate("plan", file, "--output", tmp_path / "out", code=2)
    assert "stages.score.CountRanks is a Summary, which a pipeline does not name; name the stage" in done.stderr
