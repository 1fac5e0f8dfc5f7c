"""Who may import whom: the contracts of pyproject.toml hold, and would be noticed if they did not."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGES = ("curate", "stages", "classifiers", "manifests")
HEAVY = ("boto3", "botocore", "pyarrow", "ray", "torch", "trafilatura")


def lint(root: Path) -> subprocess.CompletedProcess[str]:
    command = [str(Path(sys.executable).parent / "lint-imports"), "--no-cache"]
    return subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)


def modules_loaded_by(imports: str, root: Path) -> set[str]:
    code = f"import sys; {imports}; print(*sys.modules, sep='\\n')"
    command = [sys.executable, "-c", code]
    return set(subprocess.run(command, cwd=root, check=True, capture_output=True, text=True).stdout.split())


def test_contracts_hold(root: Path) -> None:
    result = lint(root)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "0 broken" in result.stdout


@pytest.mark.parametrize(
    ("module", "statement"),
    [
        ("curate/core/hashing.py", "import curate.plan.plan"),
        ("curate/engine/runner.py", "import stages.quality"),
        ("curate/plan/plan.py", "import boto3"),
        ("curate/engine/runner.py", "import ray"),
        ("manifests/manifest.py", "import curate.engine.runner"),
        ("stages/quality.py", "import curate.plan.plan"),
    ],
)
def test_an_import_that_climbs_is_noticed(root: Path, tmp_path: Path, module: str, statement: str) -> None:
    for package in PACKAGES:
        shutil.copytree(root / package, tmp_path / package)
    shutil.copy(root / "pyproject.toml", tmp_path)
    path = tmp_path / module
    path.write_text(path.read_text("utf-8") + f"\n{statement}\n", "utf-8")
    result = lint(tmp_path)
    assert result.returncode == 1, result.stdout + result.stderr
    assert "BROKEN" in result.stdout


def test_manifests_load_with_the_standard_library_and_numpy(root: Path) -> None:
    names = [
        ".".join(path.relative_to(root).with_suffix("").parts) for path in sorted((root / "manifests").rglob("*.py"))
    ]
    imports = "; ".join(f"import {name.removesuffix('.__init__')}" for name in names)
    loaded = modules_loaded_by(imports, root)
    assert loaded.isdisjoint(HEAVY), sorted(loaded.intersection(HEAVY))
    foreign = {name.partition(".")[0] for name in loaded} - sys.stdlib_module_names - set(PACKAGES) - {"numpy"}
    assert {name for name in foreign if not name.startswith("_")} <= {"sitecustomize"}, sorted(foreign)


def test_importing_curate_loads_nothing_heavy(root: Path) -> None:
    assert modules_loaded_by("import curate", root).isdisjoint({*HEAVY, "numba", "numpy", "lxml"})
