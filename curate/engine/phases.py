"""The units of each later phase, from what the sealed phases before it say."""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from curate.core.hashing import digest
from curate.engine.books import BYTE_KINDS
from curate.engine.context import Seal, outputs_of
from curate.engine.units import Unit, later_unit
from curate.plan.plan import Plan, Source

SPLIT, GROUP = "train", "all"
LEDGER_PART_ROWS = 1 << 20


def pack_units(plan: Plan, documents: list[Seal]) -> list[Unit]:
    """A unit a bucket; there are as many buckets as shards would be filled by the tokens."""
    num_buckets = max(1, -(-total(documents, "tokens") // (plan.rows.per_shard * plan.rows.length)))
    specs = [
        {"split": SPLIT, "group": GROUP, "bucket": bucket, "buckets": num_buckets} for bucket in range(num_buckets)
    ]
    return list(_units("pack", plan.rows.key, documents, ["documents"], specs))


def tail_units(plan: Plan, pack: Seal) -> list[Unit]:
    """One unit a (split, group)."""
    return list(_units("tails", plan.rows.key, [pack], ["tail"], [{"split": SPLIT, "group": GROUP}]))


def shard_units(plan: Plan, dataset: str, pack: Seal, tails: Seal) -> list[Unit]:
    """A unit a shard."""
    packed, size = [pack, tails], plan.rows.per_shard
    num_rows = total(packed, "rows")
    specs = [
        {
            "dataset": dataset,
            "split": SPLIT,
            "shard": first // size,
            "first_row": first,
            "num_rows": min(size, num_rows - first),
        }
        for first in range(0, num_rows, size)
    ]
    return list(_units("shards", plan.rows.key, packed, ["rows", "pieces"], specs))


def ledger_units(dataset: str, seals: list[Seal]) -> list[Unit]:
    """A unit a part; a part holds about LEDGER_PART_ROWS rows, of one range of ids."""
    num_rows = sum(output["rows"] for seal in seals for output in outputs_of(seal, "ledger"))
    num_parts = max(1, -(-num_rows // LEDGER_PART_ROWS))
    specs = [{"dataset": dataset, "part": part, "parts": num_parts} for part in range(num_parts)]
    return list(_units("ledger", None, seals, ["ledger"], specs))


def _units(
    phase: str, phase_key: Any, reads: list[Seal], roles: list[str], specs: Iterable[dict[str, Any]]
) -> Iterator[Unit]:
    inputs = digest([output["sha256"] for seal in reads for output in outputs_of(seal, *roles)])
    names = tuple(seal["name"] for seal in reads)
    for spec in specs:
        yield later_unit(phase, phase_key, inputs, names, spec)


def dataset_id(plan: Plan, documents: list[Seal], pack: Seal, tails: Seal) -> str:
    """What the dataset is called, known before it is written.

    A digest of all that its manifest will say and does not depend on how the work was cut: the
    pipeline, every record that was read, the counts, and the packed rows with their provenance.
    """
    sources = [
        {
            "counts": {
                fact: total([seal], fact) % (1 << 64) for fact in ("in", "sent", "counted_only", "tokens", "record_sum")
            }
        }
        | {fact: merged_counts([seal], fact) for fact in ("drops", "quarantined")}
        | {"bytes": byte_counts(source, seal)}
        for source, seal in zip(plan.sources, documents, strict=True)
    ]
    made = [output["sha256"] for seal in (pack, tails) for output in outputs_of(seal, "rows", "pieces")]
    return digest(["curate.dataset/1", plan.rows.key, pipeline(plan), sources, made])


def pipeline(plan: Plan) -> dict[str, Any]:
    """The plan's description without its lists of inputs."""
    sources = [
        {key: value for key, value in source.items() if key != "inputs"} for source in plan.description["sources"]
    ]
    return plan.description | {"sources": sources}


def byte_counts(source: Source, seal: Seal) -> dict[str, int]:
    """`stored`: sizes as listed. `content`: bytes looked at, decompressed where a stream was read; and their kinds."""
    facts = [fact for unit in seal["units"] for fact in unit["facts"]["slices"]]
    counts = {"stored": sum(item.size for item in source.inputs), "content": sum(fact["content"] for fact in facts)}
    names = {"record": "records"}
    return counts | {names.get(kind, kind): sum(fact[kind] for fact in facts) for kind in BYTE_KINDS}


def seal_name(phase: str, units: list[Unit]) -> str:
    """The name of the seal of a phase: what it set out to do."""
    return digest([phase, [unit.key for unit in units]])


def total(seals: Iterable[Seal], fact: str) -> int:
    """The sum of a fact over all units of sealed phases."""
    return sum(unit["facts"][fact] for seal in seals for unit in seal["units"])


def merged_counts(seals: Iterable[Seal], fact: str) -> dict[str, dict[str, int]]:
    """Sums of a fact of the form {stage: {reason: count}}."""
    sums: dict[str, Counter[str]] = {}
    for unit in (unit for seal in seals for unit in seal["units"]):
        for stage, reasons in unit["facts"].get(fact, {}).items():
            sums.setdefault(stage, Counter()).update(reasons)
    return {stage: dict(reasons) for stage, reasons in sums.items()}


def quarantined_of(source: str, documents: Seal, packed: list[Seal]) -> Counter[str]:
    """Quarantined records of a source, by reason."""
    found: Counter[str] = Counter()
    for reasons in merged_counts([documents], "quarantined").values():
        found.update(reasons)
    conflicts = sum(unit["facts"]["conflict_sources"].get(source, 0) for seal in packed for unit in seal["units"])
    if conflicts:
        found["id_conflict"] += conflicts
    return found
