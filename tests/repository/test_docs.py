"""The documents say what is true: their commands and programs run, their targets and files exist."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted(
    path.relative_to(ROOT).as_posix()
    for pattern in ("*.md", "docs/**/*.md", "examples/*.md")
    for path in ROOT.glob(pattern)
)
PROGRAMS = ("docs/python.md",)  # their python blocks are one program; elsewhere they are excerpts
# A backticked path of this repository; places in a run's output and patterns are not meant.
FILE = re.compile(
    r"`((?:curate|stages|classifiers|manifests|tests|benchmarks|examples|docs|\.ci)/[\w./-]+|[A-Z]+\.md)`"
)
BLOCK = re.compile(r"^```(bash|python)\n(.*?)^```", flags=re.M | re.S)
SET_UP = re.compile(r"(make \w+.*|source \.venv/bin/activate|git clone .*|cd curate)")  # Other tests and CI run these


def blocks(text: str) -> Iterator[tuple[str, str]]:
    """(language, content) of the blocks that can be run, in order."""
    for match in BLOCK.finditer(text):
        yield match[1], match[2]


def commands(text: str) -> list[str]:
    """The lines of the bash blocks, without their comments."""
    lines = [
        line.partition("  #")[0].strip()
        for kind, block in blocks(text)
        if kind == "bash"
        for line in block.splitlines()
    ]
    return [line for line in lines if line]


def script(block: str) -> str:
    """A bash block as a script; a line with the comment `# exit N: WORDS` must end so and say these words."""
    lines = ["set -eu"]
    for line in block.splitlines():
        command, _, comment = line.partition("  #")
        code = re.match(r"\s*exit (\d+): (.*)", comment)
        if SET_UP.fullmatch(command.strip()):
            continue
        if code:
            said = f"grep -qF -- {shlex.quote(code[2])} said"
            line = f"code=0; {command} 2> said || code=$?; test $code -eq {code[1]}\n{said}"
        lines.append(line)
    return "\n".join(lines)


@pytest.fixture(scope="module")
def documents() -> dict[str, str]:
    return {name: (ROOT / name).read_text("utf-8") for name in DOCUMENTS}


@pytest.fixture
def newcomer(tmp_path: Path) -> tuple[Path, dict[str, str]]:
    """A folder as a clone has it, as far as documents use it, and an environment with `curate` and `python`."""
    shutil.copytree(ROOT / "examples", tmp_path / "clone" / "examples", ignore=shutil.ignore_patterns("__pycache__"))
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, arguments in (("curate", "-m curate "), ("python", "")):
        (programs / name).write_text(
            f'#!/bin/sh\nPYTHONPATH="{ROOT}:$PYTHONPATH" exec {sys.executable} {arguments}"$@"\n'
        )
        (programs / name).chmod(0o755)
    path = f"{programs}{os.pathsep}{os.environ['PATH']}"
    return tmp_path / "clone", os.environ | {"PATH": path, "PYTHONPATH": "", "HOME": str(tmp_path)}


@pytest.mark.parametrize("name", [name for name in DOCUMENTS if BLOCK.search((ROOT / name).read_text("utf-8"))])
def test_every_command_and_program_runs_to_the_letter(name: str, newcomer: tuple[Path, dict[str, str]]) -> None:
    folder, environment = newcomer
    found = list(blocks((ROOT / name).read_text("utf-8")))
    shell = [script(block) for kind, block in found if kind == "bash"]
    if name in PROGRAMS:
        (folder / "program.py").write_text("\n".join(block for kind, block in found if kind == "python"))
        shell.append("python program.py")
    done = subprocess.run(
        ["bash", "-c", "\n".join(shell)], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"


def test_the_readme_shows_the_two_commands_first(documents: dict[str, str]) -> None:
    assert commands(documents["README.md"])[:2] == ["make demo", "make test"]


def test_the_readme_shows_what_the_command_can_do(documents: dict[str, str]) -> None:
    shown = {line.split()[1] for line in commands(documents["README.md"]) if line.startswith("curate ")}
    assert shown >= {"plan", "run", "verify", "report", "why"}


def test_every_subcommand_is_in_the_documents(documents: dict[str, str]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "curate", "--help"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    known = set(re.findall(r"^  ([a-z]+) ", done.stdout.partition("Commands:")[2], flags=re.M))
    assert known > {"run", "stages", "init"}
    named = {name for text in documents.values() for name in re.findall(r"\bcurate ([a-z]+)\b", text)}
    assert known - named == set()


def test_every_make_target_exists(documents: dict[str, str]) -> None:
    known = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text("utf-8"), flags=re.M))
    lines = [line for text in documents.values() for line in commands(text)]
    shown = {line.split()[1] for line in lines if line.startswith("make ")}
    inline = {name for text in documents.values() for name in re.findall(r"`make ([a-z]+)`", text)}
    assert shown >= {"demo", "test", "check", "env", "bench"}
    assert shown | inline <= known


def test_every_file_that_is_named_exists(documents: dict[str, str]) -> None:
    named = {(name, path) for name, text in documents.items() for path in FILE.findall(text)}
    assert len(named) > 15
    missing = [f"{name}: {path}" for name, path in sorted(named) if not (ROOT / path).exists()]
    assert not missing


def test_every_link_leads_somewhere(documents: dict[str, str]) -> None:
    for name, text in documents.items():
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text):
            assert (ROOT / name).parent.joinpath(target).exists(), f"{name}: {target}"


def test_the_readme_names_what_a_run_leaves_behind(documents: dict[str, str]) -> None:
    for name in ("MANIFEST", "manifest.json", "rows-", "docs-", "cu-", "ledger/", "work/"):
        assert name in documents["README.md"]


def test_the_picture_shows_every_phase_of_a_run(documents: dict[str, str]) -> None:
    picture = documents["ARCHITECTURE.md"].partition("## The picture")[2].split("```")[1]
    command = [
        sys.executable,
        "-m",
        "curate",
        "plan",
        "examples/quickstart/pipeline.yaml",
        "--output",
        "absent",
        "--json",
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    phases = {phase["phase"].partition(".")[0] for phase in json.loads(done.stdout)["phases"]}
    titles = [line for line in picture.splitlines() if re.match(r" [A-Za-z]", line)]  # above the boxes
    assert phases >= {"documents", "exchange", "pack", "shards", "ledger"}
    drawn = {word.partition(".")[0] for line in titles for word in line.split()}
    assert phases | {"unused", "keepers", "MANIFEST"} <= drawn
