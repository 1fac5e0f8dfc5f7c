"""`curate` does not start beside packages that only share the names of its own."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("curate", "stages", "classifiers", "manifests")
ADVICE = "; remove or rename the other one, then reinstall curate-engine\n"


def start(*path: Path) -> tuple[int, str]:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, path))}
    command = [sys.executable, "-P", "-m", "curate", "--version"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    return done.returncode, done.stderr


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """An installation of its own."""
    for name in PACKAGES:
        shutil.copytree(ROOT / name, tmp_path / "site" / name, ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path / "site"


def package(folder: Path, name: str, text: str) -> Path:
    path = folder / name / "__init__.py"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def sentence(name: str, site: Path, found: str) -> tuple[int, str]:
    return 2, f"the package {name!r} is not the one of curate 0.1.0 in {site}: {found}{ADVICE}"


def test_ours(site: Path) -> None:
    assert start(site) == (0, "")


def test_overwritten_by_another_distribution(site: Path) -> None:
    stranger = package(site, "stages", "__version__ = '3.0'\n")
    assert start(site) == sentence("stages", site, f"it is {stranger}")


def test_overwritten_by_another_version(site: Path) -> None:
    stranger = package(site, "manifests", "CURATE_VERSION = '0.0.9'\n")
    assert start(site) == sentence("manifests", site, f"it is {stranger}")


def test_hidden_by_a_local_folder(site: Path, tmp_path: Path) -> None:
    stranger = package(tmp_path / "mine", "classifiers", "")
    assert start(tmp_path / "mine", site) == sentence("classifiers", site, f"it is {stranger}")


def test_hidden_by_a_working_folder_with_an_old_copy_of_ours(site: Path, tmp_path: Path) -> None:
    stranger = package(tmp_path / "job", "stages", (ROOT / "stages" / "__init__.py").read_text())
    assert start(tmp_path / "job", site) == sentence("stages", site, f"it is {stranger}")


def test_a_stranger_that_cannot_be_imported(site: Path) -> None:
    package(site, "stages", "raise ValueError('two\\nlines')\n")
    assert start(site) == sentence("stages", site, "it cannot be imported (ValueError: two lines)")


def test_missing(site: Path) -> None:
    shutil.rmtree(site / "manifests")
    absent = "it cannot be imported (ModuleNotFoundError: No module named 'manifests')"
    elsewhere = f"it is {ROOT / 'manifests/__init__.py'}"  # where this environment has an editable installation
    assert start(site) in [sentence("manifests", site, found) for found in (absent, elsewhere)]


def test_the_distributions_that_own_the_name_are_named(site: Path) -> None:
    package(site, "stages", "")
    for name in ("curate-engine", "theatre"):
        info = site / f"{name.replace('-', '_')}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (info / "top_level.txt").write_text("stages\n")
    expected = f"it is {site / 'stages' / '__init__.py'}, and curate-engine and theatre are installed with that name"
    assert start(site) == sentence("stages", site, expected)
