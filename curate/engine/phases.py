"""The units of each later phase, from what the sealed phases before it say."""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from curate.core.hashing import digest
from curate.engine.books import BYTE_KINDS
from curate.engine.context import Seal, outputs_of
from curate.engine.mix import Allocation, allocate, groups_of
from curate.engine.passes import passes
from curate.engine.sinks import TRAIN, lane_role
from curate.engine.units import Unit, later_unit, shuffle_key
from curate.plan.plan import Plan, Source

LEDGER_PART_ROWS = 1 << 20
UNUSED_ROWS = 1 << 16  # rows that one unit of the phase `unused` looks through

Lane = tuple[str, str]  # (split, mix group)
Passes = dict[str, tuple[str, list[Unit]]]  # by source: the phase of its next pass, and its units


def split_names(plan: Plan) -> list[str]:
    """The splits, train first."""
    return [TRAIN, *(name for name, _ in plan.splits)]


def lanes(plan: Plan) -> list[Lane]:
    """All (split, group)."""
    return [(split, group.name) for split in split_names(plan) for group in groups_of(plan)]


def pass_units(plan: Plan, sources: list[Source], done: dict[str, list[Seal]], answers: list[Seal]) -> Passes:
    """The next pass of each source: a unit a home, homes numbered over all sources.

    `answers`: verdicts of the exchange, or tables of the summary, that the passes begin with.
    """
    mail = digest([output["sha256"] for seal in answers for unit in seal["units"] for output in unit["outputs"]])
    names = tuple(seal["name"] for seal in answers)
    made: Passes = {}
    ordinal = 0
    for source in sources:
        home = done[source.name][-1]
        this = passes(source)[len(done[source.name])]
        units = []
        for receipt in home["units"]:
            spec = {"source": source.name, "pass": this.number, "home": receipt["unit"], "ordinal": ordinal}
            reads = digest([mail, [output["sha256"] for output in receipt["outputs"] if output["role"] == "home"]])
            key = [shuffle_key(plan, source), this.key]
            units.append(later_unit(this.phase, key, reads, spec, seals=(home["name"], *names)))
            ordinal += 1
        made[source.name] = (this.phase, units)
    return made


def pack_units(plan: Plan, shuffled: list[Seal]) -> list[Unit]:
    """A unit a bucket; a lane has as many buckets as shards would be filled by its tokens."""
    sums: Counter[str] = Counter()
    for seal in shuffled:
        for unit in seal["units"]:
            sums.update(unit["facts"]["lanes"])
    specs = []
    for split, group in lanes(plan):
        num_buckets = max(1, -(-sums[lane_role(split, group)] // (plan.rows.per_shard * plan.rows.length)))
        specs += [{"split": split, "group": group, "bucket": one, "buckets": num_buckets} for one in range(num_buckets)]
    roles = [lane_role(*lane) for lane in lanes(plan)]
    return list(units_of("pack", [plan.seed, plan.rows.key], shuffled, roles, specs))


def tail_units(plan: Plan, pack: Seal) -> list[Unit]:
    """One unit a lane."""
    specs = [{"split": split, "group": group} for split, group in lanes(plan)]
    return list(units_of("tails", [plan.seed, plan.rows.key], [pack], ["tail"], specs))


def allocation(plan: Plan, split: str, packed: list[Seal]) -> Allocation:
    """Places of the groups of a split, from the rows that were packed."""
    return allocate(plan, split, [lane_rows(packed, (split, group.name)) for group in groups_of(plan)])


def lane_rows(packed: list[Seal], lane: Lane) -> int:
    """Rows that were packed of a lane."""
    return sum(unit["facts"]["rows"] for seal in packed for unit in seal["units"] if lane_of(unit) == lane)


def lane_of(receipt: dict[str, Any]) -> Lane:
    """The lane of a unit of `pack` or `tails`."""
    return receipt["spec"]["split"], receipt["spec"]["group"]


def shard_units(plan: Plan, dataset: str, packed: list[Seal]) -> list[Unit]:
    """A unit a shard, split after split."""
    size = plan.rows.per_shard
    specs = []
    for split in split_names(plan):
        mix = allocation(plan, split, packed)
        counts = {"available": list(mix.available), "places": list(mix.places)}
        for first in range(0, mix.num_rows, size):
            place = {"shard": first // size, "first_row": first, "num_rows": min(size, mix.num_rows - first)}
            specs.append({"dataset": dataset, "split": split} | place | counts)
    return list(units_of("shards", plan.rows.key, packed, ["rows", "pieces"], specs))


def unused_units(plan: Plan, packed: list[Seal]) -> list[Unit]:
    """Units over the rows that a share did not need."""
    mix = allocation(plan, TRAIN, packed)
    specs = [
        {"split": TRAIN, "group": group, "first_row": first, "num_rows": min(UNUSED_ROWS, available - first)}
        for group, available, places in zip(mix.names, mix.available, mix.places, strict=True)
        for first in range(places, available, UNUSED_ROWS)
    ]
    return list(units_of("unused", plan.rows.key, packed, ["pieces"], specs))


def ledger_units(dataset: str, seals: list[Seal]) -> list[Unit]:
    """A unit a part; a part holds about LEDGER_PART_ROWS rows, of one range of ids."""
    num_rows = sum(output["rows"] for seal in seals for output in outputs_of(seal["units"], "ledger"))
    num_parts = max(1, -(-num_rows // LEDGER_PART_ROWS))
    specs = [{"dataset": dataset, "part": part, "parts": num_parts} for part in range(num_parts)]
    return list(units_of("ledger", None, seals, ["ledger", "settled"], specs))


def units_of(
    phase: str, phase_key: Any, reads: list[Seal], roles: list[str], specs: Iterable[dict[str, Any]]
) -> Iterator[Unit]:
    """Units of a phase that reads the outputs of these roles; all of them are in each key."""
    inputs = digest([output["sha256"] for seal in reads for output in outputs_of(seal["units"], *roles)])
    names = tuple(seal["name"] for seal in reads)
    for spec in specs:
        yield later_unit(phase, phase_key, inputs, spec, seals=names)


def dataset_id(plan: Plan, passes: dict[str, list[Seal]], packed: list[Seal]) -> str:
    """What the dataset is called, known before it is written.

    A digest of all that its manifest will say and does not depend on how the work was cut: the
    pipeline, every record that was read, the counts, and the packed rows with their provenance.
    """
    sources = [
        {"counts": {fact: total(passes[source.name][:1], fact) % (1 << 64) for fact in ("in", "record_sum")}}
        | {fact: merged_counts(passes[source.name], fact) for fact in ("drops", "merged", "quarantined")}
        | {"bytes": byte_counts(source, passes[source.name][0])}
        for source in plan.sources
    ]
    made = [output["sha256"] for seal in packed for output in outputs_of(seal["units"], "rows", "pieces")]
    return digest(["curate.dataset/1", plan.rows.key, pipeline(plan), sources, made])


def pipeline(plan: Plan) -> dict[str, Any]:
    """The plan's description without its lists of inputs."""
    sources = [{key: value for key, value in one.items() if key != "inputs"} for one in plan.description["sources"]]
    return plan.description | {"sources": sources}


def byte_counts(source: Source, seal: Seal) -> dict[str, int]:
    """`stored`: sizes as listed. `content`: bytes looked at, decompressed where a stream was read; and their kinds."""
    facts = [fact for unit in seal["units"] for fact in unit["facts"]["slices"]]
    counts = {"stored": sum(item.size for item in source.inputs), "content": sum(fact["content"] for fact in facts)}
    names = {"record": "records"}
    return counts | {names.get(kind, kind): sum(fact[kind] for fact in facts) for kind in BYTE_KINDS}


def seal_name(phase: str, units: list[Unit]) -> str:
    """The name of the seal of a phase: what it set out to do."""
    return digest([phase, [unit.key for unit in units]])  # phase_list computes it, too


def total(seals: Iterable[Seal], fact: str) -> int:
    """The sum of a fact over all units of sealed phases."""
    return sum(unit["facts"][fact] for seal in seals for unit in seal["units"])


def merged_counts(seals: Iterable[Seal], fact: str) -> dict[str, dict[str, int]]:
    """Sums of a fact of the form {stage: {reason: count}}."""
    sums: dict[str, Counter[str]] = {}
    for unit in (unit for seal in seals for unit in seal["units"]):
        for stage, reasons in unit["facts"].get(fact, {}).items():
            sums.setdefault(stage, Counter()).update(reasons)
    return {stage: dict(reasons) for stage, reasons in sums.items() if reasons}


def quarantined_of(source: str, passes: list[Seal], packed: list[Seal]) -> Counter[str]:
    """Quarantined records of a source, by reason."""
    found: Counter[str] = Counter()
    for reasons in merged_counts(passes, "quarantined").values():
        found.update(reasons)
    conflicts = sum(unit["facts"]["conflict_sources"].get(source, 0) for seal in packed for unit in seal["units"])
    if conflicts:
        found["id_conflict"] += conflicts
    return found
