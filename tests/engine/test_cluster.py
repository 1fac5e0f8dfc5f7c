"""The executor on Ray: its scheduling in this process, and what it asks of nodes."""

import json
import os
import signal
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from curate.core.errors import PlanError
from curate.core.stage import Asset, Slice
from curate.engine.cluster import open_cluster
from curate.engine.context import Context
from curate.engine.local import Executor, InProcess
from curate.engine.node import Expected, check_node, expected_of
from curate.engine.units import Unit, document_unit
from curate.plan.build import build
from curate.plan.plan import Plan

ROOT = Path(__file__).parents[2]
TOKENIZER = ROOT / "examples/quickstart/tokenizer/tokenizer.model"
NUM_UNITS = 8
PIPELINE = f"""
curate: 1
name: lines
seed: 1
documents:
  lines:
    read: {{use: stages.jsonl.ReadJsonl, paths: "*.jsonl", id: id, text: text}}
dataset:
  from: lines
  tokenizer: {{model: "{TOKENIZER}", bos: document, eos: document}}
  rows: {{length: 64, packing: concat, per_shard: 4}}
"""


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    folder = tmp_path_factory.mktemp("lines")
    (folder / "pipeline.yaml").write_text(PIPELINE)
    for number in range(NUM_UNITS):
        line = json.dumps({"id": f"a{number}", "text": f"The text of document {number}."})
        (folder / f"{number}.jsonl").write_text(f"{line}\n")
    return build(folder / "pipeline.yaml", str(tmp_path_factory.mktemp("out")))


@pytest.fixture(scope="module")
def units(plan: Plan) -> list[Unit]:
    """A unit a file."""
    [source] = plan.sources
    return [document_unit(plan, source, [Slice(item, 0, item.size, proven=True)]) for item in source.inputs]


@pytest.fixture(scope="module")
def cluster(plan: Plan) -> Iterator[Executor]:
    """The second Ray of this process, with two workers: that there was one before must not matter."""
    with open_cluster(Context(plan), None, 1):
        pass
    with open_cluster(Context(plan), None, 2) as opened:
        yield opened


def workers_of(pid: int) -> list[int]:
    """The worker processes of a Ray that the process `pid` started."""
    found = []
    for child in map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()):
        found += (
            [child] if Path(f"/proc/{child}/cmdline").read_bytes().startswith(b"ray::Attempts") else workers_of(child)
        )
    return found


def test_it_gives_the_receipts_of_any_executor(
    cluster: Executor, plan: Plan, units: list[Unit], tmp_path: Path
) -> None:
    here = list(InProcess(Context(replace(plan, output=str(tmp_path)))).execute(units))
    there = list(cluster.execute(units))
    assert sorted(there, key=lambda receipt: receipt["unit"]) == sorted(here, key=lambda receipt: receipt["unit"])
    assert list(cluster.execute([])) == []


def test_a_unit_is_taken_when_it_can_be_begun(cluster: Executor, units: list[Unit]) -> None:
    taken: list[str] = []

    def give() -> Iterator[Unit]:
        for unit in units:
            taken.append(unit.key)
            yield unit

    for num_done, _ in enumerate(cluster.execute(give())):
        assert len(taken) <= num_done + 2
    assert len(taken) == NUM_UNITS


def test_after_it_was_left_early_it_does_other_units(cluster: Executor, units: list[Unit]) -> None:
    next(cluster.execute(units))
    rest = units[3:5]
    assert {receipt["unit"] for receipt in cluster.execute(rest)} == {unit.key for unit in rest}


def test_a_worker_that_is_gone_is_replaced(cluster: Executor, units: list[Unit]) -> None:
    list(cluster.execute(units))
    end = time.monotonic() + 60
    while len(before := workers_of(os.getpid())) < 2:
        assert time.monotonic() < end, "the second worker does not come"
        time.sleep(0.1)
    for pid in before:
        os.kill(pid, signal.SIGKILL)
    assert len(list(cluster.execute(units))) == NUM_UNITS
    assert not set(before) & set(workers_of(os.getpid()))


def test_one_ray_a_process(cluster: Executor, plan: Plan) -> None:
    with pytest.raises(PlanError, match="this process uses Ray already"), open_cluster(Context(plan), None, 1):
        pytest.fail("a second one was opened")


def test_what_a_node_must_have(plan: Plan) -> None:
    expected = expected_of(plan)
    here = {"curate", "python", "unicode", "machine"}
    assert expected.versions.keys() == here | {"numpy", "pyarrow", "sentencepiece", "zstandard"}
    assert [asset.location for asset in expected.assets] == [str(TOKENIZER)]
    check_node(expected)


@pytest.mark.parametrize("name", ["curate", "python", "machine", "pyarrow"])
def test_a_node_with_another_version_is_refused(name: str, plan: Plan) -> None:
    expected = expected_of(plan)
    other = replace(expected, versions=expected.versions | {name: "0.0"})
    with pytest.raises(PlanError, match=f" has {name} .*, the driver 0.0; install the same versions on all nodes$"):
        check_node(other)


def test_a_node_without_a_library_is_refused() -> None:
    with pytest.raises(PlanError, match=r" has no-such-library \(not installed\), the driver 1.0; "):
        check_node(Expected(versions={"no-such-library": "1.0"}, assets=()))


@pytest.mark.parametrize("content", [None, b"another model"])
def test_a_node_with_another_model_is_refused(content: bytes | None, tmp_path: Path) -> None:
    model = tmp_path / "model.bin"
    if content is not None:
        model.write_bytes(content)
    with pytest.raises(PlanError, match=r" has another file at .*model\.bin, or none; "):
        check_node(Expected(versions={}, assets=(Asset(str(model), "0" * 64),)))
