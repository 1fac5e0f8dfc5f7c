"""A stage's output may change only together with what its key is made of: version, options, models, libraries.

golden.json holds, for each place of a stage in golden.yaml, its key and the digests of what it was given and gave.
`make golden` stores them anew; it refuses where the output alone has changed, for then `version` must be raised first.
"""

import dataclasses
import importlib
import inspect
import json
import pkgutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import stages
from curate.core.exchange import Exchange
from curate.core.hashing import digest, sha256
from curate.core.stage import Map, Slice, Stage
from curate.core.summary import NeedsSummary, Summary
from curate.engine.context import Context
from curate.engine.places import Place
from curate.engine.runner import run
from curate.plan.build import build
from curate.plan.plan import Plan, Source
from curate.plan.resolve import identity
from manifests.table_digest import TableDigest
from stages.pack import Concat
from tests.oracle import summarize

GOLDEN = Path(__file__).with_name("golden.json")
NUM_RECORDS = 8  # of each input
Entry = dict[str, str]


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    return build(Path(__file__).with_name("golden.yaml"), output=str(tmp_path_factory.mktemp("golden")))


@pytest.fixture(scope="module")
def entries(plan: Plan) -> dict[str, Entry]:
    found: dict[str, Entry] = {}
    for source in plan.sources:
        found |= source_entries(plan, source)
    found |= exchange_entries(plan, given=digest([entry["output"] for entry in found.values()]))
    lengths = np.asarray([100, 0, 1, 128, 300], dtype=np.int64)
    packed = {name: np.asarray(value).tolist() for name, value in vars(Concat().pack(lengths, 128)).items()}
    key = digest(identity("stages.pack.Concat", Concat()))
    found["stages.pack.Concat"] = {"key": key, "input": digest([lengths.tolist(), 128]), "output": digest(packed)}
    return found


def source_entries(plan: Plan, source: Source) -> dict[str, Entry]:
    batch, given = first_records(plan, source)
    key = digest(identity(source.use, source.reader, without=("paths",)))
    found = {f"{source.name}: {source.use}": {"key": key, "input": given, "output": table_digest(batch)}}
    for step in source.steps:
        if isinstance(step.stage, Exchange):
            continue  # see exchange_entries
        tables: list[pa.Table] = []
        if isinstance(step.stage, NeedsSummary):
            summary: Summary = step.stage.summary()
            use, given = f"{type(summary).__module__}.{type(summary).__qualname__}", table_digest(batch)
            tables = summarize(summary, batch)
            output = digest([table_digest(table) for table in tables])
            found[f"{source.name}: {use}"] = {"key": step.key, "input": given, "output": output}
        answer = step.stage.open(*tables)(batch)
        output = answer if isinstance(step.stage, Map) else pa.RecordBatch.from_arrays([answer], names=["reason"])
        entry = {"key": step.key, "input": table_digest(batch), "output": table_digest(output)}
        found[f"{source.name}: {step.use}"] = entry
        batch = output if isinstance(step.stage, Map) else batch.filter(answer.is_null())
    return found


def exchange_entries(plan: Plan, given: str) -> dict[str, Entry]:
    """An exchange looks at all documents, so the whole pipeline is run and its verdicts are taken from the ledger."""
    exchanges = {
        step.name: step for source in plan.sources for step in source.steps if isinstance(step.stage, Exchange)
    }
    run(plan, place=Place(on="local", workers=1), replace=False)
    output = Path(plan.output)
    manifest = output / json.loads((output / "MANIFEST").read_text("utf-8"))["manifest"]
    parts = [manifest.parent / part["key"] for part in json.loads(manifest.read_text("utf-8"))["ledger"]["parts"]]
    ledger = pa.concat_tables([pq.read_table(part) for part in parts])
    found = {}
    for name, step in exchanges.items():
        verdicts = ledger.filter(pc.equal(ledger["stage"], name)).select(["id", "fate", "reason", "kept_id"])
        assert verdicts.num_rows > 0, f"golden.yaml gives {name} nothing to decide"
        found[f"exchange: {step.use}"] = {"key": step.key, "input": given, "output": table_digest(verdicts)}
    return found


def first_records(plan: Plan, source: Source) -> tuple[pa.RecordBatch, str]:
    """The first records of each input, and a digest of what was read."""
    context, contents = Context(plan), []
    read, batches = source.reader.open(), []
    for item in source.inputs:
        num_left = NUM_RECORDS
        with context.open_input(source, item) as file:
            contents.append(sha256(file.read_range(0, item.size)))
            for records in read(Slice(input=item, start=0, stop=item.size, proven=True), file):
                batches.append(records.batch.slice(0, num_left))
                num_left -= batches[-1].num_rows
                if num_left <= 0:
                    break
    return pa.concat_batches(batches), digest(contents)


def table_digest(batch: pa.RecordBatch | pa.Table) -> str:
    hasher = TableDigest()
    hasher.update(batch)
    return hasher.digest().hex()


def stored() -> dict[str, Entry]:
    content: dict[str, Entry] = json.loads(GOLDEN.read_text("utf-8")) if GOLDEN.exists() else {}
    return content


def changed_alone(entry: Entry, before: Entry | None) -> bool:
    """Whether the output changed although nothing did that it is a function of."""
    return before is not None and {**entry, "output": before["output"]} == before != entry


def shipped_stages() -> set[str]:
    """The import paths of our stages."""
    found: set[str] = set()
    for info in pkgutil.walk_packages(stages.__path__, "stages."):
        module = importlib.import_module(info.name)
        found |= {
            f"{info.name}.{name}"
            for name, value in vars(module).items()
            if inspect.isclass(value) and issubclass(value, Stage) and value.__module__ == info.name
            if dataclasses.is_dataclass(value) and not inspect.isabstract(value)
        }
    return found


def test_an_output_changes_only_with_its_version(entries: dict[str, Entry], request: pytest.FixtureRequest) -> None:
    before = stored()
    alone = [name for name, entry in entries.items() if changed_alone(entry, before.get(name))]
    assert not alone, f"the output changed but not what enters the key: raise `version` of {alone}, then `make golden`"
    if request.config.getoption("--refresh-golden", default=False):
        GOLDEN.write_text(json.dumps(entries, indent=1, sort_keys=True) + "\n", "utf-8")
        return
    stale = sorted(name for name in {*entries, *before} if entries.get(name) != before.get(name))
    assert not stale, f"stored for another version, input, option or library: run `make golden` and commit it: {stale}"


def test_every_stage_that_ships_is_held(entries: dict[str, Entry]) -> None:
    held = {name.rpartition(" ")[2] for name in entries}
    assert len(held) >= 11
    assert shipped_stages() - held == set()


@pytest.mark.parametrize(
    ("changes", "alone"),
    [({}, False), ({"output": "new"}, True), ({"output": "new", "key": "new"}, False), ({"input": "new"}, False)],
    ids=["same", "output alone", "with its version", "other input"],
)
def test_the_rule_itself(changes: dict[str, Any], alone: bool) -> None:
    before = {"key": "k", "input": "i", "output": "o"}
    assert changed_alone({**before, **changes}, before) is alone
    assert not changed_alone(before, None)
