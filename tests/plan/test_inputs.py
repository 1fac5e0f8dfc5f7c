"""Paths and patterns to a root and inputs."""

import inspect
import os
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from curate.core.errors import PlanError
from curate.core.storage import open_storage
from curate.plan.inputs import find_inputs, matches
from curate.plan.load import Place, Scalar

FILES = (
    "a.gz",
    "b.gz",
    "b.txt",
    "x/a.gz",
    "x/y/a.gz",
    "x/y/z/a.gz",
    ".hidden.gz",
    "x/.secret/a.gz",
    "x/.dot.gz",
    "[1].gz",
)


def scalars(*texts: str) -> list[Scalar]:
    return [Scalar(Place("p.yaml", number), text, plain=True) for number, text in enumerate(texts, 1)]


def found(base: Path, *texts: str) -> tuple[str, list[str]]:
    root, inputs = find_inputs(scalars(*texts), base, "/elsewhere")
    return root, [item.key for item in inputs]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name in FILES:
        path = tmp_path / "tree" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    return tmp_path


@pytest.mark.parametrize(
    ("patterns", "root", "keys"),
    [
        (["tree/*.gz"], "tree", ["[1].gz", "a.gz", "b.gz"]),
        (["tree/?.txt"], "tree", ["b.txt"]),
        (["tree/[ab].gz"], "tree", ["a.gz", "b.gz"]),
        (["tree/[!a].gz"], "tree", ["b.gz"]),
        (["tree/[[]1].gz"], "tree", ["[1].gz"]),
        (["tree/a.gz"], "tree", ["a.gz"]),
        (["tree/./x//../a.gz"], "tree", ["a.gz"]),
        (["tree/*/a.gz"], "tree", ["x/a.gz"]),
        (["tree/x/**"], "tree/x", ["a.gz", "y/a.gz", "y/z/a.gz"]),
        (["tree/**/a.gz"], "tree", ["a.gz", "x/a.gz", "x/y/a.gz", "x/y/z/a.gz"]),
        (["tree/**/**/y/**/a.gz"], "tree", ["x/y/a.gz", "x/y/z/a.gz"]),
        (["tree/.*.gz"], "tree", [".hidden.gz"]),
        (["tree/x/.secret/*"], "tree/x/.secret", ["a.gz"]),
        (["tree/**/.*.gz"], "tree", [".hidden.gz", "x/.dot.gz"]),
        (["tree/*.gz", "tree/a.*"], "tree", ["[1].gz", "a.gz", "b.gz"]),
        (["tree/x/y/*.gz", "tree/*.txt"], "tree", ["b.txt", "x/y/a.gz"]),
        (["tree/x/y/a.gz", "tree/x/y/z/a.gz"], "tree/x/y", ["a.gz", "z/a.gz"]),
    ],
)
def test_patterns(patterns: list[str], root: str, keys: list[str], tree: Path) -> None:
    assert found(tree, *patterns) == (str(tree / root), keys)


def test_absolute_paths(tree: Path) -> None:
    assert found(Path("/nowhere"), f"{tree}/tree/*.txt") == (str(tree / "tree"), ["b.txt"])


def test_links_to_files_are_read_and_links_to_folders_are_not_walked(tree: Path) -> None:
    (tree / "tree" / "x" / "loop").symlink_to(tree / "tree")
    (tree / "tree" / "x" / "link.gz").symlink_to(tree / "tree" / "a.gz")
    assert found(tree, "tree/x/**/*.gz")[1] == ["a.gz", "link.gz", "y/a.gz", "y/z/a.gz"]
    assert found(tree, "tree/x/loop/b.*")[1] == ["b.gz", "b.txt"]


def test_a_deep_folder_takes_no_stack(tmp_path: Path) -> None:
    num_levels = 200
    tmp_path.joinpath(*["d"] * num_levels).mkdir(parents=True)
    tmp_path.joinpath(*["d"] * num_levels, "a.gz").touch()
    limit = sys.getrecursionlimit()
    try:
        sys.setrecursionlimit(len(inspect.stack(0)) + num_levels // 2)
        root, keys = found(tmp_path, "**/*.gz")
    finally:
        sys.setrecursionlimit(limit)
    assert (root, keys) == (str(tmp_path), ["d/" * num_levels + "a.gz"])


@pytest.mark.parametrize(
    ("make", "pattern", "message"),
    [
        (lambda path: os.symlink("gone", path), "tree/*.odd",
         "'tree/*.odd': 'x.odd' cannot be read: No such file or directory"),
        (lambda path: os.mkfifo(path), "tree/*.odd", "'tree/*.odd': 'x.odd' is not a file that can be read"),
        (lambda path: os.mkdir(path), "tree/*.odd", "no file matches 'tree/*.odd'"),
        (lambda path: os.mkdir(path), "tree/x.odd",
         "'tree/x.odd' is a folder; write 'tree/x.odd/*' for the files in it, 'tree/x.odd/**' for all below it"),
        (lambda path: open(path.replace(b"x.odd", b"\xff.odd"), "w").close(), "tree/*.odd",
         r"'tree/*.odd': the name of the file '\udcff.odd' is not UTF-8"),
    ],
    ids=["broken link", "pipe", "folder", "folder named", "name"],
)  # fmt: skip
def test_what_is_no_input(make: object, pattern: str, message: str, tree: Path) -> None:
    assert callable(make)
    make(os.fsencode(tree / "tree" / "x.odd"))
    with pytest.raises(PlanError) as caught:
        found(tree, pattern)
    assert str(caught.value) == f"p.yaml:1: {message}"


@pytest.mark.parametrize(
    ("pattern", "output", "takes_it_in"),
    [
        ("**", "out", True),
        ("**", ".", True),
        ("*", ".", True),
        ("*", "out", False),
        ("*.gz", ".", False),
        ("**/*.gz", "out", False),
        ("**/*.parquet", "out", True),
        ("out/train/*", "out", False),
        ("*/MANIFEST", "out", True),
        ("tree/**", "out", False),
    ],
)
def test_patterns_that_would_take_in_the_output(pattern: str, output: str, takes_it_in: bool, tree: Path) -> None:
    with pytest.raises(PlanError) as caught:
        find_inputs(scalars(pattern, "nothing.at.all"), tree, os.path.normpath(tree / output))
    assert ("takes in what the run writes to its output" in str(caught.value)) is takes_it_in


def test_s3(s3_url: str) -> None:
    storage = open_storage(s3_url)
    for name in FILES:
        if "[" not in name:
            storage.put(name, name.encode())
    base = Path("/nowhere")
    expected = {item.key: (item.size, item.tag) for item in storage.list()}
    root, inputs = find_inputs(scalars(f"{s3_url}/**/*.gz"), base, "/elsewhere")
    assert root == s3_url
    assert [item.key for item in inputs] == ["a.gz", "b.gz", "x/a.gz", "x/y/a.gz", "x/y/z/a.gz"]
    assert {item.key: (item.size, item.tag) for item in inputs}.items() <= expected.items()
    assert found(base, f"{s3_url}/b.*") == (s3_url, ["b.gz", "b.txt"])
    assert found(base, f"{s3_url}/x/y/a.gz") == (f"{s3_url}/x/y", ["a.gz"])
    assert found(base, f"{s3_url}/x/*.gz", f"{s3_url}/b.txt") == (s3_url, ["b.txt", "x/a.gz"])
    for text, message in (
        (f"{s3_url}/*.warc", f"no object matches '{s3_url}/*.warc'"),
        (f"{s3_url}/c.gz", f"'{s3_url}/c.gz' does not exist"),
        (
            f"{s3_url}/x",
            f"'{s3_url}/x' is a folder; write '{s3_url}/x/*' for the files in it, '{s3_url}/x/**' for all below it",
        ),
    ):
        with pytest.raises(PlanError) as caught:
            found(base, text)
        assert str(caught.value) == f"p.yaml:1: {message}"


NAMES = st.sampled_from(["a", "b", "ab", ".a", "x.gz"])
SEGMENTS = st.sampled_from(["a", "*", "?", "[ab]", "**", ".*", "*.gz", "a*"])


@given(
    st.lists(st.lists(NAMES, min_size=1, max_size=4), min_size=1, max_size=6),
    st.lists(SEGMENTS, min_size=1, max_size=4),
)
def test_disk_and_keys_are_matched_alike(
    tmp_path_factory: pytest.TempPathFactory, paths: list[list[str]], segments: list[str]
) -> None:
    folder = tmp_path_factory.mktemp("tree")
    files = set()
    for parts in paths:
        path = folder.joinpath(*parts[:-1], f"{parts[-1]}")
        if not path.exists() and not any(parent.is_file() for parent in path.parents):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
            files.add("/".join(parts))
    expected = sorted(name for name in files if matches(name, segments))
    try:
        root, keys = found(folder, "/".join(segments))
        keys = [os.path.relpath(os.path.join(root, key), folder) for key in keys]
    except PlanError as error:
        assert "no file matches" in str(error) or "does not exist" in str(error) or "is a folder" in str(error)
        keys = []
    assert sorted(keys) == expected
