"""Receipts: what an attempt made, committed so that only one outcome of a unit can ever count.

Data are put first, under names made of their content; the receipt is put last, if absent, under
its unit's key. An attempt that finds a receipt already there compares: equal is fine, another is
a stage that is not deterministic. Receipts hold no time, host or attempt.
"""

import json
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from curate.core.errors import StageError, StorageError
from curate.core.hashing import canonical_json, sha256
from curate.core.storage import NotFound, Storage
from curate.engine.crash import crash_point
from curate.engine.units import Unit

Receipt = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Artifact:
    """Bytes that an attempt made. `place` is the key before the hash; None: working data."""

    role: str
    data: bytes | memoryview
    rows: int
    suffix: str = ""
    place: str | None = None
    notes: dict[str, int] = field(default_factory=dict)  # smallest and largest key of sorted rows

    def output(self) -> dict[str, Any]:
        """How the receipt names it."""
        digest = sha256(self.data)
        stem = self.place if self.place is not None else f"work/data/{digest[:2]}/"
        return {
            "role": self.role,
            "key": f"{stem}{digest}{self.suffix}",
            "bytes": len(self.data),
            "sha256": digest,
            "rows": self.rows,
        } | self.notes


@dataclass(frozen=True)
class Written:
    """An artifact that is in storage already, so that nobody holds it; `output` is how the receipt names it."""

    output: dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Result:
    """What a task returns: artifacts, and facts that are a function of the unit alone."""

    artifacts: Sequence[Artifact | Written] = ()
    facts: dict[str, Any] = field(default_factory=dict)


def receipt_key(unit_key: str) -> str:
    """Where the receipt of a unit lies. The first digits spread the keys."""
    return f"work/receipts/{unit_key[:2]}/{unit_key}.json"


def commit(storage: Storage, unit: Unit, result: Result) -> Receipt:
    """Put the data, then the receipt. Raises StageError where another attempt made something else."""
    outputs: list[dict[str, Any]] = []
    crash_point("unit.before-first-output")
    for artifact in result.artifacts:
        if outputs:
            crash_point("unit.between-outputs")
        written = artifact if isinstance(artifact, Written) else write(storage, artifact)
        outputs.append(written.output)
    receipt = {"unit": unit.key, "phase": unit.phase, "spec": unit.spec, "outputs": outputs, "facts": result.facts}
    body = canonical_json(receipt)
    key = receipt_key(unit.key)
    crash_point("unit.after-data-before-receipt")
    if not storage.put(key, body):
        other = storage.read(key)
        if other != body:
            raise StageError(
                f"{unit.phase}: two attempts at one unit differ: {first_difference(json.loads(other), receipt)}"
            )
    crash_point("unit.after-receipt-before-return")
    return receipt


def write(storage: Storage, artifact: Artifact) -> Written:
    """Put an artifact, also before its attempt is done: without a receipt it does not count."""
    output = artifact.output()
    put_named(storage, output["key"], artifact.data)
    return Written(output)


def put_named(storage: Storage, key: str, data: bytes | memoryview) -> None:
    """Put bytes under a name made of their content; equal bytes there already are fine."""
    if storage.put(key, data):
        return
    found = storage.stat(key)
    if found is None or found.size != len(data):
        raise StorageError(
            f"{storage.url}/{key}: holds {found.size if found else 0} bytes, wanted {len(data)}; remove it"
        )


def first_difference(one: Receipt, other: Receipt) -> str:
    """The first step whose output differs between two receipts of one unit, in words."""
    for mine, theirs in zip(one["facts"].get("steps", []), other["facts"].get("steps", []), strict=False):
        if mine != theirs:
            return f"step {mine['name']!r} ({mine['use']}) is not deterministic"
    for name in ("facts", "outputs"):
        if one[name] != other[name]:
            return f"their {name} differ although every step agrees"
    return "they were written by different versions of curate"


def load_receipts(storage: Storage, units: Iterable[Unit], num_threads: int = 16) -> dict[str, Receipt]:
    """The receipts that count, by unit key: present, and all their outputs exist with their sizes.

    One listing tells which are worth reading. It only hints: a receipt it misses is made again.
    """
    listed = {stored.key for stored in storage.list("work/receipts/")}
    wanted = [unit.key for unit in units if receipt_key(unit.key) in listed]
    if not wanted:
        return {}
    sizes = data_sizes(storage)

    def load(key: str) -> Receipt | None:
        receipt: Receipt = json.loads(storage.read(receipt_key(key)))
        return receipt if outputs_exist(storage, [receipt], sizes) else None

    with ThreadPoolExecutor(num_threads) as threads:
        found = zip(wanted, threads.map(load, wanted), strict=True)
        return {key: receipt for key, receipt in found if receipt is not None}


def find_receipt(storage: Storage, unit: Unit) -> Receipt | None:
    """The receipt of one unit if it counts, asked for without a listing."""
    try:
        receipt: Receipt = json.loads(storage.read(receipt_key(unit.key)))
    except NotFound:
        return None
    return receipt if outputs_exist(storage, [receipt], {}) else None


def data_sizes(storage: Storage) -> dict[str, int]:
    """Bytes by key of the working data, from a listing: it may be behind."""
    return {stored.key: stored.size for stored in storage.list("work/data/")}


def outputs_exist(storage: Storage, receipts: Iterable[Receipt], sizes: dict[str, int] | None = None) -> bool:
    """Whether all outputs of `receipts` are there with their sizes. What a listing does not show is asked for."""
    known = data_sizes(storage) if sizes is None else sizes
    for output in (output for receipt in receipts for output in receipt["outputs"]):
        if known.get(output["key"]) == output["bytes"]:
            continue
        stored = storage.stat(output["key"])
        if stored is None or stored.size != output["bytes"]:
            return False
    return True
