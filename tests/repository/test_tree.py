"""What a tree must not hold, and how large its parts may grow."""

import re
from pathlib import Path

import pytest

CODE = ("curate", "stages", "classifiers", "manifests", "tests", "benchmarks", "examples")
MAX_FILE_BYTES = 1 << 20
MAX_MODULE_LINES = 500
MAX_NEWCOMER_LINES = 1000
NEWCOMER_FILES = (
    "README.md",
    "stages/quality.py",
    "curate/core/stage.py",
    "curate/engine/task.py",
    "curate/plan/build.py",
    "curate/engine/runner.py",
)
# Spelled apart, so that this file does not hold them.
ABSOLUTE = re.compile(r"(?<![\w./~-])/(?:wo" r"rk|fa" r"rm|ro" r"ot|ho" r"me|Us" r"ers|tmp/v)/")
HOSTS = re.compile(
    r"py"
    r"pi\.org|python"
    r"hosted\.org|registry\.npm"
    r"js|npm"
    r"js\.(?:com|org)|deb\.deb"
    r"ian|proxy\.go"
    r"lang"
    r"|conda\.ana"
    r"conda|index-ur"
    r"l|huggingface\.c"
    r"o/datasets",
    re.I,
)
# Inputs that others wrote are kept as they are.
WRITTEN_BY_OTHERS = re.compile(r"examples/[^/]+/(?:pmc|medline|web|general|tokenizer)/|examples/.*\.tsv$")


@pytest.fixture(scope="module")
def texts(root: Path, tracked: list[Path]) -> dict[str, str]:
    """The text files that we wrote."""
    found = {}
    for path in tracked:
        raw = (root / path).read_bytes()
        if b"\0" not in raw and not WRITTEN_BY_OTHERS.match(path.as_posix()):
            found[path.as_posix()] = raw.decode("utf-8")
    return found


@pytest.mark.parametrize("pattern", [ABSOLUTE, HOSTS], ids=["paths of a machine", "hosts of package registries"])
def test_no_file_names(texts: dict[str, str], pattern: re.Pattern[str]) -> None:
    hits = [f"{name}: {match.group()}" for name, text in texts.items() for match in pattern.finditer(text)]
    assert not hits


def test_the_patterns_find_what_they_look_for() -> None:
    assert ABSOLUTE.search("open('/" + "home/someone/file')")
    assert not ABSOLUTE.search("see docs/" + "work/file and ../" + "root/x")
    assert HOSTS.search("https://files.python" + "hosted.org/x.whl")


def test_no_committed_file_is_over_one_mebibyte(root: Path, tracked: list[Path]) -> None:
    assert [str(path) for path in tracked if (root / path).stat().st_size > MAX_FILE_BYTES] == []


def test_modules_stop_at_500_lines(texts: dict[str, str]) -> None:
    modules = {name: text.count("\n") for name, text in texts.items() if name.endswith(".py")}
    assert len(modules) > 20
    assert {name: lines for name, lines in modules.items() if lines > MAX_MODULE_LINES} == {}


def test_code_is_ascii(texts: dict[str, str]) -> None:
    code = [name for name in texts if name.endswith(".py") and name.split("/")[0] in CODE]
    assert [name for name in code if not texts[name].isascii()] == []


def test_a_newcomer_reads_under_a_thousand_lines(root: Path) -> None:
    lines = {name: (root / name).read_text("utf-8").count("\n") for name in NEWCOMER_FILES}
    assert sum(lines.values()) < MAX_NEWCOMER_LINES, lines


def test_tests_hold_no_packages(tracked: list[Path]) -> None:
    """A package tests/stages would hide the package `stages`."""
    assert [str(path) for path in tracked if path.parts[0] == "tests" and path.name == "__init__.py"] == []
