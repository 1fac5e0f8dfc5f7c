"""Model check of the commit protocol: the real code in every order, with every fault at every step.

What must hold in every state: who reads sees no dataset or a whole one, and a receipt's data are
there. From every state an undisturbed run ends with the undisturbed dataset: nothing is lost,
nothing is doubled. And two outcomes of one unit never both count.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from curate.core.errors import StorageError
from curate.core.hashing import canonical_json, sha256
from curate.core.storage import Storage
from curate.engine import publish
from curate.engine.context import seal_key
from curate.engine.output import claim
from curate.engine.publish import finished_manifest, move_pointer, put_manifest
from curate.engine.receipt import Artifact, Receipt, Result, commit, find_receipt, put_named, receipt_key
from curate.engine.units import Unit, record_units
from curate.plan.build import build
from curate.plan.plan import Plan
from tests.faults.explorer import (
    END,
    Explorer,
    Program,
    Step,
    TagOf,
    World,
    content_tag,
    run_alone,
    version_tag,
)

Commit = Callable[[Storage, Unit, Result], Receipt]
TAGS = pytest.mark.parametrize("tag_of", [content_tag, version_tag])  # as S3, as a local disk


@pytest.fixture(scope="module")
def plan(tiny: Path) -> Plan:
    """One source with two units."""
    built = build(str(tiny), "memory")
    (source,) = built.sources
    inputs = source.inputs[:2]
    run = replace(built.run, unit_bytes=max(item.size for item in inputs))
    return replace(built, sources=(replace(source, inputs=inputs),), run=run)


@pytest.fixture(scope="module")
def other_plan(plan: Plan) -> Plan:
    """Another plan over the same inputs."""
    return replace(plan, plan_id="f" * 64, description=plan.description | {"seed": 8})


def result_of(unit: Unit, outcome: str = "") -> Result:
    """What the attempt at a unit makes."""
    parts = [f"{unit.key}{outcome}{part}".encode() for part in range(2)]
    return Result(artifacts=[Artifact(role="rows", data=part, rows=1) for part in parts], facts={"rows": 2})


@dataclass(frozen=True)
class Driver:
    """The steps of a run, each the engine's own code, with less to do between them."""

    plan: Plan
    replace: bool = False
    commit: Commit = commit

    def program(self) -> Program:
        """In order."""
        return [self.claim, self.units, *[self.unit(number) for number in range(2)], self.seal, self.publish]

    def claim(self, storage: Storage, _: Any) -> Any:
        """Whose output it is, and whether there is anything to do."""
        previous = claim(storage, self.plan, self.replace)
        return END if finished_manifest(storage, self.plan) else previous and previous["plan_id"]

    def units(self, storage: Storage, previous: Any) -> Any:
        """The recorded list of units."""
        (source,) = self.plan.sources
        units = record_units(storage, self.plan, source, previous)
        return {"units": [[unit.phase, unit.key, unit.spec] for unit in units], "receipts": []}

    def unit(self, number: int) -> Step:
        """Up to two attempts at one unit."""

        def attempt(storage: Storage, work: Any) -> Any:
            phase, key, spec = work["units"][number]
            unit = Unit(phase=phase, key=key, spec=spec)
            receipt = find_receipt(storage, unit)
            if receipt is None:
                try:
                    receipt = self.commit(storage, unit, result_of(unit))
                except StorageError:
                    receipt = self.commit(storage, unit, result_of(unit))
            return work | {"receipts": [*work["receipts"], receipt]}

        return attempt

    def seal(self, storage: Storage, work: Any) -> Any:
        """One object for the phase."""
        storage.put(seal_key("documents"), canonical_json(work["receipts"]))
        return json.loads(storage.read(seal_key("documents")))

    def publish(self, storage: Storage, sealed: Any) -> Any:
        """The manifest."""
        put_manifest(storage, self.plan, dataset_of(self.plan), {"units": sealed})


def dataset_of(plan: Plan) -> str:
    """The id of its dataset."""
    return sha256(plan.plan_id.encode())


def content(world: World) -> dict[str, bytes]:
    """Bytes by key."""
    return {key: data for key, (data, _) in world.objects.items()}


def check_readers(world: World) -> None:
    """MANIFEST is absent or leads to all of a dataset; what a receipt names is there."""
    stored = content(world)
    if "MANIFEST" in stored:
        pointer = json.loads(stored["MANIFEST"])
        manifest = stored[pointer["manifest"]]
        assert sha256(manifest) == pointer["sha256"]
        check_outputs(stored, json.loads(manifest)["units"])
        assert len({unit["unit"] for unit in json.loads(manifest)["units"]}) == 2
    check_outputs(stored, [json.loads(data) for key, data in stored.items() if key.startswith("work/receipts/")])


def check_outputs(stored: dict[str, bytes], receipts: list[Receipt]) -> None:
    """All data of receipts are there and are what they were."""
    for output in (output for receipt in receipts for output in receipt["outputs"]):
        assert sha256(stored[output["key"]]) == output["sha256"]


def check_runs_on(world: World, late: Any, program: Program, undisturbed: dict[str, bytes]) -> None:
    """One more run ends well, and so it stays whatever writes are still on their way."""
    world, end = run_alone(program, world)
    assert end == "done"
    for request in late:
        world, _ = world.perform(request)
    assert content(world) == undisturbed


def explore_drivers(driver: Driver, tag_of: TagOf, faults: int) -> None:
    """Two runs of one plan at once."""
    program = driver.program()
    explorer = Explorer([program] * 2, faults, tag_of)
    undisturbed = content(run_alone(Driver(driver.plan).program(), explorer.empty_world())[0])
    seen, ends = set(), set()
    for state in explorer.states():
        if state.ends:
            ends.add(state.ends)
            assert "done" not in state.ends or content(state.world) == undisturbed
        if (state.world, state.late) not in seen:
            seen.add((state.world, state.late))
            check_readers(state.world)
            check_runs_on(state.world, state.late, program, undisturbed)
    assert ("done", "done") in ends
    assert {end for both in ends for end in both} <= {"done", "StorageError"}


@pytest.mark.parametrize(("tag_of", "faults"), [(content_tag, 2), (version_tag, 1)])
def test_two_drivers_of_one_plan(plan: Plan, tag_of: TagOf, faults: int) -> None:
    explore_drivers(Driver(plan), tag_of, faults)


@pytest.mark.parametrize(
    ("outcomes", "faults"), [(["", "", "", ""], 2), (["", "", "other", "other"], 1)], ids=["equal", "different"]
)
def test_four_attempts_at_one_unit(outcomes: list[str], faults: int) -> None:
    """Two drivers, two attempts each, none of which knows that the others live; a stage may be indeterminate."""
    unit = Unit(phase="documents.lines", key="0" * 64, spec={})
    programs = {
        outcome: [lambda storage, _, outcome=outcome: commit(storage, unit, result_of(unit, outcome))]
        for outcome in sorted(set(outcomes))
    }
    ends = set()
    for state in Explorer([programs[outcome] for outcome in outcomes], faults, content_tag).states():
        check_readers(state.world)
        if state.ends:
            ends.add(tuple(sorted(state.ends)))
            done = {moment.value for moment in state.moments if moment.end == "done"}
            assert done <= {state.world.objects[receipt_key(unit.key)][0]}
    wanted = ("done", "done", "done", "done") if len(programs) == 1 else ("StageError", "StageError", "done", "done")
    assert wanted in ends


def explore_replacement(plan: Plan, other_plan: Plan, tag_of: TagOf, faults: int) -> None:
    """A run whose output is given to another plan while it runs."""
    programs = [Driver(plan).program(), Driver(other_plan, replace=True).program()]
    ends = set()
    for state in Explorer(programs, faults, tag_of).states():
        check_readers(state.world)
        if state.ends:
            ends.add(state.ends)
            if state.ends[1] == "done":
                pointer = json.loads(content(state.world)["MANIFEST"])
                assert pointer["dataset_id"] == dataset_of(other_plan)
    assert {("done", "done"), ("OutputError", "done")} <= ends


@TAGS
def test_a_plan_that_was_replaced_does_not_publish(plan: Plan, other_plan: Plan, tag_of: TagOf) -> None:
    explore_replacement(plan, other_plan, tag_of, faults=1)


def receipt_first(storage: Storage, unit: Unit, result: Result) -> Receipt:
    """A protocol that is wrong: a reader may follow the receipt to data that are not there."""
    artifacts = [artifact for artifact in result.artifacts if isinstance(artifact, Artifact)]
    outputs = [artifact.output() for artifact in artifacts]
    receipt = {"unit": unit.key, "phase": unit.phase, "spec": unit.spec, "outputs": outputs, "facts": result.facts}
    storage.put(receipt_key(unit.key), canonical_json(receipt))
    for artifact in artifacts:
        put_named(storage, artifact.output()["key"], artifact.data)
    return receipt


def test_the_explorer_finds_a_receipt_before_its_data(plan: Plan) -> None:
    with pytest.raises((AssertionError, KeyError)):
        explore_drivers(Driver(plan, commit=receipt_first), version_tag, faults=0)


def test_the_explorer_finds_a_pointer_before_its_manifest(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    def pointer_first(storage: Storage, plan: Plan, dataset: str, manifest: dict[str, Any]) -> None:
        body, key = canonical_json(manifest), f"{dataset[:12]}/manifest.json"
        move_pointer(storage, plan, canonical_json({"dataset_id": dataset, "manifest": key, "sha256": sha256(body)}))
        put_manifest(storage, plan, dataset, manifest)

    def publish_so(self: Driver, storage: Storage, sealed: Any) -> None:
        pointer_first(storage, self.plan, dataset_of(self.plan), {"units": sealed})

    monkeypatch.setattr(Driver, "publish", publish_so)
    with pytest.raises(KeyError):
        explore_drivers(Driver(plan), version_tag, faults=0)


def test_the_explorer_finds_a_publication_that_does_not_look_whose_output_it_is(
    plan: Plan, other_plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publish, "check_claim", lambda storage, plan: None)
    with pytest.raises(AssertionError):
        explore_replacement(plan, other_plan, version_tag, faults=0)
