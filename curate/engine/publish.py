"""The manifest: built from the seals alone, balanced, and put last."""

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from curate.core.errors import BalanceError, OutputError
from curate.core.hashing import canonical_json, sha256
from curate.core.storage import Storage
from curate.engine.context import Context, Seal
from curate.engine.crash import crash_point
from curate.engine.exports import exports_of, finish_exports
from curate.engine.output import check_claim
from curate.engine.phases import allocation, byte_counts, merged_counts, pipeline, split_names, total
from curate.plan.plan import Plan, step_name
from manifests.layout import split_digest
from manifests.sums import FATES, broken_sums, sum_rules

MANIFEST = "MANIFEST"


def finished_manifest(storage: Storage, plan: Plan) -> str | None:
    """The key of the manifest, if the output already holds the dataset of this plan."""
    if storage.stat(MANIFEST) is None:
        return None
    try:
        pointer = json.loads(storage.read(MANIFEST))
        dataset = pointer["dataset_id"]
    except (ValueError, KeyError, TypeError):
        where = f"{storage.url}/{MANIFEST}"
        raise OutputError(f"{where} is damaged, or not curate's; remove it, or use another output") from None
    return pointer["manifest"] if storage.stat(done_key(plan, dataset)) is not None else None


def done_key(plan: Plan, dataset: str) -> str:
    """Says that a plan gave a dataset. Plans that differ only in where inputs lie give the same one."""
    return done_marker(plan.plan_id, dataset)


def done_marker(plan_id: str, dataset: str) -> str:
    """The same, from the id of a plan."""
    return f"work/plans/{plan_id}.{dataset}.done"


@dataclass(frozen=True, kw_only=True)
class Sealed:
    """The seals of a run: passes by source, and the later phases."""

    passes: dict[str, list[Seal]]
    pack: Seal
    tails: Seal
    shards: Seal
    hf: Seal
    ledger: Seal
    names: Seal

    @property
    def all_passes(self) -> list[Seal]:
        """The passes of all sources."""
        return [seal for seals in self.passes.values() for seal in seals]

    @property
    def read(self) -> list[Seal]:
        """The first pass of each source."""
        return [seals[0] for seals in self.passes.values()]

    @property
    def shuffled(self) -> list[Seal]:
        """The last pass of each source."""
        return [seals[-1] for seals in self.passes.values()]


def publish(context: Context, dataset: str, sealed: Sealed) -> dict[str, Any]:
    """Put `manifest.json` and move `MANIFEST` to it; returns the manifest. Raises BalanceError."""
    manifest = build(context.plan, dataset, sealed)
    check_sums(manifest)
    finish_exports(context.storage, dataset, manifest["exports"])
    put_manifest(context.storage, context.plan, dataset, manifest)
    return manifest


def put_manifest(storage: Storage, plan: Plan, dataset: str, manifest: dict[str, Any]) -> None:
    """Put `manifest.json`, move `MANIFEST` to it, and say that the plan is done. Every job of a plan may do it."""
    body = canonical_json(manifest)
    key = f"{dataset[:12]}/manifest.json"
    crash_point("manifest.before-manifest")
    if not storage.put(key, body) and storage.read(key) != body:
        raise OutputError(f"{plan.output}/{key} is there with other content; was it made by another version of curate?")
    pointer = canonical_json({"dataset_id": dataset, "manifest": key, "sha256": sha256(body)})
    crash_point("manifest.after-manifest-before-pointer")
    move_pointer(storage, plan, pointer)
    crash_point("manifest.after-pointer-before-done")
    storage.put(done_key(plan, dataset), b"{}")


def move_pointer(storage: Storage, plan: Plan, pointer: bytes) -> None:
    """Let `MANIFEST` name this dataset, unless another job has done it. Raises OutputError if the plan was replaced."""
    while True:
        stored = storage.stat(MANIFEST)
        if stored is not None and storage.read(MANIFEST) == pointer:
            return
        check_claim(storage, plan)  # after the stat: a plan that takes the output later than this also publishes later
        if storage.swap(MANIFEST, pointer, stored.tag if stored else None):
            return


def check_sums(manifest: dict[str, Any]) -> None:
    """Raise BalanceError where a sum rule does not hold."""
    broken = list(broken_sums(manifest, manifest["sums"]))
    if broken:
        raise BalanceError("; ".join(broken))


def build(plan: Plan, dataset: str, sealed: Sealed) -> dict[str, Any]:
    """The manifest as a value. No time, host or path is in it."""
    rows = plan.rows
    seals = [*sealed.all_passes, sealed.pack, sealed.ledger]
    return {
        "schema": "curate.dataset/1",
        "dataset_id": dataset,
        "seed": plan.seed,
        "format": _format(plan),
        "tokenizer": {
            "name": rows.tokenizer_name,
            "sha256": rows.tokenizer.sha256,
            "vocab_size": rows.vocab_size,
            "bos_id": rows.bos_id,
            "eos_id": rows.eos_id,
            "probe_sha256": rows.probe_sha256,
        },
        "splits": {name: _split(plan, name, sealed) for name in split_names(plan)},
        "records": _records(plan, sealed),
        "drops": merged_counts(seals, "drops"),
        "merged": merged_counts(seals, "merged"),
        "quarantined": merged_counts(seals, "quarantined"),
        "counted_only": total(sealed.read, "counted_only"),
        "bytes": _bytes(plan, sealed),
        "tokens": _tokens(plan, sealed),
        "ledger": {
            "rows": total([sealed.ledger], "rows"),
            "parts": [_ledger_part(unit) for unit in sealed.ledger["units"]],
        },
        "names": {
            "rows": total([sealed.names], "rows"),
            "parts": [_names_part(unit) for unit in sealed.names["units"]],
        },
        "exports": exports_of(plan, dataset, sealed.hf),
        "pipeline": pipeline(plan),
        "sums": sum_rules(),
    }


def _tokens(plan: Plan, sealed: Sealed) -> dict[str, int]:
    """Tokens that were sent to the shuffle, by what became of them; `repeated` are those of later epochs."""
    mixes = [allocation(plan, split, [sealed.pack, sealed.tails]) for split in split_names(plan)]
    pairs = [pair for mix in mixes for pair in zip(mix.available, mix.places, strict=True)]
    rows = {
        "in_rows": sum(min(available, places) for available, places in pairs),
        "not_needed": sum(max(0, available - places) for available, places in pairs),
        "repeated": sum(max(0, places - available) for available, places in pairs),
    }
    return {name: count * plan.rows.length for name, count in rows.items()} | {
        "sent": total(sealed.shuffled, "tokens"),
        "tail": total([sealed.tails], "tail_tokens"),
        "merged": total([sealed.pack], "merged_tokens"),
        "quarantined": total([sealed.pack], "quarantined_tokens"),
    }


def _format(plan: Plan) -> dict[str, Any]:
    rows = plan.rows
    return {
        "kind": "rows",
        "dtype": rows.dtype,
        "row_length": rows.length,
        "rows_per_shard": rows.per_shard,
        "packing": step_name(rows.packing),
        "padding": "none",
        "bos": rows.bos,
        "eos": rows.eos,
    }


def _split(plan: Plan, name: str, sealed: Sealed) -> dict[str, Any]:
    entries = [_shard(unit) for unit in sealed.shards["units"] if unit["spec"]["split"] == name]
    digests = [entry["rows"]["sha256"] for entry in entries]
    logical = [bytes.fromhex(entry["docs"]["logical"]) for entry in entries]
    maps = ("rows_by_group", "tokens_by_source", "tokens_by_license")
    return {
        "rows": sum(entry["num_rows"] for entry in entries),
        "tokens": sum(entry["tokens"] for entry in entries),
        "documents": sum(unit["facts"]["kept"].get(name, 0) for unit in sealed.ledger["units"]),
        "digest": split_digest(_format(plan), plan.rows.tokenizer.sha256, digests, logical),
        **{one: _sum_maps(entry[one] for entry in entries) for one in maps},
        "shards": entries,
    }


def _shard(unit: dict[str, Any]) -> dict[str, Any]:
    facts = dict(unit["facts"])
    logical = facts.pop("logical")
    entry = facts | {role: _file(unit, role) for role in ("rows", "docs", "cu")}
    entry["docs"]["logical"] = logical
    return entry


def _file(unit: dict[str, Any], role: str) -> dict[str, Any]:
    output = next(output for output in unit["outputs"] if output["role"] == role)
    return {"key": output["key"].split("/", 1)[1], "bytes": output["bytes"], "sha256": output["sha256"]}


def _ledger_part(unit: dict[str, Any]) -> dict[str, Any]:
    facts = unit["facts"]
    return _file(unit, "ledger") | {name: facts.get(name) for name in ("rows", "first_id", "last_id")}


def _names_part(unit: dict[str, Any]) -> dict[str, Any]:
    facts = unit["facts"]
    return _file(unit, "index") | {name: facts.get(name) for name in ("rows", "first_key", "last_key")}


def _sum_maps(maps: Iterable[dict[str, int]]) -> dict[str, int]:
    counter: Counter[str] = Counter()
    for one in maps:
        counter.update(one)
    return dict(counter)


def _records(plan: Plan, sealed: Sealed) -> dict[str, Any]:
    """Records by fate. `in` is the readers' count; the fates are the ledger's, and the readers' counted drops."""
    by_source: dict[str, dict[str, int]] = {}
    for source, seal in zip(plan.sources, sealed.read, strict=True):
        fates: Counter[str] = Counter(dropped=total([seal], "counted_only"))
        for unit in sealed.ledger["units"]:
            fates.update(unit["facts"]["fates"].get(source.name, {}))
        by_source[source.name] = {"in": total([seal], "in")} | {fate: fates[fate] for fate in FATES}
    sums = {name: sum(counts[name] for counts in by_source.values()) for name in ("in", *FATES)}
    return sums | {"by_source": by_source}


def _bytes(plan: Plan, sealed: Sealed) -> dict[str, Any]:
    pairs = zip(plan.sources, sealed.read, strict=True)
    by_source = {source.name: byte_counts(source, seal) for source, seal in pairs}
    names = ("stored", "content", "records", "framing", "skipped", "lost")
    return {name: sum(counts[name] for counts in by_source.values()) for name in names} | {"by_source": by_source}
