"""Whose output it is: the `PLAN` pointer, and what changed between two plans."""

import json
from collections.abc import Iterator
from typing import Any

from curate.core.errors import OutputError
from curate.core.hashing import canonical_json
from curate.core.storage import NotFound, Storage
from curate.engine.crash import crash_point
from curate.engine.receipt import put_named
from curate.plan.plan import Plan

PLAN = "PLAN"


def previous_plan(storage: Storage) -> dict[str, Any] | None:
    """The plan that holds the output, {plan_id, description}, or None for a fresh output."""
    pointer = read_pointer(storage)
    return None if pointer is None else read_plan(storage, pointer["plan_id"])


def claim(storage: Storage, plan: Plan, replace: bool) -> dict[str, Any] | None:
    """Make the output this plan's; returns the plan that held it before, if another: its units may be reused.

    Any number of jobs may claim it at once, and a run that goes on gets the same answer as the first.
    Raises OutputError (nothing was done) where another plan holds it and `replace` is false.
    """
    crash_point("plan.before-claim")
    while True:
        stored = storage.stat(PLAN)  # before the plan is read: if it changes after this, the swap fails
        pointer = read_pointer(storage)
        if pointer is not None and pointer["plan_id"] == plan.plan_id:
            return read_plan(storage, pointer["previous"]) if pointer["previous"] else None
        previous = None if pointer is None else read_plan(storage, pointer["plan_id"])
        if previous is not None and not replace:
            change = explain_change(previous, plan)
            raise OutputError(f"{plan.output} belongs to another plan: {change}; --replace gives it to this one")
        description = {"plan_id": plan.plan_id, "description": plan.description}
        put_named(storage, plan_key(plan.plan_id), canonical_json(description))
        crash_point("plan.after-plan-put")
        body = canonical_json({"plan_id": plan.plan_id, "previous": previous["plan_id"] if previous else None})
        if storage.swap(PLAN, body, stored.tag if stored else None):
            crash_point("plan.after-claim")
            return previous


def check_claim(storage: Storage, plan: Plan) -> None:
    """Raise OutputError if the output is no longer this plan's."""
    pointer = read_pointer(storage)
    if pointer is None or pointer["plan_id"] != plan.plan_id:
        raise OutputError(f"{plan.output} was given to another plan while this one ran; --replace takes it back")


def read_pointer(storage: Storage) -> dict[str, Any] | None:
    """What `PLAN` says: {plan_id, previous: the id of the plan that held the output before, or None}."""
    try:
        pointer: dict[str, Any] = json.loads(storage.read(PLAN))
        return {"plan_id": pointer["plan_id"], "previous": pointer["previous"]}
    except NotFound:
        return None
    except (ValueError, KeyError, TypeError):
        where = f"{storage.url}/{PLAN}"
        raise OutputError(f"{where} is damaged, or not curate's; remove it, or use another output") from None


def read_plan(storage: Storage, plan_id: str) -> dict[str, Any]:
    """{plan_id, description} of a plan that once held the output."""
    plan: dict[str, Any] = json.loads(storage.read(plan_key(plan_id)))
    return plan


def plan_key(plan_id: str) -> str:
    """Where the description of a plan lies; the name is its digest."""
    return f"work/plans/{plan_id}.json"


def explain_change(previous: dict[str, Any], plan: Plan, max_changes: int = 3) -> str:
    """The first differences between the plan that holds an output and this one."""
    changes = list(differences(previous["description"], plan.description, ""))
    more = f" and {len(changes) - max_changes} more" if len(changes) > max_changes else ""
    return "; ".join(changes[:max_changes]) + more


def differences(old: Any, new: Any, where: str) -> Iterator[str]:
    """Differences of two JSON values, each in words, at a dotted path."""
    if old == new:
        return
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted(old.keys() | new.keys()):
            yield from differences(old.get(key), new.get(key), f"{where}.{key}" if where else key)
    elif isinstance(old, list) and isinstance(new, list) and old and not isinstance(old[0], dict | list):
        yield f"{where} changed"  # an input: its size, or when it was written
    elif isinstance(old, list) and isinstance(new, list):
        yield from _list_differences(old, new, where)
    else:
        yield f"{where}: {_short(old)} -> {_short(new)}"


def _list_differences(old: list[Any], new: list[Any], where: str) -> Iterator[str]:
    """Items are matched by their name (or first element), else by position."""
    one, other = ({_label(item, index): item for index, item in enumerate(items)} for items in (old, new))
    for label in sorted(one.keys() - other.keys()):
        yield f"{where}: {label} removed"
    for label in sorted(other.keys() - one.keys()):
        yield f"{where}: {label} added"
    for label in sorted(one.keys() & other.keys()):
        yield from differences(one[label], other[label], f"{where}.{label}")
    if list(one) != list(other) and one.keys() == other.keys():
        yield f"{where}: order changed"


def _label(item: Any, index: int) -> str:
    if isinstance(item, dict) and "name" in item:
        return str(item["name"])
    return str(item[0]) if isinstance(item, list) and item else str(index)


def _short(value: Any) -> str:
    text = json.dumps(value, sort_keys=True)
    return text if len(text) <= 60 else text[:57] + "..."
