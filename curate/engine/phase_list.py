"""What a run set out to do, phase by phase: written before a phase begins, so that storage alone tells what is missing.

`curate status` reads it, and `curate gc` keeps what it names. No run depends on it.
"""

import json
from collections.abc import Iterable, Iterator
from typing import Any

from curate.core.hashing import canonical_json, digest
from curate.core.storage import Storage

FOLDER = "work/phases"


def record_phase(storage: Storage, plan_id: str, phase: str, unit_keys: Iterable[str]) -> None:
    """Say that a plan's phase has these units. What another version of curate said is replaced."""
    key, body = f"{FOLDER}/{plan_id}/{phase}.json", canonical_json({"phase": phase, "units": list(unit_keys)})
    if storage.put(key, body):
        return
    stored = storage.stat(key)
    if stored is not None and storage.read(key) != body:
        storage.swap(key, body, stored.tag)


def recorded_phases(storage: Storage, plan_id: str) -> Iterator[dict[str, Any]]:
    """{phase, units: keys, seal: its name} of each phase that was begun, the first one first, as far as clocks tell."""
    for stored in sorted(storage.list(f"{FOLDER}/{plan_id}/"), key=lambda one: (one.modified, one.key)):
        phase = json.loads(storage.read(stored.key))
        yield phase | {"seal": digest([phase["phase"], phase["units"]])}
