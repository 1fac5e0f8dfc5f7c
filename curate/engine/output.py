"""Whose output it is: the `PLAN` pointer, and what changed between two plans."""

import json
from collections.abc import Iterator
from typing import Any

from curate.core.errors import OutputError
from curate.core.hashing import canonical_json
from curate.core.storage import Storage
from curate.plan.plan import Plan

PLAN = "PLAN"


def previous_plan(storage: Storage) -> dict[str, Any] | None:
    """The plan that holds the output, {plan_id, description}, or None for a fresh output."""
    if storage.stat(PLAN) is None:
        return None
    pointer = json.loads(storage.read(PLAN))
    previous: dict[str, Any] = json.loads(storage.read(f"work/plans/{pointer['plan_id']}.json"))
    return previous


def claim(storage: Storage, plan: Plan, replace: bool) -> dict[str, Any] | None:
    """Make the output this plan's; returns the plan that held it before, if another.

    Raises OutputError (nothing was done) where another plan holds it and `replace` is false.
    """
    stored = storage.stat(PLAN)
    previous = previous_plan(storage)
    if previous is not None and previous["plan_id"] == plan.plan_id:
        return None
    if previous is not None and not replace:
        raise OutputError(
            f"{plan.output} belongs to another plan: {explain_change(previous, plan)}; --replace gives it to this one"
        )
    body = canonical_json({"plan_id": plan.plan_id, "description": plan.description})
    storage.put(f"work/plans/{plan.plan_id}.json", body)
    if not storage.swap(PLAN, canonical_json({"plan_id": plan.plan_id}), stored.tag if stored else None):
        return claim(storage, plan, replace)
    return previous


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
