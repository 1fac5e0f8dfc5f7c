"""Units of work: what is read together, and the keys that name it."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from curate.core.hashing import canonical_json, digest
from curate.core.stage import Input, Reader, Slice
from curate.core.storage import Storage
from curate.engine.crash import crash_point
from curate.engine.passes import passes
from curate.plan.plan import Plan, Run, Source

# Raise it when the bytes that a phase of the engine writes change.
ENGINE_VERSION = 2


@dataclass(frozen=True, kw_only=True)
class RoundInput:
    """Rows that a round of an exchange reads: outputs of a role of sealed phases."""

    seals: tuple[str, ...]
    role: str
    from_homes: bool = False  # the rows left homes: the n-th unit of these seals is home n
    is_ordered: bool = False  # the files of a unit follow each other


@dataclass(frozen=True, kw_only=True)
class Unit:
    """One piece of a phase. `key` names its receipt; `spec` is plain JSON and says what it reads."""

    phase: str
    key: str
    spec: dict[str, Any]
    seals: tuple[str, ...] = ()  # names of the sealed phases that it reads; what they hold is in the key
    inputs: tuple[RoundInput, ...] = ()  # the same for rounds of an exchange


def document_unit(plan: Plan, source: Source, slices: Iterable[Slice]) -> Unit:
    """The unit that reads `slices` of `source` and takes their records through its first pass."""
    spec = {"source": source.name, "slices": [slice_to_json(piece) for piece in slices]}
    first = passes(source)[0]
    key = digest(["documents", ENGINE_VERSION, shuffle_key(plan, source), first.key, spec])
    return Unit(phase=first.phase, key=key, spec=spec)


def shuffle_key(plan: Plan, source: Source) -> list[Any]:
    """What decides about the documents of a source beside its steps: seed, splits, group, rank."""
    group = next((group.name for group in plan.groups if source.name in group.sources), None)
    ranks = [one.name for one in plan.sources]
    return [plan.seed, [list(split) for split in plan.splits], group, ranks.index(source.name)]


def later_unit(
    phase: str,
    phase_key: Any,
    reads: str,
    spec: dict[str, Any],
    *,
    seals: tuple[str, ...] = (),
    inputs: tuple[RoundInput, ...] = (),
) -> Unit:
    """A unit that reads sealed phases: `reads` is a digest of all that it reads there."""
    key = digest([phase, ENGINE_VERSION, phase_key, reads, spec])
    return Unit(phase=phase, key=key, spec=spec, seals=seals, inputs=inputs)


def slice_to_json(piece: Slice) -> list[Any]:
    """[key, size, tag, start, stop, proven]."""
    return [piece.input.key, piece.input.size, piece.input.tag, piece.start, piece.stop, piece.proven]


def slice_from_json(row: list[Any]) -> Slice:
    """The inverse of `slice_to_json`."""
    key, size, tag, start, stop, proven = row
    return Slice(Input(key, size, tag), start, stop, proven)


def slices_of(unit: Unit) -> list[Slice]:
    """The slices that a document unit reads, in order."""
    return [slice_from_json(row) for row in unit.spec["slices"]]


def unit_bytes(run: Run, reader: Reader) -> int:
    """Stored bytes a unit should have, from the run's seconds and the reader's estimated speed."""
    return run.unit_bytes or max(1, int(run.unit_seconds * reader.bytes_per_second))


def cut(inputs: Iterable[Input], reader: Reader, max_bytes: int) -> Iterator[list[Slice]]:
    """Inputs as lists of slices, a list a unit.

    A large input that can be entered inside is cut into ranges, each a unit. The others stay
    whole, and small ones are grouped, in order, until a unit is full.
    """
    group: list[Slice] = []
    group_bytes = 0
    for item in inputs:
        if item.size > max_bytes and reader.has_entry_points(item.key):
            for start in range(0, item.size, max_bytes):
                yield [Slice(item, start, min(start + max_bytes, item.size), proven=start == 0)]
            continue
        if group and group_bytes + item.size > max_bytes:
            yield group
            group, group_bytes = [], 0
        group.append(Slice(item, 0, item.size, proven=True))
        group_bytes += item.size
    if group:
        yield group


def cut_again(
    inputs: tuple[Input, ...], recorded: list[list[Slice]], reader: Reader, max_bytes: int
) -> list[list[Slice]]:
    """As `cut`, but units recorded by an earlier plan are taken over where all their inputs are unchanged."""
    present = set(inputs)
    kept = [slices for slices in recorded if all(piece.input in present for piece in slices)]
    covered = {piece.input for slices in kept for piece in slices}
    fresh = list(cut([item for item in inputs if item not in covered], reader, max_bytes))
    return sorted(kept + fresh, key=lambda slices: (slices[0].input.key, slices[0].start))


def record_units(storage: Storage, plan: Plan, source: Source, previous_plan_id: str | None) -> list[Unit]:
    """The units of a source, in order: as recorded for this plan, else recorded now.

    The first to record a list wins, and later runs and other jobs take it as it is. Units of the
    plan that held the output before are taken over where their inputs are unchanged.
    """
    key = unit_list_key(plan.plan_id, source.name)
    slices = read_units(storage, key)
    if slices is None:
        slices = plan_units(storage, plan, source, previous_plan_id)
        if not storage.put(key, canonical_json([[slice_to_json(piece) for piece in one] for one in slices])):
            slices = load_units(storage, key)
        crash_point("plan.after-unit-list")
    return [document_unit(plan, source, one) for one in slices]


def plan_units(storage: Storage, plan: Plan, source: Source, previous_plan_id: str | None) -> list[list[Slice]]:
    """The slices of each unit of a source, as they would be recorded."""
    recorded = read_units(storage, unit_list_key(previous_plan_id, source.name)) if previous_plan_id else None
    return cut_again(source.inputs, recorded or [], source.reader, unit_bytes(plan.run, source.reader))


def read_units(storage: Storage, key: str) -> list[list[Slice]] | None:
    """A recorded list of units, or None."""
    return None if storage.stat(key) is None else load_units(storage, key)


def load_units(storage: Storage, key: str) -> list[list[Slice]]:
    """A list of units that is there. Raises NotFound."""
    return [[slice_from_json(row) for row in one] for one in json.loads(storage.read(key))]


def unit_list_key(plan_id: str, source: str) -> str:
    """Where the units of a source lie."""
    return f"work/units/{plan_id}/{source}.json"
