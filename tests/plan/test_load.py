"""The file as values: what is refused before anything is understood (BUG-001, unsafe YAML)."""

from pathlib import Path

import pytest

from curate.core.errors import PlanError
from curate.plan.load import MAX_BYTES, MAX_DEPTH, MAX_NODES, Items, Scalar, Table, load

BOMB = "a: &a [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 10)}]\n"
    for before, name in zip("abcdefghi", "bcdefghij", strict=True)
)


def loaded(tmp_path: Path, text: str | bytes) -> Table:
    path = tmp_path / "p.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return load(str(path))


def scalar(table: Table, key: str) -> Scalar:
    value = table.values[key]
    assert isinstance(value, Scalar)
    return value


def test_scalars_keep_their_source_text(tmp_path: Path) -> None:
    table = loaded(
        tmp_path, "a: no\nb: 'no'\non: 12:30:00\nd: 1_000\ne: [en, no, 2026-11-30]\nf: 0x10\ng: |\n  two\n  lines\n"
    )
    assert [scalar(table, key).text for key in ("a", "b", "on", "d", "f", "g")] == [
        "no", "no", "12:30:00", "1_000", "0x10", "two\nlines\n",
    ]  # fmt: skip
    assert [scalar(table, key).plain for key in ("a", "b", "g")] == [True, False, False]
    items = table.values["e"]
    assert isinstance(items, Items)
    assert [item.text for item in items.values if isinstance(item, Scalar)] == ["en", "no", "2026-11-30"]


def test_values_know_their_lines(tmp_path: Path) -> None:
    table = loaded(tmp_path, "# comment\na:\n  b:\n    - x\n    - {c: d}\n")
    assert table.keys["a"].line == 2
    inner = table.values["a"]
    assert isinstance(inner, Table)
    assert (inner.place.line, inner.keys["b"].line) == (3, 3)
    items = inner.values["b"]
    assert isinstance(items, Items)
    assert [item.place.line for item in items.values] == [4, 5]


def test_what_means_nothing(tmp_path: Path) -> None:
    table = loaded(tmp_path, "a:\nb: ~\nc: null\nd: ''\ne: 'null'\nf: Null\n")
    assert [scalar(table, key).is_null for key in "abcdef"] == [True, True, True, False, False, False]


def test_a_byte_order_mark_is_no_matter(tmp_path: Path) -> None:
    assert scalar(loaded(tmp_path, b"\xef\xbb\xbfcurate: 1\r\n"), "curate").text == "1"


def test_an_alias_stands_for_its_value(tmp_path: Path) -> None:
    table = loaded(tmp_path, "a: &steps [x, y]\nb: *steps\n")
    assert table.values["a"] == table.values["b"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", ":1: the file is empty; a pipeline begins with 'curate: 1'"),
        (b"# nothing\n", ":1: the file is empty; a pipeline begins with 'curate: 1'"),
        (b"- a\n", ":1: a pipeline is a mapping that begins with 'curate: 1', not a list"),
        (b"\n\nword\n", ":3: a pipeline is a mapping that begins with 'curate: 1', not 'word'"),
        (b"a: 1\nb: \xff\n", ":2: not UTF-8 text"),
        (b"\xfe\xff\0a\0:\0 \x001", ":1: not UTF-8 text"),
        (b"a: 1\nb: {c: 1, d: 2, c: 3}\n", ":2: duplicate key 'c'; first on line 2"),
        (b"a: &a 1\n? *a\n: 2\n1: 3\n", ":4: duplicate key '1'; first on line 1"),  # an alias is where its anchor is
        (b"a: !!str 5\n", ":1: YAML tags are not allowed, found 'tag:yaml.org,2002:str'"),
        (b"a: ! 5\n", ":1: YAML tags are not allowed, found '!'"),
        (b"a: !x {b: c}\n", ":1: YAML tags are not allowed, found '!x'"),
        (b"a: *b\n", ":1: not valid YAML: found undefined alias 'b'"),
        (b"%YAML 9.9\n---\na: 1\n", ":1: not valid YAML: found incompatible YAML document (version 1.* is required)"),
        (b"a: 'open\n", ":2: not valid YAML: found unexpected end of stream"),
        (b"~: 1\n", ":1: a key must be a word, not nothing"),
        (b"{a: 1}: 1\n", ":1: a key must be a word, not a mapping"),
        (b"a: &a [*a]\n", f":1: nested deeper than {MAX_DEPTH} levels once aliases are followed"),
        (BOMB.encode(), f":1: more than {MAX_NODES} values once aliases are followed"),
        (b"[" * 100_000, f":1: nested deeper than {MAX_DEPTH} levels"),
        (b"{a: " * 50_000, f":1: nested deeper than {MAX_DEPTH} levels"),
        (b"a: [" + b"x," * (MAX_NODES + 1) + b"]", f":1: more than {MAX_NODES} values"),
    ],
)
def test_what_is_refused(text: bytes, message: str, tmp_path: Path) -> None:
    with pytest.raises(PlanError) as caught:
        loaded(tmp_path, text)
    assert str(caught.value) == f"{tmp_path / 'p.yaml'}{message}"


def test_a_large_file_is_not_parsed(tmp_path: Path) -> None:
    with pytest.raises(
        PlanError, match=f"p.yaml: larger than {MAX_BYTES} bytes; a pipeline names its inputs with patterns"
    ):
        loaded(tmp_path, b"#" + b" " * MAX_BYTES)
    with pytest.raises(PlanError, match="the file is empty"):
        loaded(tmp_path, b"#" + b" " * (MAX_BYTES - 1))


def test_depth_from_both_sides(tmp_path: Path) -> None:
    levels = MAX_DEPTH - 2  # the mapping and the innermost scalar are levels too
    assert loaded(tmp_path, f"a: {'[' * levels}x{']' * levels}\n").values
    with pytest.raises(PlanError, match="nested deeper"):
        loaded(tmp_path, f"a: {'[' * (levels + 1)}x{']' * (levels + 1)}\n")


@pytest.mark.parametrize(
    ("file", "reason"),
    [("absent.yaml", "No such file or directory"), (".", "Is a directory"), ("a\0b", "embedded null byte")],
)
def test_files_that_cannot_be_read(file: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(PlanError) as caught:
        load(file)
    assert str(caught.value) == f"{file}: cannot be read: {reason}"
