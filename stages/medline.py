"""PubMed citations, as NLM distributes them: baseline and update files of MEDLINE XML."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa
import xxhash

from curate.core.errors import DataError, PlanError
from curate.core.hashing import record_id
from curate.core.schema import DOCUMENT, IDENTITY, schema_of
from curate.core.stage import Columns, InputFile, Quarantined, Reader, Records, Slice
from stages.compressed import open_stream
from stages.jats_front import article_url
from stages.jats_options import Choice
from stages.medline_citation import Pmid, read_citation, read_pmid
from stages.medline_framing import Cutter, Piece
from stages.stretch import Stretch, check_max_record_bytes
from stages.xml import parse

CITATION, DELETION = "citation", "deletion"
COLUMNS: Columns = {
    **IDENTITY,
    **{name: DOCUMENT[name] for name in ("text", "url", "title", "language", "license", "date", "kind")},
    **dict.fromkeys(("pmid", "pmcid", "doi", "journal"), pa.string()),
    **{"pmid_version": pa.int32(), "pubmed_file": pa.int64(), "pubmed_position": pa.int64(), "retracted": pa.bool_()},
}
_NAME = re.compile(r".*\.xml(?:\.gz|\.zst)?", re.IGNORECASE | re.DOTALL)
_NLM_NAME = re.compile(r"(?:pubmed|medline)(\d\d)n(\d{4,6})")
_MAX_DIGITS = 18  # of a number in a file's name: an int64


@dataclass(frozen=True, kw_only=True)
class ReadMedline(Reader):
    """Citations and deletions of PubmedArticleSet files: .xml, also .gz or .zst.

    Adds: the identity columns; text (title and abstract, see `stages.medline_citation`; empty without
    an abstract), title, url, license (null), journal, language (of the text), date (of publication), kind
    (`citation` or `deletion`), pmid, pmcid and doi (strings), pmid_version, retracted (whether PubMed
    says so), and what decides which record is the newest: pubmed_file (number of the file's name) and
    pubmed_position (of the record's first byte in the file's content).
    Drops, counted only: book (PubmedBookArticle); not_citations (a file with another root).
    Quarantines: `bad_xml` (a record that is not well formed, bytes outside of records), `unsafe_xml`,
    `bad_pmid`, `too_large`; reading goes on at the next record. A file that ends early or is damaged
    gives its whole records and one record quarantined as `truncated`, `corrupt`, `garbage` or `bomb`.

    A PMID in DeleteCitation is a record of its own, a document without text that
    `stages.pubmed.OneDocumentPerPmid` applies: put that step first, as other steps may drop it.

    A record's id is that of its place: PMID, version, file number and position. PubMed gives one PMID and
    version out again and again with other content; those are no conflicts, and the stage above decides
    between them. The same file in two folders, or with and without .gz, gives the same records.

    The number of pubmed26n1335.xml.gz is 26001335, so that the files of a year follow those of the
    year before; that of any other name is made of all its digits, 0 without any.
    """

    version: ClassVar[int] = 2
    libraries: ClassVar[tuple[str, ...]] = ("lxml", "zstandard")
    bytes_per_second: ClassVar[int] = 3_000_000  # of .gz: 3,200 citations of 5 KB, measured

    paths: tuple[str, ...]
    translations: Choice = "drop"  # the title in the article's language, and abstracts in others than the first
    max_record_bytes: int = 16 << 20  # of one citation; the largest, with thousands of investigators, have 2 MB

    def __post_init__(self) -> None:
        """Refuse what could only ever read nothing."""
        check_max_record_bytes(self.max_record_bytes)

    @property
    def adds(self) -> Columns:
        """The columns of its batches."""
        return COLUMNS

    def has_entry_points(self, key: str) -> bool:
        """False: a set is read from its first byte."""
        file_number(key)
        return False

    def open(self) -> Callable[[Slice, InputFile], Iterator[Records]]:
        """The function that reads a slice."""
        return self._read

    def _read(self, piece: Slice, file: InputFile) -> Iterator[Records]:
        source = _Source(piece.input.key, file.size, self.translations)
        stream = open_stream(file, piece.input.key)
        cutter = Cutter(stream, self.max_record_bytes)
        for part in cutter.pieces():
            source.take(part, cutter)
            if source.stretch.full:
                yield source.stretch.close(0, source.counted_bytes())
        source.stretch.num_bytes["lost"] += stream.undecoded_bytes
        yield source.stretch.close(file.size, source.counted_bytes())


def file_number(key: str) -> int:
    """The number that orders files. Raises: PlanError where the name is not one of XML, or its number too long."""
    name = key.rpartition("/")[2]
    if not _NAME.fullmatch(name):
        wanted = ".xml, .xml.gz or .xml.zst"
        raise PlanError(f"ReadMedline cannot read {key!r}: found another kind of file, wanted {wanted}; narrow `paths`")
    if found := _NLM_NAME.search(name):
        return int(found[1] + found[2].zfill(6))
    digits = "".join(re.findall(r"[0-9]", name))
    if len(digits) > _MAX_DIGITS:
        raise PlanError(f"ReadMedline cannot order {key!r}: its name has {len(digits)} digits, at most {_MAX_DIGITS}")
    return int(digits or "0")


class _Source:
    """One input while it is read: the account of the stretch at hand."""

    def __init__(self, key: str, size: int, translations: Choice) -> None:
        self.stretch = Stretch(schema_of(dict(COLUMNS)), 0)
        self._key = key
        self._size = size
        self._translations = translations
        self._file = file_number(key)
        self._is_stored = key.lower().endswith(".xml")

    def counted_bytes(self) -> int:
        """Content of the stretch."""
        return self.stretch.num_bytes.total()

    def take(self, piece: Piece, cutter: Cutter) -> None:
        """Enter one piece."""
        self.stretch.num_bytes[_kind_of_bytes(piece)] += piece.length
        if piece.kind in ("framing", "rest"):
            return
        self.stretch.num_records += 1
        if piece.kind == "book":
            self.stretch.drop("book")
        elif piece.kind == "other":
            self.stretch.drop("not_citations")
        elif piece.kind == "broken":
            self._quarantine(piece, piece.reason, piece.detail)
        else:
            self._take_record(piece, cutter)

    def _take_record(self, piece: Piece, cutter: Cutter) -> None:
        try:
            (record,) = parse(cutter.in_context(piece.data))
            row = _citation_row(record, self._translations) if piece.kind == CITATION else _deletion_row(record)
        except DataError as error:
            self._quarantine(piece, error.reason, error.detail)
            return
        pmid: Pmid = row.pop("pmid")
        version = "" if pmid.version is None else f".{pmid.version}"
        row |= {
            "id": record_id("medline", f"{pmid.number}{version}@{self._file}.{piece.position}"),
            "name": f"PMID:{pmid.number}",
            "record_hash": xxhash.xxh3_128_digest(piece.data),
            "origin": self._origin(piece),
            "kind": piece.kind,
            "pmid": pmid.number,
            "pmid_version": pmid.version,
            "pubmed_file": self._file,
            "pubmed_position": piece.position,
        }
        self.stretch.keep(row, len(row["text"] or ""))

    def _quarantine(self, piece: Piece, reason: str, detail: str) -> None:
        """Enter a bad record; one whose bytes are not at hand is known by its place."""
        native = piece.data or f"{self._key}@{piece.position}"
        self.stretch.quarantine(
            Quarantined(
                id=record_id("medline", native), name="", origin=self._origin(piece), reason=reason, detail=detail
            )
        )

    def _origin(self, piece: Piece) -> dict[str, Any]:
        if self._is_stored:
            return {"key": self._key, "offset": piece.position, "length": piece.length, "inner": 0}
        return {"key": self._key, "offset": 0, "length": self._size, "inner": piece.position}


def _kind_of_bytes(piece: Piece) -> str:
    if piece.kind == "framing":
        return "framing"
    if piece.kind in ("book", "other") or (piece.kind == "rest" and not piece.reason):
        return "skipped"
    is_lost = piece.kind in ("broken", "rest") and piece.reason != "too_large"
    return "lost" if is_lost else "record"


def _citation_row(record: Any, translations: Choice) -> dict[str, Any]:
    citation = read_citation(record, translations == "keep")
    names = ("pmid", "pmcid", "doi", "journal", "title", "text", "language", "date")
    url = article_url(citation.doi, None, citation.pmid.number)
    return {name: getattr(citation, name) for name in names} | {"retracted": citation.is_retracted, "url": url}


def _deletion_row(record: Any) -> dict[str, Any]:
    return {"pmid": read_pmid(record), "text": None}
