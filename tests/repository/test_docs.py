"""The documents say what is true: their commands run, their targets and files exist."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

DOCUMENTS = ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md", "examples/README.md")
# A backticked path of this repository; places in a run's output and patterns are not meant.
FILE = re.compile(
    r"`((?:curate|stages|classifiers|manifests|tests|benchmarks|examples|docs|\.ci)/[\w./-]+|[A-Z]+\.md)`"
)


def commands(text: str) -> list[str]:
    """The lines of the bash blocks, without their comments."""
    blocks = re.findall(r"^```bash\n(.*?)^```", text, flags=re.M | re.S)
    lines = [line.partition("  #")[0].strip() for block in blocks for line in block.splitlines()]
    return [line for line in lines if line]


@pytest.fixture(scope="module")
def documents(root: Path) -> dict[str, str]:
    return {name: (root / name).read_text("utf-8") for name in DOCUMENTS}


def test_the_readme_shows_the_two_commands_and_all_of_curate(documents: dict[str, str]) -> None:
    shown = commands(documents["README.md"])
    assert shown[:2] == ["make demo", "make test"]
    assert [line.split()[1] for line in shown if line.startswith("curate ")] == [
        "plan",
        "run",
        "verify",
        "report",
        "why",
    ]


def test_every_make_target_exists(root: Path, documents: dict[str, str]) -> None:
    known = set(re.findall(r"^([a-z]+):", (root / "Makefile").read_text("utf-8"), flags=re.M))
    lines = [line for text in documents.values() for line in commands(text)]
    shown = {line.split()[1] for line in lines if line.startswith("make ")}
    inline = {name for text in documents.values() for name in re.findall(r"`make ([a-z]+)`", text)}
    assert shown >= {"demo", "test", "check", "env", "bench"}
    assert shown | inline <= known


def test_every_command_is_of_a_kind_that_is_tested(documents: dict[str, str]) -> None:
    lines = [line for text in documents.values() for line in commands(text)]
    assert {line.split()[0] for line in lines} == {"curate", "make"}


def test_every_file_that_is_named_exists(root: Path, documents: dict[str, str]) -> None:
    named = {(name, path) for name, text in documents.items() for path in FILE.findall(text)}
    assert len(named) > 15
    missing = [f"{name}: {path}" for name, path in sorted(named) if not (root / path).exists()]
    assert not missing


def test_every_curate_command_of_the_readme_runs(root: Path, documents: dict[str, str], tmp_path: Path) -> None:
    shutil.copytree(root / "examples", tmp_path / "examples")
    environment = {**os.environ, "PYTHONPATH": str(root)}
    printed = {}
    for line in commands(documents["README.md"]):
        program, *arguments = shlex.split(line)
        if program == "curate":
            command = [sys.executable, "-m", "curate", *arguments]
            result = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
            assert result.returncode == 0, f"{line}\n{result.stdout}{result.stderr}"
            printed[arguments[0]] = result.stdout
    assert "articles" in printed["plan"]
    assert "PMC2714198" in printed["why"]


def test_the_readme_names_what_a_run_leaves_behind(documents: dict[str, str]) -> None:
    for name in ("MANIFEST", "manifest.json", "rows-", "docs-", "cu-", "ledger/", "work/"):
        assert name in documents["README.md"]
