"""What an output holds and nobody needs any more: found first, deleted on demand, receipts before data.

Needed is the dataset that MANIFEST names, whole; what the plan that holds the output has recorded; and
while that plan is unfinished, also the plan before it, whose units it takes over. While a plan is
unfinished somebody may be writing: then datasets stay, and of the rest goes only what is older than
GRACE_SECONDS. Should a run lose data in spite of it, their receipt does not count any more, and the
same command makes them again. Files that are not named as curate names its own are never touched.
"""

import json
import re
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from curate.core.errors import OutputError, PlanError
from curate.core.storage import Storage, Stored, open_storage
from curate.engine.context import seal_key
from curate.engine.output import PLAN, plan_key, read_pointer
from curate.engine.phase_list import FOLDER as PHASES
from curate.engine.phase_list import recorded_phases
from curate.engine.publish import MANIFEST, done_marker
from curate.engine.receipt import receipt_key
from curate.report.status import dataset_pointer
from manifests.shape import Json

GRACE_SECONDS = 24 * 3600.0  # by the times of storage against this machine's clock
TEMPORARY_SECONDS = 3600.0  # nobody writes one file for so long
NUM_THREADS = 16
BATCH = 1000  # files between two looks at PLAN
MAX_NAMED = 1000  # files in the answer; `num_files` counts all
KINDS = ("receipts", "seals", "plans", "data", "datasets", "temporary")  # in the order of deleting

_KIND_OF = (
    ("receipts", re.compile(r"work/receipts/[0-9a-f]{2}/[0-9a-f]{64}\.json")),
    ("seals", re.compile(r"work/seals/[0-9a-f]{64}\.json")),
    ("plans", re.compile(rf"(?:work/plans|work/units|{PHASES})/[0-9a-f]{{64}}[./].+")),
    ("data", re.compile(r"work/data/[0-9a-f]{2}/[0-9a-f]{64}.*")),
    (
        "datasets",
        re.compile(
            r"[0-9a-f]{12}/(?:manifest\.json|exports/.+|[^/]+/(?:rows|docs|cu|part|names)-[0-9]{5}\.[0-9a-f]{64}.*)"
        ),
    ),
)


def gc(url: str, *, delete: bool = False, now: float | None = None) -> Json:
    """`{"plan_id", "finished", "deleted", "num_files", "bytes", "kinds", "files", "spared"}`.

    Without `delete` nothing is changed. "spared": what would go, but for a plan that is unfinished.
    Raises PlanError where no run has begun; OutputError where another plan took the output meanwhile,
    in whose favor the rest is left.
    """
    storage = open_storage(url)
    held = storage.stat(PLAN)
    needed = find_needed(storage)
    now = time.time() if now is None else now
    garbage: dict[str, list[Stored]] = {kind: [] for kind in KINDS}
    spared: list[Stored] = []
    for stored in storage.list():
        kind = kind_of(stored.key)
        if kind is None or needed.has(stored.key):
            continue
        may_go = needed.finished or (kind != "datasets" and now - stored.modified >= GRACE_SECONDS)
        (garbage[kind] if may_go else spared).append(stored)
    garbage["temporary"] = [one for one in storage.list_temporary() if now - one.modified >= TEMPORARY_SECONDS]
    if delete:
        known = needed.receipts - {stored.key for stored in garbage["receipts"]}
        _delete(storage, garbage, known, held)
    files = [one for kind in KINDS for one in garbage[kind]]
    return {
        "plan_id": needed.plan_id,
        "finished": needed.finished,
        "deleted": delete,
        "num_files": len(files),
        "bytes": sum(one.size for one in files),
        "kinds": {kind: _sum(garbage[kind]) for kind in KINDS},
        "files": [{"key": one.key, "bytes": one.size} for one in files[:MAX_NAMED]],
        "spared": _sum(spared),
    }


def kind_of(key: str) -> str | None:
    """The kind of a file that curate wrote; None for others, and for PLAN, MANIFEST and runs/."""
    return next((kind for kind, pattern in _KIND_OF if pattern.fullmatch(key)), None)


@dataclass(kw_only=True)
class Needed:
    """What must stay."""

    plan_id: str | None
    finished: bool
    receipts: set[str] = field(default_factory=set)  # all that there were, needed or not
    keys: set[str] = field(default_factory=set)
    prefixes: tuple[str, ...] = ()

    def has(self, key: str) -> bool:
        """Whether a file must stay."""
        return key in self.keys or key.startswith(self.prefixes)


def find_needed(storage: Storage) -> Needed:
    """What MANIFEST and the plan that holds the output need. Raises PlanError where no run has begun."""
    pointer, dataset = read_pointer(storage), dataset_pointer(storage)
    if pointer is None and dataset is None:
        raise PlanError(f"{storage.url}: expected the output of a run, found neither {PLAN} nor {MANIFEST}")
    plan_id = pointer["plan_id"] if pointer else None
    finished = plan_id is None or (
        dataset is not None and storage.stat(done_marker(plan_id, dataset["dataset_id"])) is not None
    )
    plans = [plan_id] if plan_id else []
    if pointer and pointer["previous"] and not finished:
        plans.append(pointer["previous"])
    needed = Needed(plan_id=plan_id, finished=finished)
    prefixes = [f"work/units/{plan}/" for plan in plans] + [f"{PHASES}/{plan}/" for plan in plans]
    prefixes += [f"work/plans/{plan}." for plan in plans]
    if dataset is not None:
        prefixes.append(dataset["manifest"].rpartition("/")[0] + "/")
        needed.keys |= set(_plans_of(storage, dataset["dataset_id"]))
    needed.prefixes = tuple(prefixes)
    needed.receipts = {stored.key for stored in storage.list("work/receipts/")}
    for plan in plans:
        _need_plan(storage, plan, needed)
    return needed


def _plans_of(storage: Storage, dataset: str) -> Iterator[str]:
    """The plans that gave a dataset: they say where its inputs lay."""
    for stored in storage.list("work/plans/"):
        if stored.key.endswith(f".{dataset}.done"):
            yield stored.key
            yield plan_key(stored.key.removeprefix("work/plans/").partition(".")[0])


def _need_plan(storage: Storage, plan_id: str, needed: Needed) -> None:
    """Seals, receipts and outputs of all phases that a plan has begun."""
    for phase in recorded_phases(storage, plan_id):
        sealed = seal_key(phase["seal"])
        keys = {receipt_key(key) for key in phase["units"]}
        needed.keys |= keys | {sealed}
        if storage.stat(sealed) is not None:
            for receipt in json.loads(storage.read(sealed))["units"]:
                needed.keys |= {receipt_key(receipt["unit"]), *(output["key"] for output in receipt["outputs"])}
        needed.keys |= _outputs(storage, keys & needed.receipts)


def _outputs(storage: Storage, receipts: Iterable[str]) -> set[str]:
    def read(key: str) -> list[str]:
        return [output["key"] for output in json.loads(storage.read(key))["outputs"]]

    with ThreadPoolExecutor(NUM_THREADS) as threads:
        return {key for keys in threads.map(read, receipts) for key in keys}


def _delete(storage: Storage, garbage: dict[str, list[Stored]], known: set[str], held: Stored | None) -> None:
    """Kind after kind. Before data go, receipts that came meanwhile are asked what they need."""
    for kind in KINDS:
        keys = [stored.key for stored in garbage[kind]]
        if kind in ("data", "datasets") and keys:
            fresh = _outputs(storage, {stored.key for stored in storage.list("work/receipts/")} - known)
            garbage[kind] = [stored for stored in garbage[kind] if stored.key not in fresh]
            keys = [stored.key for stored in garbage[kind]]
        for first in range(0, len(keys), BATCH):
            if storage.stat(PLAN) != held:
                raise OutputError(
                    f"{storage.url}: another plan took this output meanwhile; run gc again once it is done"
                )
            with ThreadPoolExecutor(NUM_THREADS) as threads:
                list(threads.map(storage.delete, keys[first : first + BATCH]))


def _sum(files: list[Stored]) -> Json:
    return {"files": len(files), "bytes": sum(one.size for one in files)}


def as_text(found: Json) -> str:
    """What was found, for a terminal."""
    lines = [
        f"{kind}: {counts['files']} files, {counts['bytes']:,} bytes"
        for kind, counts in found["kinds"].items()
        if counts["files"]
    ]
    folders = sorted({one["key"].partition("/")[0] for one in found["files"] if kind_of(one["key"]) == "datasets"})
    lines += [f"dataset {folder} is not the one that MANIFEST names" for folder in folders]
    if found["spared"]["files"]:
        lines.append(
            f"plan {found['plan_id'][:12]} is unfinished: {found['spared']['files']} files more, "
            f"{found['spared']['bytes']:,} bytes, stay until it is done, or are older than a day"
        )
    total = f"{found['num_files']} files, {found['bytes']:,} bytes"
    if not found["num_files"]:
        return "\n".join([*lines, "nothing to delete"])
    return "\n".join([*lines, f"deleted {total}" if found["deleted"] else f"{total} can go; --delete does it"])
