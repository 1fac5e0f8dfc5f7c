"""JATS full-text articles, as PubMed Central and publishers give them: reading and extraction."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa
import xxhash

from curate.core.errors import DataError, PlanError
from curate.core.hashing import record_id
from curate.core.schema import DOCUMENT, IDENTITY, schema_of
from curate.core.stage import Columns, InputFile, Map, Quarantined, Reader, Records, Slice, with_columns
from stages.compressed import Stream, open_stream
from stages.jats_front import JatsFront, article_url, read_front
from stages.jats_options import JatsOptions
from stages.jats_references import without_references
from stages.jats_text import article_text
from stages.stretch import Stretch, check_max_record_bytes
from stages.tar import Member, Tar, TarDamage
from stages.xml import parse

COLUMNS: Columns = {
    **IDENTITY,
    **{name: DOCUMENT[name] for name in ("content", "url", "language", "license", "date", "kind")},
    **dict.fromkeys(("pmid", "pmcid", "doi", "journal", "license_use", "license_evidence"), pa.string()),
    "retracted": pa.bool_(),
}
_FRONT = ("language", "date", "kind", "pmid", "pmcid", "doi", "journal", "retracted")
_ARCHIVE = re.compile(r".*\.(?:tar|tar\.gz|tar\.zst|tgz)", re.IGNORECASE | re.DOTALL)
_ARTICLE = re.compile(r".*\.n?xml(?:\.gz|\.zst)?", re.IGNORECASE | re.DOTALL)
_MEMBER = re.compile(r".*\.n?xml", re.IGNORECASE | re.DOTALL)


@dataclass(frozen=True, kw_only=True)
class ReadJats(Reader):
    """One article an .xml or .nxml file, or many in a .tar; both may be .gz or .zst.

    Adds: the identity columns; content (the XML), url (of the DOI, else of PMC or PubMed; null without
    ids), language (as the article states it), date (of publication), kind (article-type), journal; pmid,
    pmcid (PMC<number>, with `.version` where stated) and doi (strings); retracted (whether the article
    says so). license (cc0, public-domain, cc-by, cc-by-sa, ...; see `stages.jats_license`; null where none
    is stated), license_use (commercial, non_commercial, unclear) and license_evidence (the words or link).
    Drops, counted only: not_article (other members of an archive; XML whose root is not `article`).
    Quarantines: `bad_xml` and `unsafe_xml` where they show before the end of the article's metadata
    (behind it, `ExtractJats` finds them); `too_large`; what is damaged: an input that ends early or
    goes on with garbage gives its whole articles and one record quarantined as `truncated`,
    `corrupt`, `garbage` or `bomb`; the rest is lost. Folders, headers and padding are framing.

    A record's id is its PMCID (with version, where the article states it), else its PMID, else its
    bytes. Nothing is unpacked to disk, and no name in an archive is used as a path.
    """

    version: ClassVar[int] = 3
    libraries: ClassVar[tuple[str, ...]] = ("lxml", "zstandard")
    # 150 MB a second of XML, which gzip shrinks to a fourth; ExtractJats then takes most of a unit's time.
    bytes_per_second: ClassVar[int] = 5_000_000

    paths: tuple[str, ...]
    max_record_bytes: int = 64 << 20  # of one article, decompressed

    def __post_init__(self) -> None:
        """Refuse what could only ever read nothing."""
        check_max_record_bytes(self.max_record_bytes)

    @property
    def adds(self) -> Columns:
        """The columns of its batches."""
        return COLUMNS

    def has_entry_points(self, key: str) -> bool:
        """False: an article, or an archive, is read from its first byte."""
        _check_name(key)
        return False

    def open(self) -> Callable[[Slice, InputFile], Iterator[Records]]:
        """The function that reads a slice."""
        return self._read

    def _read(self, piece: Slice, file: InputFile) -> Iterator[Records]:
        key = piece.input.key
        _check_name(key)
        source = _Source(key, file, self.max_record_bytes)
        if _ARCHIVE.fullmatch(key):
            yield from _read_archive(source)
        else:
            _read_article(source)
        yield source.close()


@dataclass(frozen=True, kw_only=True)
class ExtractJats(JatsOptions, Map):
    """Title and text of an article; `stages.jats_text` says what they hold, `stages.jats_inline` how it is written.

    Reads: content.
    Adds: text (Markdown headings and lists, paragraphs apart by an empty line; empty where the
    article has neither abstract nor body), title (null where there is none). Removes: content.
    Raises: DataError('bad_xml'), DataError('unsafe_xml').
    Source: bag-of-words F1 0.986 on the 78 articles of CRAFT (acknowledgments and funding kept), where a dump of
    all text has 0.940.
    """

    version: ClassVar[int] = 4
    libraries: ClassVar[tuple[str, ...]] = ("lxml",)
    reads: ClassVar[tuple[str, ...]] = ("content",)
    removes: ClassVar[tuple[str, ...]] = ("content",)

    @property
    def adds(self) -> Columns:
        """Text and title."""
        return {"text": DOCUMENT["text"], "title": DOCUMENT["title"]}

    def open(self) -> Callable[[pa.RecordBatch], pa.RecordBatch]:
        """The function that maps a batch."""
        return self._extract

    def _extract(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        titles, texts = [], []
        for content in batch.column("content"):
            title, text = self._title_and_text(content.as_py()) if content.is_valid else (None, None)
            titles.append(title)
            texts.append(text)
        columns = {"text": pa.array(texts, DOCUMENT["text"]), "title": pa.array(titles, DOCUMENT["title"])}
        return with_columns(batch, columns, self.removes)

    def _title_and_text(self, data: bytes) -> tuple[str | None, str]:
        return article_text(parse(without_references(data) if self.references == "drop" else data), self)


def _check_name(key: str) -> None:
    if not (_ARCHIVE.fullmatch(key) or _ARTICLE.fullmatch(key)):
        wanted = ".xml, .nxml, .xml.gz, .tar, .tar.gz or .tgz"
        raise PlanError(f"ReadJats cannot read {key!r}: found another kind of file, wanted {wanted}; narrow `paths`")


class _Source:
    """One input while it is read: its content, and the account of the stretch at hand."""

    def __init__(self, key: str, file: InputFile, max_record_bytes: int) -> None:
        self.key = key
        self.size = file.size
        self.max_record_bytes = max_record_bytes
        self.stream: Stream = open_stream(file, key)
        self.stretch = Stretch(schema_of(dict(COLUMNS)), 0)
        self._accounted = 0  # content bytes of the stretches before

    def take(self, data: bytes, name: str, inner: int) -> None:
        """Enter one article, whole, as framed."""
        try:
            front = read_front(data)
        except DataError as error:
            self.stretch.num_bytes["record"] += len(data)
            self.quarantine(data, name, inner, error.reason, error.detail)
            return
        if front is None:
            self.drop(len(data))
            return
        self.stretch.num_bytes["record"] += len(data)
        self.stretch.keep(self._row(front, data, name, inner), len(data))

    def drop(self, num_bytes: int) -> None:
        """Enter what is no article."""
        self.stretch.num_bytes["skipped"] += num_bytes
        self.stretch.drop("not_article")

    def quarantine(self, data: bytes, name: str, inner: int, reason: str, detail: str = "") -> None:
        """Enter a bad record; one whose bytes are not at hand is known by its place."""
        native = data or f"{self.key}@{inner}"
        self.stretch.quarantine(
            Quarantined(
                id=record_id("jats", native), name=name, origin=self._origin(inner), reason=reason, detail=detail
            )
        )

    def hand_over(self, content_position: int) -> Records:
        """The stretch so far, before the input's end."""
        records = self.stretch.close(0, content_position - self._accounted)
        self._accounted = content_position
        return records

    def close(self) -> Records:
        """The last stretch."""
        undecoded = self.stream.undecoded_bytes
        self.stretch.num_bytes["lost"] += undecoded
        return self.stretch.close(self.size, self.stream.content_position + undecoded - self._accounted)

    def _row(self, front: JatsFront, data: bytes, name: str, inner: int) -> dict[str, Any]:
        native = front.pmcid or (f"PMID:{front.pmid}" if front.pmid else None)
        return {
            "id": record_id("jats", native or data),
            "name": native or front.doi or _printable(name),
            "record_hash": xxhash.xxh3_128_digest(data),
            "origin": self._origin(inner),
            "content": data,
            "url": article_url(front.doi, front.pmcid, front.pmid),
            "license": front.license.name,
            "license_use": front.license.use,
            "license_evidence": front.license.evidence,
            **{name: getattr(front, name) for name in _FRONT},
        }

    def _origin(self, inner: int) -> dict[str, Any]:
        return {"key": self.key, "offset": 0, "length": self.size, "inner": inner}


def _printable(name: str) -> str:
    """A member's name without the surrogates that stand for bytes that are not UTF-8."""
    return name.encode("utf-8", "backslashreplace").decode()


def _read_article(source: _Source) -> None:
    """An input that is one article."""
    stream, pieces, name = source.stream, [], source.key
    while piece := stream.read():
        if stream.content_position <= source.max_record_bytes:
            pieces.append(piece)
    source.stretch.num_records += 1
    if stream.damage:
        source.stretch.num_bytes["lost"] += stream.content_position
        source.quarantine(b"", name, 0, stream.damage)
    elif stream.content_position > source.max_record_bytes:
        source.stretch.num_bytes["record"] += stream.content_position
        source.quarantine(b"", name, 0, "too_large", _size_detail(stream.content_position, source.max_record_bytes))
    else:
        source.take(b"".join(pieces), name, 0)


def _read_archive(source: _Source) -> Iterator[Records]:
    """An input that is a tar archive."""
    tar = Tar(source.stream.read)
    sound = framing = 0  # position and framing bytes behind the last whole member
    cut: Member | None = None  # the member that is being read
    try:
        while member := tar.next_member():
            cut = member
            source.stretch.num_records += not member.is_folder
            _take_member(source, tar, member)
            source.stretch.num_bytes["framing"] += tar.framing_bytes - framing
            cut, sound, framing = None, tar.position, tar.framing_bytes
            if source.stretch.full:
                yield source.hand_over(sound)
        damage, detail = source.stream.damage, ""
    except TarDamage as error:
        tar.drain()
        damage, detail = source.stream.damage or error.kind, str(error)
    if damage is None:
        source.stretch.num_bytes["framing"] += tar.framing_bytes - framing
    else:
        source.stretch.num_bytes["lost"] += tar.position - sound
        source.stretch.num_records += cut is None
        source.quarantine(b"", _printable(cut.name) if cut else source.key, sound, damage, detail)


def _take_member(source: _Source, tar: Tar, member: Member) -> None:
    """Enter a member. Raises: TarDamage where the stream ends in it."""
    name = _printable(member.name)
    if member.is_folder:
        tar.skip(member)
    elif not _MEMBER.fullmatch(member.name):
        tar.skip(member)
        source.drop(member.size)
    elif member.size > source.max_record_bytes:
        tar.skip(member)
        source.stretch.num_bytes["record"] += member.size
        source.quarantine(b"", name, member.offset, "too_large", _size_detail(member.size, source.max_record_bytes))
    else:
        source.take(tar.read(member), name, member.offset)


def _size_detail(size: int, max_bytes: int) -> str:
    return f"{size} bytes, more than {max_bytes}"
