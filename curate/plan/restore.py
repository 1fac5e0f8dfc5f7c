"""Stages as a manifest describes them, made again: a class by its import path, options from JSON."""

import dataclasses
import types
from collections.abc import Mapping
from typing import Any, Union, get_args, get_origin, get_type_hints

from curate.core.errors import PlanError
from curate.core.stage import Asset
from curate.plan.load import Place, Scalar
from curate.plan.resolve import find_class, identity

Json = dict[str, Any]


def restore_stage(described: Json, assets: Mapping[str, str], **more: Any) -> Any:
    """The stage of a description; `assets` says where files lie, by digest; `more` are options that it leaves out.

    Raises PlanError where the class, an option or a file is not here.
    """
    use = described["use"]
    cls = find_class(Scalar(Place("manifest.json", 0), use, plain=True))
    hints = get_type_hints(cls)
    unknown = sorted(described["options"].keys() - hints.keys())
    if unknown:
        raise PlanError(f"{use} here has no option {unknown[0]!r}; use the version of curate that made the dataset")
    options = {name: _restored(value, hints[name], assets) for name, value in described["options"].items()}
    try:
        return cls(**options, **more)
    except (TypeError, ValueError) as error:
        raise PlanError(f"{use} cannot be made as the manifest describes it: {error}") from error


def difference(described: Json, stage: Any) -> str:
    """In what a stage made again differs from the one that made the dataset: version, library; empty if in nothing."""
    here = identity(described["use"], stage, without=("paths",))
    if here["version"] != described["version"]:
        return f"{described['use']} is version {here['version']} here, {described['version']} made the dataset"
    for name, version in described["libraries"].items():
        if here["libraries"].get(name) != version:
            return f"{name} is {here['libraries'].get(name)} here, {version} made the dataset"
    return ""


def _restored(value: Any, wanted: Any, assets: Mapping[str, str]) -> Any:
    """JSON as the type of a field: the inverse of `curate.plan.values.plain_options`."""
    origin = get_origin(wanted)
    if origin in (Union, types.UnionType):
        inner = [kind for kind in get_args(wanted) if kind is not types.NoneType]
        return None if value is None else _restored(value, inner[0], assets)
    if wanted is Asset:
        if value["sha256"] not in assets:
            raise PlanError(
                f"a file with SHA-256 {value['sha256']} is needed, and no run of this output says where it is"
            )
        return Asset(assets[value["sha256"]], value["sha256"])
    if origin is tuple:
        return tuple(_restored(item, get_args(wanted)[0], assets) for item in value)
    if origin is dict:
        return {name: _restored(item, get_args(wanted)[1], assets) for name, item in value.items()}
    if isinstance(wanted, type) and dataclasses.is_dataclass(wanted):
        hints = get_type_hints(wanted)
        return wanted(**{name: _restored(item, hints[name], assets) for name, item in value.items()})
    return value
