"""`paths` of a reader: files and patterns, on this machine or in S3, to a root and inputs below it.

A pattern has `*`, `?` and `[...]` inside a folder's or file's name, and `**` for any number of
folders. Names that begin with a dot are met only by patterns that say the dot.
"""

import fnmatch
import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from curate.core.errors import PlanError
from curate.core.stage import Input
from curate.core.storage import Storage, Stored, open_storage
from curate.plan.load import Place, Scalar

ANY_FOLDERS = "**"
S3 = "s3://"
# Samples of the names below an output folder, to notice a pattern that would take them for inputs.
WRITTEN = ("PLAN", "MANIFEST", "work/data/0.parquet", "runs/0.json", "0/manifest.json", "0/train/rows-00000.0")


@dataclass(frozen=True)
class Pattern:
    """A path as written, the folder below which it varies, and what varies, segment by segment."""

    place: Place
    text: str
    folder: str  # absolute, or s3://bucket/...; no trailing slash
    segments: tuple[str, ...]


def find_inputs(paths: Sequence[Scalar], base: Path, output: str) -> tuple[str, tuple[Input, ...]]:
    """The root (the longest folder that all paths share) and the inputs, sorted by key.

    Relative paths begin at the folder `base`. Raises PlanError for a path that gives no file, is a
    folder, shares no root with the others, or would take in what the run writes to `output`.
    """
    patterns = [_pattern(path, base) for path in paths]
    for pattern in patterns:
        if any(_covers(pattern, f"{output}/{written}") for written in WRITTEN):
            raise pattern.place.error(f"{pattern.text!r} takes in what the run writes to its output; move one of them")
    root = _common_root(patterns)
    try:
        storage = open_storage(root)
    except PlanError as error:
        raise patterns[0].place.error(str(error)) from None
    find = _in_s3 if root.startswith(S3) else _on_disk
    found: dict[str, Input] = {}
    for pattern in patterns:
        before = pattern.folder[len(root) :].strip("/")
        prefix = f"{before}/" if before else ""
        inputs = list(find(pattern, prefix, storage))
        if not inputs:
            raise pattern.place.error(_nothing(pattern))
        found |= {item.key: item for item in inputs}
    return root, tuple(found[key] for key in sorted(found))


def _covers(pattern: Pattern, path: str) -> bool:
    folder = pattern.folder.rstrip("/") + "/"
    return path.startswith(folder) and matches(path[len(folder) :], pattern.segments)


def matches(key: str, segments: Sequence[str]) -> bool:
    """Whether a key below the pattern's folder fits the pattern's segments."""
    end = len(segments)
    states = _skip_folders({0}, segments)
    for name in key.split("/"):
        fitting = {state for state in states if state < end and _fits(name, segments[state])}
        stay = {state for state in fitting if segments[state] == ANY_FOLDERS}
        go_on = {state + 1 for state in fitting if segments[state] != ANY_FOLDERS or state + 1 == end}
        states = _skip_folders(stay | go_on, segments)
    return end in states


def _skip_folders(states: set[int], segments: Sequence[str]) -> set[int]:
    """`**` before another segment may stand for no folder at all; the last one stands for a file at least."""
    reached = set(states)
    for state in range(len(segments) - 1):
        if state in reached and segments[state] == ANY_FOLDERS:
            reached.add(state + 1)
    return reached


def _fits(name: str, segment: str) -> bool:
    if not name or (name.startswith(".") and not segment.startswith(".")):
        return False
    return fnmatch.fnmatchcase(name, segment) if _varies(segment) else name == segment


def _varies(segment: str) -> bool:
    return any(character in segment for character in "*?[")


def _pattern(path: Scalar, base: Path) -> Pattern:
    text = path.text
    if not text.strip():
        raise path.place.error(f"a path is empty: {text!r}; write a file or a pattern, such as data/*.jsonl")
    in_s3 = text.startswith(S3)
    if "://" in text and not in_s3:
        raise path.place.error(f"{text!r}: inputs are local paths or {S3}bucket/key, nothing else")
    segments = text.removeprefix(S3).split("/")
    num_fixed = next((number for number, segment in enumerate(segments) if _varies(segment)), len(segments) - 1)
    fixed, rest = segments[:num_fixed], segments[num_fixed:]
    if rest == [""]:
        raise path.place.error(_is_folder(text))
    if in_s3:
        if not fixed or not fixed[0]:
            raise path.place.error(f"{text!r} is not {S3}bucket/key with one bucket, named without wildcards")
        return Pattern(path.place, text, S3 + "/".join(fixed), tuple(rest))
    if rest[-1] in (".", ".."):
        raise path.place.error(_is_folder(text))
    if ".." in rest:
        raise path.place.error(f"{text!r}: '..' after a wildcard is not allowed")
    folder = os.path.normpath(os.path.join(base, "/".join(fixed) or ("/" if text.startswith("/") else ".")))
    return Pattern(path.place, text, folder, tuple(_without_repeats(rest)))


def _without_repeats(segments: Iterable[str]) -> Iterator[str]:
    last = ""
    for segment in segments:
        if segment not in ("", ".") and not segment == last == ANY_FOLDERS:
            yield segment
            last = segment


def _common_root(patterns: Sequence[Pattern]) -> str:
    folders = {pattern.folder for pattern in patterns}
    if len(folders) == 1:
        return patterns[0].folder
    kinds = {folder.startswith(S3) for folder in folders}
    shared = "/" if len(kinds) > 1 else os.path.commonpath([folder.removeprefix(S3) for folder in folders])
    if shared in ("", "/"):
        first, other = patterns[0], next(item for item in patterns if item.folder != patterns[0].folder)
        raise other.place.error(f"{other.text!r} and {first.text!r} share no folder; read them as two sources")
    return S3 + shared if True in kinds else shared


def _nothing(pattern: Pattern) -> str:
    if not any(map(_varies, pattern.segments)):
        return f"{pattern.text!r} does not exist"
    if pattern.folder.startswith(S3):
        return f"no object matches {pattern.text!r}"
    missing = "" if os.path.isdir(pattern.folder) else f"; there is no folder {pattern.folder!r}"
    return f"no file matches {pattern.text!r}{missing}"


def _is_folder(text: str) -> str:
    folder = text.rstrip("/")
    return f"{text!r} is a folder; write '{folder}/*' for the files in it, '{folder}/**' for all below it"


def _in_s3(pattern: Pattern, prefix: str, storage: Storage) -> Iterator[Input]:
    first = pattern.segments[0]
    listed: Iterable[Stored]
    if _varies(first):
        head = first[: next(number for number, character in enumerate(first) if character in "*?[")]
        listed = (item for item in storage.list(prefix + head) if matches(item.key[len(prefix) :], pattern.segments))
    else:
        key = prefix + first
        stored = storage.stat(key) if first else None
        if stored is None and any(True for _ in storage.list(key.rstrip("/") + "/")):
            raise pattern.place.error(_is_folder(pattern.text))
        listed = [stored] if stored else []
    for item in listed:
        yield Input(item.key, item.size, item.tag)


def _on_disk(pattern: Pattern, prefix: str, storage: Storage) -> Iterator[Input]:
    for below in _walk(pattern):
        path = os.path.join(pattern.folder, below)
        try:
            below.encode("utf-8")
            kind = os.stat(path).st_mode
            readable = os.access(path, os.R_OK)
        except UnicodeEncodeError:
            raise pattern.place.error(f"{pattern.text!r}: the name of the file {below!r} is not UTF-8") from None
        except OSError as error:
            raise pattern.place.error(f"{pattern.text!r}: {below!r} cannot be read: {error.strerror}") from None
        if stat.S_ISDIR(kind):
            if any(map(_varies, pattern.segments)):
                continue
            raise pattern.place.error(_is_folder(pattern.text))
        stored = storage.stat(prefix + below) if stat.S_ISREG(kind) and readable else None
        if stored is None:
            raise pattern.place.error(f"{pattern.text!r}: {below!r} is not a file that can be read")
        yield Input(stored.key, stored.size, stored.tag)


def _walk(pattern: Pattern) -> Iterator[str]:
    """Paths below the pattern's folder that fit it; only folders that can lead to one are read."""
    waiting: list[tuple[str, tuple[str, ...]]] = [("", pattern.segments)]
    while waiting:
        below, segments = waiting.pop()
        segment, rest = segments[0], segments[1:]
        if not _varies(segment):
            if rest:
                waiting.append((f"{below}{segment}/", rest))
            elif os.path.lexists(os.path.join(pattern.folder, below, segment)):
                yield below + segment
            continue
        if segment == ANY_FOLDERS and rest:
            waiting.append((below, rest))
        for entry in _entries(pattern, below):
            if entry.is_dir():
                waiting += [(f"{below}{entry.name}/", after) for after in _inside(entry, segments)]
            elif not rest and _fits(entry.name, segment):
                yield below + entry.name


def _inside(folder: os.DirEntry[str], segments: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """What paths in `folder` must fit, where it is met at the first of `segments`."""
    if _fits(folder.name, segments[0]):
        if segments[0] != ANY_FOLDERS:
            if segments[1:]:
                yield segments[1:]
        elif not folder.is_symlink():  # a link may lead back to where it lies
            yield segments


def _entries(pattern: Pattern, below: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(os.path.join(pattern.folder, below)) as entries:
            return list(entries)
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise pattern.place.error(f"{pattern.text!r}: the folder {below!r} cannot be read: {error.strerror}") from None
