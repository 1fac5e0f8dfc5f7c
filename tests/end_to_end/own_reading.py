"""The quickstart's inputs read without the project's code: what records there are, and what must become of them."""

import contextlib
import gzip
import html
import json
import re
import tarfile
import unicodedata
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import zstandard
from fastwarc.warc import ArchiveIterator, WarcRecordType

Fates = Counter[tuple[str, str | None]]  # (fate, reason)
TAG = re.compile(r"<(script|style)\b.*?</\1>|<[^>]+>", re.DOTALL | re.IGNORECASE)
WORD = re.compile(r"[^\W_]+")
FOREIGN = re.compile(r"https?://(rights\.example\.org|an\.wikipedia\.org)/")


@dataclass
class Record:
    """All that the inputs hold under one name of one source."""

    source: str
    name: str  # "" where it has none
    ask: list[str]  # by what one may ask for it
    raws: list[bytes] = field(default_factory=list)
    expected: Fates = field(default_factory=Counter)
    keeper: str | None = None  # name of the record that is kept in its stead, where the inputs tell


def words_of(raw: bytes) -> list[str]:
    """The words of markup or JSON."""
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        text = raw.decode("cp1252", "replace")  # what the other pages of the example declare
    if text.startswith('{"') and text.endswith("}"):
        with contextlib.suppress(ValueError):  # broken on purpose
            text = str(json.loads(text)["text"])
    return WORD.findall(unicodedata.normalize("NFC", html.unescape(TAG.sub(" ", text))))


def content_of(path: Path) -> bytes:
    """The whole content of an input."""
    data = path.read_bytes()
    if path.suffix == ".gz":
        return gzip.decompress(data)
    return zstandard.ZstdDecompressor().stream_reader(data).read() if path.suffix == ".zst" else data


def bytes_at(root: Path, origin: dict[str, Any]) -> bytes:
    """What an origin leads to, by the letter of its contract; up to the end of the record where that can be seen."""
    with (root / origin["key"]).open("rb") as file:
        file.seek(origin["offset"])
        stored = file.read(origin["length"])
    if stored.startswith(b"\x1f\x8b"):
        stored = zlib.decompressobj(wbits=31).decompress(stored)
    elif stored.startswith(b"\x28\xb5\x2f\xfd"):
        stored = zstandard.ZstdDecompressor().stream_reader(stored).read()
    record: bytes = stored[origin["inner"] or 0 :]
    if record.startswith(b"WARC/"):
        return payload_of(record)
    for begin, end in ((b"<PubmedArticle", b"</PubmedArticle>"), (b"{", b"\n")):
        if record.startswith(begin):
            return record.partition(end)[0]
    return record[: record.find(b"</article>")] if b"<article" in record[:2000] else record


def payload_of(record: bytes) -> bytes:
    """What a page's server sent, without the codings of its transport."""
    _, _, http = record.partition(b"\r\n\r\n")
    head, _, body = http.partition(b"\r\n\r\n")
    return decoded(head.decode("latin-1").lower(), body)


def decoded(head: str, body: bytes) -> bytes:
    """A body without chunks and compression, as its header says."""
    if re.search(r"transfer-encoding: *chunked", head) and re.match(rb"[0-9a-f]+\r\n", body):  # crawlers may undo it
        parts = []
        while size := int(body.partition(b"\r\n")[0], 16):
            body = body.partition(b"\r\n")[2]
            parts.append(body[:size])
            body = body[size + 2 :]
        body = b"".join(parts)
    is_packed = re.search(r"content-encoding: *gzip", head) and body.startswith(b"\x1f\x8b")
    return zlib.decompressobj(wbits=31).decompress(body) if is_packed else body


def articles(folder: Path) -> Iterator[Record]:
    """By PMCID; the same bytes again are merged."""
    raws = [path.read_bytes() for path in sorted(folder.glob("*.xml"))]
    with tarfile.open(folder / "articles.tar.gz") as archive:
        members = [member for member in archive if member.name.endswith(".nxml")]
        raws += [file.read() for member in members if (file := archive.extractfile(member))]
    found: dict[str, Record] = {}
    for raw in raws:
        number, pmid = article_id(raw, "pmc"), article_id(raw, "pmid")
        name = f"PMC{number}"
        ask = [name, f"pmc{number}", *([f"PMID:{pmid}", str(pmid)] if pmid else [])]
        found.setdefault(name, Record("articles", name, ask)).raws.append(raw)
    for record in found.values():
        record.expected = Counter({("kept", None): 1, ("merged", "same_record"): len(record.raws) - 1})
        record.keeper = record.name
        yield record


def article_id(raw: bytes, kind: str) -> str | None:
    """The id of this kind in the front of an article."""
    match = re.search(rf'<article-id pub-id-type="{kind}"[^>]*>(?:PMC)?(\d+)<'.encode(), raw)
    return match[1].decode() if match else None


def citations(folder: Path, full_texts: dict[str, str]) -> Iterator[Record]:
    """By PMID: deletions apply, full texts replace, the newest stays. `full_texts`: PMID -> name of an article."""
    versions: dict[str, list[bytes]] = defaultdict(list)
    deleted = Counter[str]()
    for path in sorted(folder.glob("*.xml.gz")):
        text = content_of(path)
        for raw in re.findall(rb"<PubmedArticle>.*?</PubmedArticle>", text, re.DOTALL):
            number = re.search(rb"<PMID[^>]*>(\d+)<", raw)
            versions[number[1].decode() if number else ""].append(raw)
        for part in re.findall(rb"<DeleteCitation>(.*?)</DeleteCitation>", text, re.DOTALL):
            deleted.update(one.decode() for one in re.findall(rb">(\d+)</PMID>", part))
    for pmid, raws in versions.items():
        record = Record("citations", f"PMID:{pmid}", [pmid, f"PMID:{pmid}", f"pmid {pmid}"], raws)
        if deleted[pmid]:
            record.expected = Counter({("dropped", "deleted"): len(raws), ("dropped", "applied"): deleted[pmid]})
        elif pmid in full_texts:
            record.expected = Counter({("merged", "full_text"): 1, ("merged", "older_version"): len(raws) - 1})
            record.keeper = full_texts[pmid]
        else:
            record.expected = Counter({("kept", None): 1, ("merged", "older_version"): len(raws) - 1})
            record.keeper = record.name
        yield record


def pages(folder: Path) -> Iterator[Record]:
    """By WARC-Record-ID: HTML pages that were found. What is merged as a duplicate is left to the caller."""
    found: dict[str, Record] = {}
    for path in sorted(folder.glob("*.warc*")):
        with path.open("rb") as stream:
            for one in ArchiveIterator(stream, record_types=WarcRecordType.response):
                kind = str(one.http_headers.get("Content-Type", "")) if one.http_headers else ""
                if one.http_headers is None or one.http_headers.status_code != 200 or "html" not in kind:
                    continue
                name, url = str(one.record_id).strip("<>"), one.headers["WARC-Target-URI"]
                record = found.setdefault(name, Record("web", name, [name, f"<{name}>", url]))
                head = "\n".join(f"{key}: {value}" for key, value in one.http_headers.asdict().items()).lower()
                record.raws.append(decoded(head, one.reader.read()))
    for record in found.values():
        main = re.search(rb"<main>(.*?)</main>", record.raws[0], re.DOTALL)
        if FOREIGN.match(record.ask[2]):
            record.expected = Counter({("dropped", "language"): 1})
        elif len(words_of(main[1] if main else record.raws[0])) < 50:
            record.expected = Counter({("dropped", "too_few_words"): 1})
        else:
            record.expected = Counter({("kept", None): 1, ("merged", "same_record"): len(record.raws) - 1})
        record.keeper = record.name
        yield record


def texts(folder: Path) -> Iterator[Record]:
    """Lines: by id, those that cannot be read by place. Whether the mix needs one is left to the caller."""
    for path in sorted(folder.glob("*.jsonl*")):
        position = 0
        for line in content_of(path).split(b"\n"):
            if line.strip():
                try:
                    name = str(json.loads(line)["id"])
                    yield Record("general", name, [name], [line], Counter({("kept", None): 1}))
                except ValueError:
                    expected: Fates = Counter({("quarantined", "bad_json"): 1})
                    yield Record("general", "", [f"{path.name}@{position}"], [line], expected)
            position += len(line) + 1
