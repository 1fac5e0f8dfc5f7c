"""A pipeline as Python values: the grammar of pipeline.yaml, where `use` may be a class instead of its import path."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from curate.core.errors import PlanError
from curate.plan.build import plan_of
from curate.plan.load import MAX_DEPTH, Items, Place, Scalar, Table, Value
from curate.plan.plan import Plan
from curate.plan.values import PIPELINE


def plan_values(
    pipeline: Mapping[str, Any], *, folder: str | os.PathLike[str] = ".", output: str | None = None
) -> Plan:
    """The plan of what a file with these keys and values would say; relative paths begin at `folder`.

    Errors name a value by its keys (`documents.web.steps[2].min_words`), as there are no lines. Raises PlanError.
    """
    table = _value(pipeline, "", 0)
    if not isinstance(table, Table):
        raise PlanError(f"{PIPELINE} must be a mapping with the keys of pipeline.yaml, not {type(pipeline).__name__}")
    return plan_of(table, "pipeline", Path(os.path.abspath(folder)), output)


def _value(value: Any, keys: str, depth: int) -> Value:
    """What the file would hold."""
    place = Place(keys or PIPELINE, 0)
    if depth > MAX_DEPTH:
        raise place.error(f"nested deeper than {MAX_DEPTH} levels")
    if isinstance(value, Mapping):
        return _table(value, keys, depth)
    if isinstance(value, list | tuple):
        return Items(place, tuple(_value(item, f"{keys}[{i}]", depth + 1) for i, item in enumerate(value)))
    if value is None:
        return Scalar(place, "null", plain=True)
    if isinstance(value, bool | int | float):
        return Scalar(place, repr(value).lower(), plain=True)
    if isinstance(value, type):
        return Scalar(place, _import_path(value, place), plain=True)
    if isinstance(value, str | os.PathLike):
        return Scalar(place, str(os.fspath(value)), plain=False)
    raise place.error(f"a {type(value).__name__} has no form in pipeline.yaml; want texts, numbers, lists and mappings")


def _table(value: Mapping[Any, Any], keys: str, depth: int) -> Table:
    places = {}
    for key in value:
        if not isinstance(key, str):
            raise Place(keys or PIPELINE, 0).error(f"a key must be a text, not {key!r}")
        places[key] = Place(f"{keys}.{key}" if keys else key, 0)
    values = {key: _value(item, places[key].file, depth + 1) for key, item in value.items()}
    return Table(Place(keys or PIPELINE, 0), values, places)


def _import_path(cls: type, place: Place) -> str:
    """How a worker finds the class."""
    path = f"{cls.__module__}.{cls.__qualname__}"
    if cls.__module__ == "__main__" or "<locals>" in path:
        raise place.error(f"{path} cannot be imported by workers; put the class into a module, on its top level")
    return path
