"""Exchanges in a pipeline: verdicts come home, clusters decide about splits, and no cut shows in the dataset."""

import dataclasses
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from curate.engine import exchange, homes, merge, programs, sinks
from curate.engine.places import Place
from curate.engine.runner import run
from curate.plan.build import build
from stages import dedup
from stages.clusters import CLUSTERS
from tests.end_to_end.recount import ledger_of, pieces_of

STAGES = '''
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from curate.core.exchange import VERDICT, Exchange, Reduce, Reducer, Send, Sent
from stages.ids import id_keys, id_words


def verdicts(rows, fate=None, reason=None, cluster=None):
    columns = {"home": rows.column("home"), "id": rows.column("id")}
    columns |= {"fate": pa.repeat(pa.scalar(fate, pa.string()), rows.num_rows)}
    columns |= {"reason": pa.repeat(pa.scalar(reason, pa.string()), rows.num_rows)}
    columns |= {"kept_id": pa.nulls(rows.num_rows, pa.binary(16))}
    columns |= {"cluster": pa.nulls(rows.num_rows, pa.binary(16)) if cluster is None else cluster}
    return pa.table(columns)


class SendTwins(Send):
    """g0 and g1 have one key, g2 and g3 the next; other records stay away."""

    name = "names"
    columns: ClassVar = {"row": pa.uint32()}

    def open(self):
        def send(batch):
            pairs = [int(name[1:]) // 2 if name[:1] == "g" and name[1:].isdigit() else None
                     for name in batch.column("name").to_pylist()]
            keys = [None if pair is None else (pair * 0x9E3779B97F4A7C15) % (1 << 64) for pair in pairs]
            rows = pa.RecordBatch.from_pydict({"key": pa.array(keys, pa.uint64()), "id": batch.column("id"),
                                               "row": batch.column("row")})
            return Sent(rows=rows.filter(pc.is_valid(rows.column("key"))))
        return send


class TwinsReducer(Reducer):
    def __init__(self):
        self._key, self._cluster = None, None

    def reduce(self, rows):
        clusters, stays = [], []
        for key, one in zip(rows.column("key").to_pylist(), rows.column("id").to_pylist()):
            stays.append(key == self._key)  # the first of a cluster learns nothing: its own id serves
            if key != self._key:
                self._key, self._cluster = key, one
            clusters.append(self._cluster)
        rows = rows.append_column("cluster", pa.array(clusters, pa.binary(16))).filter(pa.array(stays))
        return verdicts(rows, cluster=rows.column("cluster"))


class ReduceTwins(Reduce):
    name, inputs, columns = "verdicts", ("names",), VERDICT

    def open(self):
        return TwinsReducer()


@dataclass(frozen=True, kw_only=True)
class Twins(Exchange):
    reads: ClassVar = ("name",)

    def program(self):
        return SendTwins(), ReduceTwins()


class SendIds(Send):
    name = "ids"
    columns: ClassVar = {"row": pa.uint32()}

    def open(self):
        def send(batch):
            keys = pa.array(id_keys(id_words(batch.column("id"))))
            columns = {"key": keys, "id": batch.column("id"), "row": batch.column("row")}
            return Sent(rows=pa.RecordBatch.from_pydict(columns))
        return send


class SeventhReducer(Reducer):
    def reduce(self, rows):
        rows = rows.filter(pa.array(rows.column("key").to_numpy() % np.uint64(7) == 0))
        rows = pa.concat_tables([rows] * TIMES)
        return verdicts(rows, "dropped", "seventh")


class ReduceSeventh(Reduce):
    name, inputs, columns = "verdicts", ("ids",), VERDICT

    def open(self):
        return SeventhReducer()


TIMES = 1


@dataclass(frozen=True, kw_only=True)
class DropSeventh(Exchange):
    reads: ClassVar = ("id",)
    reasons: ClassVar = ("seventh",)
    times: int = 1

    def program(self):
        global TIMES
        TIMES = self.times
        return SendIds(), ReduceSeventh()
'''

STEPS = """\
  corpus:
    from: [articles, web, general]
    steps:
      - meeting_stages.Twins
      - {use: meeting_stages.DropSeventh, times: 1}
dataset:
  splits: {validation: 0.3}
"""
CORPUS = "  corpus: {from: [articles, web, general], steps: [stages.dedup.MinHashDedup]}\ndataset:\n"


@pytest.fixture(autouse=True)
def meeting_stages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "stages").mkdir()
    (tmp_path / "stages" / "meeting_stages.py").write_text(STAGES)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "stages"))


def pipeline(corpus: Any, steps: str = STEPS, **changes: Any) -> Path:
    path: Path = corpus.pipeline(replace=(CORPUS, steps), **changes)
    return path


def test_two_exchanges_one_of_which_gives_clusters(
    corpus: Any, curate: Any, read_manifest: Any, tmp_path: Path
) -> None:
    output = tmp_path / "out"
    curate("run", pipeline(corpus), "--output", output, "--on", "local", "--workers", 1)
    manifest = read_manifest(output)
    assert json.loads(curate("verify", output, "--json").stdout)["ok"]
    ledger = ledger_of(output, manifest)
    dropped = Counter((line["stage"], line["reason"]) for line in ledger if line["fate"] == "dropped")
    assert dropped["drop_seventh", "seventh"] == manifest["drops"]["drop_seventh"]["seventh"] > 20
    splits: dict[str, str] = {}
    for split in ("train", "validation"):
        splits |= {line["name"]: split for line in pieces_of(output, manifest, split)}
    twins = [
        (splits[f"g{i}"], splits[f"g{i + 1}"]) for i in range(0, 150, 2) if {f"g{i}", f"g{i + 1}"} <= splits.keys()
    ]
    assert len(twins) > 40
    assert {one for one, _ in twins} == {"train", "validation"}
    assert all(one == other for one, other in twins)
    curate(
        "run", pipeline(corpus, unit_bytes="16 KiB"), "--output", tmp_path / "other", "--on", "local", "--workers", 2
    )
    assert read_manifest(tmp_path / "other") == manifest


def test_two_verdicts_about_one_document_name_the_stage(corpus: Any, curate: Any, tmp_path: Path) -> None:
    file = pipeline(corpus, STEPS.replace("times: 1", "times: 2"))
    done = curate("run", file, "--output", tmp_path / "out", "--on", "local", "--workers", 1, code=1)
    assert "step 'drop_seventh' (meeting_stages.DropSeventh) gave two verdicts about one document" in done.stderr


def make_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Units, files, blocks and batches of an exchange of a few rows."""
    for name, value in {"PART_BYTES": 30_000, "FAN_IN": 3, "MAX_RUNS": 4, "MAX_MAIL": 2}.items():
        monkeypatch.setattr(programs, name, value)
    monkeypatch.setattr(exchange, "RUN_BYTES", 20_000)
    monkeypatch.setattr(merge, "MIN_BLOCK_BYTES", 1)
    monkeypatch.setattr(homes, "BATCH_BYTES", 1)
    monkeypatch.setattr(homes, "MAIL_BYTES", 1)
    monkeypatch.setattr(sinks, "SEND_ROWS", 3)


def test_some_batches_of_a_home_have_clusters_and_others_have_none(
    corpus: Any, read_manifest: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path / "stages")
    file, place = pipeline(corpus), Place(on="local", workers=1)
    monkeypatch.setattr(exchange, "GROUP_BYTES", 5000)
    run(build(str(file), str(tmp_path / "whole")), place=place)
    monkeypatch.setattr(homes, "BATCH_BYTES", 1)
    run(build(str(file), str(tmp_path / "small")), place=place)
    assert read_manifest(tmp_path / "small") == read_manifest(tmp_path / "whole")


DEDUP = """\
  corpus:
    from: [articles, web, general]
    steps: [stages.dedup.ExactDedup, stages.dedup.MinHashDedup]
dataset:
"""


def phases_of(output: Path) -> Counter[str]:
    """Units a phase."""
    seals = [json.loads(path.read_bytes()) for path in (output / "work/seals").iterdir()]
    return Counter({seal["phase"]: len(seal["units"]) for seal in seals})


def test_parts_combine_rounds_and_short_reads_do_not_show(
    corpus: Any, read_manifest: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same exchanges in one piece, and with everything cut as small as it goes, clusters in rounds, too."""
    file = pipeline(corpus, DEDUP, unit_bytes="64 KiB")
    place = Place(on="local", workers=1)
    monkeypatch.setattr(exchange, "GROUP_BYTES", 5000)  # in both: the id of a dataset covers files that it cuts
    run(build(str(file), str(tmp_path / "whole")), place=place)
    whole = read_manifest(tmp_path / "whole")
    assert any(".at_once" in phase for phase in phases_of(tmp_path / "whole"))
    make_small(monkeypatch)
    monkeypatch.setattr(dedup, "CLUSTERS", dataclasses.replace(CLUSTERS, max_rows=0))
    run(build(str(file), str(tmp_path / "small")), place=place)
    assert read_manifest(tmp_path / "small") == whole
    assert sum(whole["merged"]["min_hash_dedup"].values()) > 0
    phases = phases_of(tmp_path / "small")
    assert any(".components" in phase or ".large_star" in phase for phase in phases)
    assert any(".combine2" in phase for phase in phases)
    assert any(".mail" in phase for phase in phases)
    assert max(count for phase, count in phases.items() if phase.startswith("exchange")) > 5
