"""What must be equal on every node of a cluster: another version or another model would give other bytes."""

import dataclasses
import hashlib
import importlib.metadata
import platform
import unicodedata
from collections.abc import Iterable, Iterator
from typing import Any

from curate import __version__
from curate.core.errors import PlanError
from curate.core.stage import Asset
from curate.installed import check_installation
from curate.plan.plan import Plan

ENGINE_LIBRARIES = ("numpy", "pyarrow")  # they make the bytes of every file that a unit writes


@dataclasses.dataclass(frozen=True, kw_only=True)
class Expected:
    """What the driver has. It can be read without the modules that the plan's stages lie in."""

    versions: dict[str, str]
    assets: tuple[Asset, ...]


def expected_of(plan: Plan) -> Expected:
    """What a node must have to run `plan` as this process would."""
    return Expected(
        versions=versions_of([*ENGINE_LIBRARIES, *libraries_of(plan.description)]),
        assets=assets_of_plan(plan),
    )


def check_node(expected: Expected) -> None:
    """Raise PlanError, one sentence, for the first thing that this node has not, or has otherwise."""
    where = f"node {platform.node()}"
    found = versions_of(expected.versions)
    for name, version in expected.versions.items():
        if found[name] != version:
            raise PlanError(
                f"{where} has {name} {found[name]}, the driver {version}; install the same versions on all nodes"
            )
    try:
        check_installation()
    except PlanError as error:
        raise PlanError(f"{where}: {error}") from None
    for asset in expected.assets:
        if _sha256(asset.location) != asset.sha256:
            raise PlanError(
                f"{where} has another file at {asset.location}, or none; put the driver's there, or use a shared folder"
            )


def versions_of(libraries: Iterable[str]) -> dict[str, str]:
    """The versions of curate, Python, its Unicode tables and these distributions here, and the kind of machine."""
    versions = {
        "curate": __version__,
        "python": platform.python_version(),
        "unicode": unicodedata.unidata_version,  # keys name it as a library
        "machine": platform.machine(),
    }
    for name in sorted(set(libraries) - versions.keys()):
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            versions[name] = "(not installed)"
    return versions


def libraries_of(description: Any) -> Iterator[str]:
    """The distributions whose versions enter keys, found in a plan's description."""
    if isinstance(description, dict):
        yield from description.get("libraries", ())
        for value in description.values():
            yield from libraries_of(value)
    elif isinstance(description, list):
        for item in description:
            yield from libraries_of(item)


def assets_of_plan(plan: Plan) -> tuple[Asset, ...]:
    """All files that a plan loads, by location."""
    stages = [stage for one in plan.sources for stage in (one.reader, *(step.stage for step in one.steps))]
    assets = {plan.rows.tokenizer, *(asset for stage in stages for asset in assets_of(stage))}
    return tuple(sorted(assets, key=lambda asset: asset.location))


def assets_of(value: Any) -> Iterator[Asset]:
    """The files that a stage loads, found in its options."""
    if isinstance(value, Asset):
        yield value
    elif isinstance(value, tuple):
        for item in value:
            yield from assets_of(item)
    elif dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            yield from assets_of(getattr(value, field.name))


def _sha256(path: str) -> str | None:
    try:
        with open(path, "rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError:
        return None
