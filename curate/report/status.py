"""How far a run is, from storage alone: while it runs, after it was stopped, after it ended."""

import json
import time
from collections.abc import Iterator
from typing import Any

from curate.core.errors import PlanError
from curate.core.storage import NotFound, Storage, Stored, open_storage
from curate.engine.context import seal_key
from curate.engine.output import read_plan, read_pointer
from curate.engine.phase_list import recorded_phases
from curate.engine.progress import BEGIN
from curate.engine.publish import MANIFEST, done_marker
from curate.engine.receipt import receipt_key
from manifests.manifest import POINTER
from manifests.shape import Json

MAX_MISSING = 20  # unit keys that are named; `num_missing` counts all
MAX_RUNS = 10  # the newest; `num_runs` counts all
WAY = {"done": "done", "failed": "failed", "waiting": "waits for other jobs", "stopped": "stopped"}


def status(url: str) -> Json:
    """`{"state", "plan_id", "dataset_id", "phases", "num_missing", "missing", "last_receipt", "runs", ...}`.

    "state": `done` (MANIFEST names the dataset of this plan), else what the newest run came to: `failed`,
    `waiting`, `stopped`, or `running` where it has not said that it ended, which a killed one never
    does: then look at the age of `last_receipt`. "phases" are those that were begun, in order: phase,
    units, done, sealed; those behind them are known once they end. "missing": unit keys without receipt.
    Raises PlanError where no run has begun.
    """
    storage = open_storage(url)
    pointer, published = read_pointer(storage), dataset_pointer(storage)
    dataset = published["dataset_id"] if published else None
    if pointer is None:
        if dataset is None:
            raise PlanError(f"{url}: expected the output of a run, found neither PLAN nor MANIFEST")
        return _answer(None, dataset, "done", [], [], None, [])
    plan_id = pointer["plan_id"]
    is_done = dataset is not None and storage.stat(done_marker(plan_id, dataset)) is not None
    receipts = {stored.key: stored for stored in storage.list("work/receipts/")}
    seals = {stored.key for stored in storage.list("work/seals/")}
    phases, missing = [], []
    names: dict[str, str] = {}
    for phase in recorded_phases(storage, plan_id):
        is_sealed = seal_key(phase["seal"]) in seals
        left = [] if is_sealed else [key for key in phase["units"] if receipt_key(key) not in receipts]
        missing += left
        names |= dict.fromkeys(map(receipt_key, phase["units"]), phase["phase"])
        num_units = len(phase["units"])
        done = {"units": num_units, "done": num_units - len(left), "sealed": is_sealed}
        phases.append({"phase": phase["phase"]} | done)
    runs = sorted(_runs(storage, plan_id), key=lambda run: run["started"], reverse=True)
    state = "done" if is_done else runs[0]["status"] if runs else "stopped"
    there = [receipts[key] for key in reversed(names) if key in receipts]  # S3 counts seconds: the later phase then
    last = max(there, key=lambda one: one.modified, default=None)
    found = _answer(plan_id, dataset if is_done else None, state, phases, missing, _receipt(last, names), runs)
    return found | {"sources": [one["name"] for one in read_plan(storage, plan_id)["description"]["sources"]]}


def _answer(
    plan_id: str | None, dataset: str | None, state: str, phases: list[Json], missing: list[str], last: Any, runs: Any
) -> Json:
    return {
        "state": state,
        "plan_id": plan_id,
        "dataset_id": dataset,
        "phases": phases,
        "num_missing": len(missing),
        "missing": missing[:MAX_MISSING],
        "last_receipt": last,
        "num_runs": len(runs),
        "runs": runs[:MAX_RUNS],
    }


def dataset_pointer(storage: Storage) -> Json | None:
    """What MANIFEST says, {dataset_id, manifest}, or None. Raises PlanError where it is damaged."""
    try:
        pointer = json.loads(storage.read(MANIFEST))
        return {name: str(pointer[name]) for name in ("dataset_id", "manifest")}
    except NotFound:
        return None
    except (ValueError, KeyError, TypeError):
        raise PlanError(f"{storage.url}/{POINTER} is damaged, or not curate's") from None


def _receipt(stored: Stored | None, names: dict[str, str]) -> Json | None:
    if stored is None:
        return None
    unit = stored.key.rpartition("/")[2].removesuffix(".json")
    return {"unit": unit, "phase": names[stored.key], "modified": stored.modified}


def _runs(storage: Storage, plan_id: str) -> Iterator[Json]:
    """The runs of a plan: when they began and, where they could say it, how they ended."""
    keys = {stored.key for stored in storage.list("runs/")}
    for key in sorted(keys):
        if not key.endswith(BEGIN):
            continue
        begun = json.loads(storage.read(key))
        if begun["plan_id"] != plan_id:
            continue
        run = {"started": begun["started"], "host": begun["host"], "status": "running", "seconds": None, "error": None}
        end = key.removesuffix(BEGIN) + ".json"
        if end in keys:
            run |= {name: value for name, value in json.loads(storage.read(end)).items() if name in run}
        yield run


def as_text(found: Json) -> str:
    """A status for a terminal."""
    name = found["plan_id"][:12] if found["plan_id"] else "unknown"
    lines = [f"plan {name}: {WAY.get(found['state'], 'running, or killed without a word')}"]
    if found["dataset_id"]:
        lines.append(f"dataset {found['dataset_id'][:12]} is there")
    width = max((len(phase["phase"]) for phase in found["phases"]), default=0)
    for phase in found["phases"]:
        words = "sealed" if phase["sealed"] else f"{phase['units'] - phase['done']} missing"
        lines.append(f"  {phase['phase'].ljust(width)}  {phase['done']} of {phase['units']} units, {words}")
    if found["state"] != "done":
        lines.append(f"{found['num_missing']} units of these phases are missing; later phases are known once these end")
    if found["last_receipt"]:
        last = found["last_receipt"]
        age = max(0.0, time.time() - last["modified"])
        lines.append(f"last receipt: {last['phase']}, {_moment(last['modified'])}, {age:.0f} s ago by this clock")
    for run in found["runs"]:
        ended = f"{WAY.get(run['status'], 'has not said that it ended')}"
        seconds = f" after {run['seconds']:.0f} s" if run["seconds"] is not None else ""
        error = f": {' '.join(run['error'].split())[:200]}" if run["error"] else ""
        lines.append(f"run of {_moment(run['started'])} on {run['host']}: {ended}{seconds}{error}")
    if found["num_runs"] > len(found["runs"]):
        lines.append(f"and {found['num_runs'] - len(found['runs'])} runs before these")
    return "\n".join(lines)


def _moment(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(seconds))
