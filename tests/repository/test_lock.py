"""requirements.lock: complete, pinned, hashed, without addresses, and what these tests run on."""

import ast
import re
import sys
import tomllib
from importlib.metadata import PackageNotFoundError, packages_distributions, version
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

PACKAGES = ("curate", "stages", "classifiers", "manifests")
BROUGHT = {"torch"}  # by trainers, who have their own; manifests/torch_loader.py takes any


@pytest.fixture(scope="module")
def entries(root: Path) -> list[tuple[Requirement, int]]:
    """Each requirement of the lock with the number of its hashes."""
    text = (root / "requirements.lock").read_text("utf-8")
    lines = [line for line in text.replace("\\\n", "").splitlines() if line and not line.startswith("#")]
    return [(Requirement(line.partition("--hash")[0].strip()), line.count("--hash=sha256:")) for line in lines]


@pytest.fixture(scope="module")
def declared(root: Path) -> list[Requirement]:
    """What pyproject.toml asks for, groups included."""
    project = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))
    groups = project["dependency-groups"]
    return [Requirement(text) for text in [*project["project"]["dependencies"], *groups["models"], *groups["dev"]]]


def test_every_entry_is_pinned_and_hashed(entries: list[tuple[Requirement, int]]) -> None:
    assert len(entries) > 50
    for requirement, num_hashes in entries:
        assert re.fullmatch(r"==[^*]+", str(requirement.specifier)), requirement
        assert num_hashes > 0, requirement


def test_it_holds_all_that_the_project_asks_for(
    entries: list[tuple[Requirement, int]], declared: list[Requirement]
) -> None:
    pinned = {canonicalize_name(entry.name): str(entry.specifier).removeprefix("==") for entry, _ in entries}
    for requirement in declared:
        assert requirement.specifier.contains(pinned[canonicalize_name(requirement.name)]), requirement


def test_what_is_imported_is_declared(root: Path) -> None:
    """What comes along with something else may stop coming along."""
    imported = set()
    for package in PACKAGES:
        for path in (root / package).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text("utf-8"))):
                if isinstance(node, ast.Import):
                    imported |= {alias.name.partition(".")[0] for alias in node.names}
                elif isinstance(node, ast.ImportFrom) and node.level == 0:
                    imported.add(str(node.module).partition(".")[0])
    foreign = imported - sys.stdlib_module_names - set(PACKAGES) - BROUGHT
    owners = packages_distributions()
    project = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["project"]
    named = {canonicalize_name(Requirement(text).name) for text in project["dependencies"]}
    assert len(foreign) > 8
    assert {name for name in foreign if not named & {canonicalize_name(owner) for owner in owners[name]}} == set()


def test_nothing_in_it_replaces_the_fasttext_that_trains(entries: list[tuple[Requirement, int]]) -> None:
    names = {canonicalize_name(entry.name) for entry, _ in entries}
    assert {name for name in names if name.startswith("fasttext")} == {"fasttext-community"}


def test_it_names_no_host(root: Path) -> None:
    text = (root / "requirements.lock").read_text("utf-8")
    assert "//" not in text
    assert not re.search(r"^\s*--(?!hash)", text, flags=re.M)


def test_these_tests_run_on_what_it_pins(entries: list[tuple[Requirement, int]]) -> None:
    compared = 0
    for requirement, _ in entries:
        if requirement.marker is None or requirement.marker.evaluate():
            try:
                installed = version(requirement.name)
            except PackageNotFoundError:
                continue
            assert requirement.specifier.contains(installed, prereleases=True), (
                f"{requirement}: {installed} is installed"
            )
            compared += 1
    assert compared > 40
