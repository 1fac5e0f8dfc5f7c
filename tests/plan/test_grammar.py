"""All keys of the grammar are understood, also those whose feature is not built yet."""

from pathlib import Path

from curate.core.stage import Asset
from curate.plan.grammar import (
    DatasetKeys,
    Limits,
    MixGroup,
    PipelineKeys,
    RowsKeys,
    RunKeys,
    Tokenizer,
    Watch,
    place_of,
)
from curate.plan.load import load
from curate.plan.values import PIPELINE, Converter

WHOLE = """\
curate: 1
name: pubmed-cpt
seed: 1234
output: s3://lab-datasets/pubmed-cpt
documents: {}
dataset:
  from: corpus
  splits: {validation: 0.002, test: 0.002}
  mix:
    domain:  {sources: [articles, citations, web], take: all}
    general: {sources: [general], share: 0.01, epochs: 2}
  tokenizer: {model: tokenizer.model, bos: document, eos: none}
  rows: {length: 4096, packing: best_fit_fill, per_shard: 16384}
  exports: [hf]
limits: {max_quarantined: 0.001}
run:
  unit_seconds: 2 min
  memory_per_worker: 2 GiB
  watch: {no_progress_minutes: 15, then: stop}
"""


def test_every_key(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text(WHOLE)
    table = load(str(tmp_path / "p.yaml"))
    converter = Converter(lambda value, _: Asset(value.text, "00"))
    keys = converter.build(PipelineKeys, table, of=PIPELINE, skip=("curate", "documents"), noun="key")
    assert keys == PipelineKeys(
        name="pubmed-cpt",
        seed=1234,
        output="s3://lab-datasets/pubmed-cpt",
        dataset=DatasetKeys(
            from_=("corpus",),
            splits={"validation": 0.002, "test": 0.002},
            mix={
                "domain": MixGroup(sources=("articles", "citations", "web"), take="all"),
                "general": MixGroup(sources=("general",), share=0.01, epochs=2),
            },
            tokenizer=Tokenizer(model=Asset("tokenizer.model", "00"), eos="none"),
            rows=RowsKeys(packing="best_fit_fill"),
            exports=("hf",),
        ),
        limits=Limits(),
        run=RunKeys(unit_seconds=120.0, watch=Watch(no_progress_minutes=15.0)),
    )
    assert place_of(table, "dataset", "rows", "length").line == 13
    assert place_of(table, "dataset", "nothing").line == 6
