"""JSON Lines to documents."""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import xxhash

from curate.core.errors import DataError
from curate.core.hashing import record_id
from curate.core.schema import IDENTITY, OPTIONAL, schema_of
from curate.core.stage import Columns, InputFile, Quarantined, Reader, Records, Slice
from stages.compressed import PIECE_BYTES, StoredBytes, Stream, open_stream
from stages.stretch import Stretch, check_max_record_bytes

MAPPED = ("url", "title", "date", "license", "language")
# Far below what the parser's recursion can take, so that no record depends on the caller's stack.
MAX_DEPTH = 128
_COMPRESSED = (".gz", ".tgz", ".zst")
_BOM = b"\xef\xbb\xbf"
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"?', re.DOTALL)
_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, kw_only=True)
class ReadJsonl(Reader):
    """One JSON object a line, plain, .gz or .zst: the fields named by the options become columns.

    Adds: the identity columns, text, and each of url, title, date, license, language that is mapped.
    Their values are strings, integers (written in decimal) or null; `text` is a string.
    Quarantines: `too_large`; `bad_utf8`; `bad_json` (also NaN and Infinity, which JSON does not have);
    `not_an_object`; `duplicate_key` (parsers disagree on which one holds); `too_deep`;
    `missing_field` and `bad_field` (text or id absent or null; a value of another type);
    `lone_surrogate` and `nul` in a field that is used (neither can be text: the first has no UTF-8).
    A compressed input that ends early, or goes on with garbage, gives its whole lines and one record
    quarantined as `truncated`, `corrupt`, `garbage` or `bomb`; the rest is lost. The checksum of a
    gzip stream stands at its end: where it fails (`corrupt`), lines before it may hold wrong letters.
    Ids are unique over all JSONL sources; leave `id` out where they are only unique within a file.

    Line ends, empty lines and a byte order mark are framing.
    """

    version: ClassVar[int] = 1
    libraries: ClassVar[tuple[str, ...]] = ("zstandard",)
    bytes_per_second: ClassVar[int] = 50_000_000

    paths: tuple[str, ...]
    id: str | None = None  # JSON field of the record's own id; without one, the line itself identifies it
    text: str = "text"
    url: str | None = None
    title: str | None = None
    date: str | None = None
    license: str | None = None
    language: str | None = None
    max_record_bytes: int = 64 << 20

    def __post_init__(self) -> None:
        """Refuse what could only ever read nothing."""
        check_max_record_bytes(self.max_record_bytes)

    @property
    def adds(self) -> Columns:
        """The columns of its batches."""
        return IDENTITY | {name: OPTIONAL[name] for name in ("text", *self.mapping())}

    def mapping(self) -> dict[str, str]:
        """Column -> JSON field, of the optional columns that are mapped."""
        return {name: field for name in MAPPED if (field := getattr(self, name)) is not None}

    def has_entry_points(self, key: str) -> bool:
        """Whether lines can be found inside: not in a compressed stream."""
        return not key.lower().endswith(_COMPRESSED)

    def open(self) -> Callable[[Slice, InputFile], Iterator[Records]]:
        """The function that reads a slice."""
        return self._read

    def _read(self, piece: Slice, file: InputFile) -> Iterator[Records]:
        if self.has_entry_points(piece.input.key):
            return _read_lines(self, piece, file)
        return _read_stream(self, piece, file)

    def row(self, line: bytes) -> tuple[str | None, dict[str, Any]]:
        """The record's own id and its columns. Raises: DataError."""
        fields = parse_object(line)
        name = None if self.id is None else _required(fields, self.id, (str, int))
        row: dict[str, Any] = {"text": _required(fields, self.text, (str,))}
        for column, field in self.mapping().items():
            value = fields.get(field)
            row[column] = None if value is None else _checked(field, value, (str, int))
        return name, row


def parse_object(line: bytes) -> dict[str, Any]:
    """The JSON object of a line. Raises: DataError."""
    try:
        source = line.decode()
        _check_depth(source)
        value = json.loads(source, object_pairs_hook=_object, parse_constant=_constant)
    except UnicodeDecodeError as error:
        raise DataError("bad_utf8", str(error)) from error
    except ValueError as error:
        raise DataError("bad_json", str(error)) from error
    if not isinstance(value, dict):
        raise DataError("not_an_object", f"the line holds a {type(value).__name__}")
    return value


def _check_depth(source: str) -> None:
    if source.count("[") + source.count("{") <= MAX_DEPTH:
        return
    depth = deepest = 0
    for bracket in re.findall(r"[][{}]", _STRING.sub("", source)):
        depth += 1 if bracket in "[{" else -1
        deepest = max(deepest, depth)
    if deepest > MAX_DEPTH:
        raise DataError("too_deep", f"arrays and objects nested {deepest} deep, at most {MAX_DEPTH} are read")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        names = [name for name, _ in pairs]
        raise DataError("duplicate_key", repr(next(name for name in names if names.count(name) > 1)))
    return value


def _constant(word: str) -> None:
    raise ValueError(f"{word} is not JSON")


def _required(fields: dict[str, Any], name: str, types: tuple[type, ...]) -> str:
    value = fields.get(name)
    if value is None:
        raise DataError("missing_field", repr(name))
    return _checked(name, value, types)


def _checked(name: str, value: object, types: tuple[type, ...]) -> str:
    """A value as text."""
    if isinstance(value, bool) or not isinstance(value, types):
        raise DataError("bad_field", f"{name!r} is a {type(value).__name__}")
    text = str(value)
    if "\0" in text:
        raise DataError("nul", repr(name))
    if not text.isascii() and _SURROGATE.search(text):
        raise DataError("lone_surrogate", repr(name))
    return text


@dataclass(frozen=True)
class Line:
    """A line of content. `data` is without the newline, or None where it is too large to be held."""

    position: int
    length: int  # bytes, newline included
    data: bytes | None
    ended: bool  # by a newline, not by the end of the content


def cut_lines(chunks: Iterator[bytes], position: int, max_bytes: int) -> Iterator[Line]:
    """The lines of content that begins at `position`, holding one line and one chunk."""
    held: list[bytes] = []
    length = 0
    for chunk in chunks:
        *ended, rest = chunk.split(b"\n")
        for part in ended:
            held.append(part)
            length += len(part) + 1
            yield Line(position, length, b"".join(held) if length - 1 <= max_bytes else None, True)
            position += length
            held, length = [], 0
        length += len(rest)
        if length <= max_bytes:
            held.append(rest)
        else:
            held.clear()
    if length:
        yield Line(position, length, b"".join(held) if length <= max_bytes else None, False)


class _Entry:
    """What becomes of lines: it enters them in a stretch."""

    def __init__(self, reader: ReadJsonl, piece: Slice) -> None:
        self._reader = reader
        self._key = piece.input.key
        self.stretch = Stretch(schema_of(dict(reader.adds)), piece.start)

    def enter(self, line: Line, origin: Callable[[int, int], dict[str, Any]]) -> None:
        """Enter one line. `origin` gives a record's origin from its position and length."""
        if line.data is None:
            self.stretch.num_bytes["record"] += line.length
            self.stretch.num_records += 1
            detail = f"{line.length} bytes, more than {self._reader.max_record_bytes}"
            self.quarantine(origin(line.position, line.length), "too_large", detail)
            return
        before = len(_BOM) if line.position == 0 and line.data.startswith(_BOM) else 0
        record = line.data[before:].removesuffix(b"\r")
        if not record or record.isspace():
            self.stretch.num_bytes["framing"] += line.length
            return
        self.stretch.num_records += 1
        self.stretch.num_bytes["record"] += len(record)
        self.stretch.num_bytes["framing"] += line.length - len(record)
        self._enter_record(record, origin(line.position + before, len(record)))

    def _enter_record(self, record: bytes, origin: dict[str, Any]) -> None:
        try:
            name, row = self._reader.row(record)
        except DataError as error:
            self.quarantine(origin, error.reason, error.detail, record)
            return
        row["id"] = record_id("jsonl", record if name is None else name)
        row["name"] = name
        row["record_hash"] = xxhash.xxh3_128_digest(record)
        row["origin"] = origin
        self.stretch.keep(row, len(record))

    def quarantine(self, origin: dict[str, Any], reason: str, detail: str = "", record: bytes = b"") -> None:
        """Enter a bad record; one that is not held is known by its place."""
        native = record or f"{self._key}@{origin['offset']}+{origin['inner']}"
        self.stretch.quarantine(
            Quarantined(id=record_id("jsonl", native), name="", origin=origin, reason=reason, detail=detail)
        )


def _read_lines(reader: ReadJsonl, piece: Slice, file: InputFile) -> Iterator[Records]:
    """Lines by position."""
    entry, stored = _Entry(reader, piece), StoredBytes(file, piece.start)
    stretch = entry.stretch
    if not (piece.proven or piece.start == 0 or _seek_line(stored, piece)):
        stretch.first = piece.stop
        yield stretch.close(piece.stop)
        return
    position = stretch.first = stored.position
    lines = cut_lines(stored.pieces(), position, reader.max_record_bytes)
    while position < piece.stop and (line := next(lines, None)):
        entry.enter(line, lambda at, length: {"key": piece.input.key, "offset": at, "length": length, "inner": 0})
        position += line.length
        if stretch.full:
            yield stretch.close(position)
    yield stretch.close(position)


def _seek_line(stored: StoredBytes, piece: Slice) -> bool:
    """Move behind the first newline at or behind `start - 1`, if that is before `stop`."""
    stored.move(piece.start - 1)
    while block := stored.peek(PIECE_BYTES):
        newline = block.find(b"\n")
        stored.take(len(block) if newline < 0 else newline + 1)
        if newline >= 0 or stored.position >= piece.stop:
            return newline >= 0 and stored.position < piece.stop
    return False


def _read_stream(reader: ReadJsonl, piece: Slice, file: InputFile) -> Iterator[Records]:
    """Lines of a compressed input, which is one stretch (0, size): bytes are counted as decompressed."""
    entry, stream = _Entry(reader, piece), open_stream(file, piece.input.key)

    def origin(at: int, length: int) -> dict[str, Any]:
        return {"key": piece.input.key, "offset": 0, "length": file.size, "inner": at}

    counted = 0  # content bytes of the stretches handed over
    for line in cut_lines(iter(stream.read, b""), 0, reader.max_record_bytes):
        if line.ended or not stream.damage:
            entry.enter(line, origin)
        else:
            entry.stretch.num_bytes["lost"] += line.length
        if entry.stretch.full:
            end = line.position + line.length
            yield entry.stretch.close(0, end - counted)
            counted = end
    if stream.damage:
        _enter_damage(entry, stream, origin)
    yield entry.stretch.close(file.size, stream.content_position + stream.undecoded_bytes - counted)


def _enter_damage(entry: _Entry, stream: Stream, origin: Callable[[int, int], dict[str, Any]]) -> None:
    entry.stretch.num_bytes["lost"] += stream.undecoded_bytes
    entry.stretch.num_records += 1
    entry.quarantine(origin(stream.content_position, 0), stream.damage or "")
