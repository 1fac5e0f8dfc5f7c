"""Web archives (WARC) to documents: HTTP payloads of HTML and plain text.

Framing is our own (`stages.warc_framing`), so that each byte is accounted for and reading can start
anywhere; what a record is worth is decided here.
"""

import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import xxhash

from curate.core.errors import DataError
from curate.core.hashing import record_id
from curate.core.schema import IDENTITY, OPTIONAL, schema_of
from curate.core.stage import Columns, InputFile, Quarantined, Reader, Records, Slice
from stages.compressed import PIECE_BYTES, StoredBytes, inflate_member
from stages.stretch import KINDS, Stretch, check_max_record_bytes
from stages.warc_framing import Frame, Window, ends_well, read_frame
from stages.warc_record import Dropped, document_of, name_of, type_of

COLUMNS: Columns = IDENTITY | {name: OPTIONAL[name] for name in ("content", "url", "date", "kind", "charset")}
DOCUMENT_TYPES = frozenset({"response", "resource", "conversion"})
OTHER_TYPES = frozenset({"warcinfo", "request", "metadata", "revisit", "continuation"})
MEMBER_MAGIC = b"\x1f\x8b\x08"
_RESUME_BYTES = 1 << 16  # before the piece in which a fault showed, from where the next member is searched
_PROBE_BYTES = 4096  # of a gzip member, to see whether a record begins in it


@dataclass(frozen=True, kw_only=True)
class ReadWarc(Reader):
    """WARC 1.x files, plain or gzip: documents are the HTML and plain text of responses and the like.

    Adds: the identity columns; content (the payload, without transfer and content codings), url,
    date (WARC-Date), kind (media type of the payload), charset (as its Content-Type declares it).
    Drops, counted only: records of other types by type (`request`, `metadata`, `warcinfo`,
    `revisit`, `continuation`; else `other_type`); `truncated` (by WARC-Truncated), `segmented`,
    `status` (HTTP status not 2xx), `media_type` (neither HTML nor plain text, by Content-Type,
    else by the first bytes), `empty_payload`.
    Quarantines: what `stages.warc_framing.read_frame` finds wrong; `corrupt` and `truncated` gzip
    members; `not_warc` (an input, or a gzip member, in which no record begins); `no_type`,
    `bad_http`; `bomb`, `bad_coding` and `unknown_coding` of the payload.

    After damage reading goes on at the next record. A record that is cut by a member's end is
    `truncated`, even where the next member goes on with it. The payload of a damaged record may
    itself hold records; those are read.
    """

    version: ClassVar[int] = 1
    libraries: ClassVar[tuple[str, ...]] = ("brotli", "zstandard")
    # Measured on one core: 26 MB/s of gzip in members of 3 KB, 37 of one member, 210 of a plain file.
    bytes_per_second: ClassVar[int] = 20_000_000

    paths: tuple[str, ...]
    max_record_bytes: int = 64 << 20  # header and block, decompressed; also of the decoded payload

    def __post_init__(self) -> None:
        """Refuse what could only ever read nothing."""
        check_max_record_bytes(self.max_record_bytes)

    @property
    def adds(self) -> Columns:
        """The columns of its batches."""
        return COLUMNS

    def has_entry_points(self, key: str) -> bool:
        """True: records of plain files and members of gzip files; zstd and LZ4 are not read yet."""
        return not key.lower().endswith((".zst", ".lz4"))

    def open(self) -> Callable[[Slice, InputFile], Iterator[Records]]:
        """The function that reads a slice."""
        return self._read

    def _read(self, piece: Slice, file: InputFile) -> Iterator[Records]:
        head = file.read_range(0, 64)
        if head.startswith(MEMBER_MAGIC):
            walk = _read_members
        elif head.lstrip(b"\r\n").upper().startswith(b"WARC/") or not head:
            walk = _read_plain
        else:
            walk = _read_foreign
        return walk(_Archive(self, piece, file))


class _Archive:
    """The state of reading one slice: where it begins, what was read since the last stretch."""

    def __init__(self, reader: ReadWarc, piece: Slice, file: InputFile) -> None:
        self.file = file
        self.key = piece.input.key
        self.start = piece.start
        self.stop = piece.stop
        self.proven = piece.proven or piece.start == 0
        self.max_record_bytes = reader.max_record_bytes
        self.stretch = Stretch(schema_of(dict(COLUMNS)), piece.start)
        self.last_record: str | None = None  # "sound", or the fault of the last one
        self._num_bytes: Counter[str] = Counter()  # of content, by kind

    def nothing(self) -> Records:
        """An unproven slice in which no record begins."""
        self.stretch.first = self.stop
        return self.stretch.close(self.stop)

    def step(self, window: Window, origin: Callable[[int, int], dict[str, Any]]) -> None:
        """Take what is at the window's position: a record with the line ends behind it, or damage.

        `origin` gives the origin of a record from its position in the window and its length.
        """
        before = window.position
        if window.peek(0, 5).upper() == b"WARC/":
            self._take_record(window, origin)
        elif newlines := window.skip_newlines():
            self._num_bytes["framing"] += newlines
        else:
            window.seek_record()
            self._num_bytes["lost"] += window.position - before

    def _take_record(self, window: Window, origin: Callable[[int, int], dict[str, Any]]) -> None:
        frame, at = read_frame(window, self.max_record_bytes), window.position
        self.stretch.num_records += 1
        self.last_record = frame.fault or "sound"
        if frame.fault == "too_large":
            self._skip_large(window, frame, origin)
        elif frame.fault:
            window.skip(len(b"WARC"))
            window.seek_record()
            self._num_bytes["lost"] += window.position - at
            self.quarantine(frame.headers, origin(at, window.position - at), frame.fault)
        else:
            self._take_sound(frame, window.peek(0, frame.length), origin(at, frame.length))
            window.skip(frame.length)
        self._num_bytes["framing"] += window.skip_newlines()

    def _skip_large(self, window: Window, frame: Frame, origin: Callable[[int, int], dict[str, Any]]) -> None:
        at = window.position
        whole = window.skip(frame.length) == frame.length and ends_well(window, 0)
        self._num_bytes["record" if whole else "lost"] += window.position - at
        detail = f"{frame.length} bytes, more than {self.max_record_bytes}"
        self.quarantine(frame.headers, origin(at, window.position - at), "too_large", detail)

    def _take_sound(self, frame: Frame, raw: bytes, origin: dict[str, Any]) -> None:
        kind = type_of(frame.headers)
        if kind and kind not in DOCUMENT_TYPES:
            self._num_bytes["skipped"] += frame.length
            self.stretch.drop(kind if kind in OTHER_TYPES else "other_type")
            return
        self._num_bytes["record"] += frame.length
        try:
            row = document_of(frame.headers, raw[frame.header_bytes :], self.max_record_bytes)
        except Dropped as dropped:
            self.stretch.drop(str(dropped))
        except DataError as error:
            self.quarantine(frame.headers, origin, error.reason, error.detail, raw)
        else:
            name = name_of(frame.headers)
            identity = {
                "id": record_id("warc", name or raw),
                "name": name or None,
                "record_hash": xxhash.xxh3_128_digest(raw),
                "origin": origin,
            }
            self.stretch.keep(identity | row, len(row["content"]))

    def take_bytes(self) -> Counter[str]:
        """The content bytes since the last call, by kind."""
        taken, self._num_bytes = self._num_bytes, Counter()
        return taken

    def lose_record(self, origin: dict[str, Any], reason: str) -> None:
        """Enter a record of which not even a header was read."""
        self.stretch.num_records += 1
        self.quarantine({}, origin, reason)

    def quarantine(
        self, headers: dict[str, str], origin: dict[str, Any], reason: str, detail: str = "", raw: bytes = b""
    ) -> None:
        """Enter a bad record. One without an id of its own and without an end is known by its place."""
        name = name_of(headers)
        native = name or raw or f"{self.key}@{origin['offset']}+{origin['inner']}"
        record = Quarantined(id=record_id("warc", native), name=name, origin=origin, reason=reason, detail=detail)
        self.stretch.quarantine(record)


def _read_plain(archive: _Archive) -> Iterator[Records]:
    """A WARC file as it is: positions are those of records."""
    stretch = archive.stretch
    first = archive.start if archive.proven else archive.start - 1  # a record begins behind a newline
    window = Window(StoredBytes(archive.file, first).pieces(), first, archive.file.size)
    if not archive.proven and not window.seek_record(archive.stop):
        yield archive.nothing()
        return
    stretch.first = window.position
    while window.position < archive.stop and window.reach(1):
        archive.step(window, lambda at, length: {"key": archive.key, "offset": at, "length": length, "inner": 0})
        stretch.num_bytes.update(archive.take_bytes())
        if stretch.full:
            yield stretch.close(window.position)
    yield stretch.close(window.position)


def _read_members(archive: _Archive) -> Iterator[Records]:
    """A gzip WARC file: positions are those of members, of one record each or of many."""
    stretch, stored = archive.stretch, StoredBytes(archive.file, archive.start)
    if not archive.proven and not _seek_member(stored, archive.stop):
        yield archive.nothing()
        return
    stretch.first = stored.position
    while stored.position < archive.stop and stored.peek(1):
        if stored.peek(len(MEMBER_MAGIC)) == MEMBER_MAGIC:
            yield from _read_member(archive, stored)
        elif padding := stored.skip_run(b"\0"):
            stretch.num_bytes["framing"] += padding
        else:
            before = stored.position
            _seek_member(stored)
            stretch.num_bytes["lost"] += stored.position - before
        stretch.num_bytes["framing"] += stored.skip_run(b"\0")
        if stretch.full:
            yield stretch.close(stored.position)
    yield stretch.close(stored.position)


def _seek_member(stored: StoredBytes, before: int | None = None) -> bool:
    """Move to the first member at or behind the position, and before `before`, that begins with a record.

    Where there is none, moves to the end, or about to `before`.
    """
    while block := stored.peek(PIECE_BYTES + _PROBE_BYTES):
        at = block.find(MEMBER_MAGIC, 0, PIECE_BYTES + len(MEMBER_MAGIC) - 1)
        while at >= 0 and not _begins_record(block[at : at + _PROBE_BYTES]):
            at = block.find(MEMBER_MAGIC, at + 1, PIECE_BYTES + len(MEMBER_MAGIC) - 1)
        stored.take(PIECE_BYTES if at < 0 else at)
        if at >= 0 or (before is not None and stored.position >= before):
            return at >= 0 and (before is None or stored.position < before)
    return False


def _begins_record(member: bytes) -> bool:
    try:
        content = zlib.decompressobj(wbits=31).decompress(member, 16)
    except zlib.error:
        return False
    return content.lstrip(b"\r\n").upper().startswith(b"WARC/")


def _read_member(archive: _Archive, stored: StoredBytes) -> Iterator[Records]:
    """The member at the position, and what is lost behind it where it is damaged."""
    stretch, start = archive.stretch, stored.position
    window = Window(inflate_member(stored))

    def origin(at: int, length: int) -> dict[str, Any]:
        return {"key": archive.key, "offset": start, "length": stored.sound - start, "inner": at}

    archive.last_record = None
    while window.reach(1):
        archive.step(window, origin)
        if stretch.full and window.reach(1):
            yield stretch.close(start)
    content = archive.take_bytes()
    if window.damage and archive.last_record != window.damage:
        archive.lose_record(origin(window.position, 0), window.damage)
    elif archive.last_record is None and content["lost"]:
        archive.lose_record(origin(0, 0), "not_warc")
    sound = stored.sound
    if window.damage:
        # A changed byte is noticed within a few KB of nonsense, or by the checksum: the next member lies
        # near. To search all of a large member again, from each false beginning, has no bound.
        stored.move(max(start + 1, sound - _RESUME_BYTES))
        _seek_member(stored)
    decoded = min(sound, stored.position) - start
    stretch.num_bytes.update(_share(decoded, content, "lost" if window.damage else "framing"))
    stretch.num_bytes["lost"] += stored.position - start - decoded


def _share(stored_bytes: int, content: Counter[str], otherwise: str) -> Counter[str]:
    """A member's stored bytes, shared out by its content bytes of each kind; exact in sum."""
    total = content.total()
    if not total:
        return Counter({otherwise: stored_bytes})
    shares, so_far = Counter[str](), 0
    for kind in KINDS:
        shares[kind] = stored_bytes * (so_far + content[kind]) // total - stored_bytes * so_far // total
        so_far += content[kind]
    return shares


def _read_foreign(archive: _Archive) -> Iterator[Records]:
    """Neither WARC nor gzip: one quarantined record, all bytes lost."""
    stretch, size = archive.stretch, archive.file.size
    if not archive.proven:
        yield archive.nothing()
        return
    if archive.start == 0:
        archive.lose_record({"key": archive.key, "offset": 0, "length": size, "inner": 0}, "not_warc")
    stretch.num_bytes["lost"] += size - archive.start
    yield stretch.close(size)
