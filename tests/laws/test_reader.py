"""The law of readers: the same records, drops, bad records and bytes however an input is cut into slices."""

import gzip
import io
import itertools
import json
import tarfile
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st
from lxml import etree

from curate.core.stage import Input, Reader, Slice
from curate.core.storage import ObjectFile
from stages.jats import ReadJats
from stages.jsonl import ReadJsonl
from stages.medline import ReadMedline
from stages.warc import ReadWarc

BYTES = ("content_bytes", "record_bytes", "framing_bytes", "skipped_bytes", "lost_bytes")


class MemoryFile(ObjectFile):
    """Bytes as an input."""

    def __init__(self, data: bytes) -> None:
        super().__init__(len(data))
        self._data = data

    def _fetch(self, offset: int, length: int) -> bytes:
        return self._data[offset : offset + length]


class Account:
    """All that was read of an input, to be compared."""

    def __init__(self) -> None:
        self.documents: list[dict[str, Any]] = []
        self.bad: list[dict[str, Any]] = []
        self.drops: Counter[str] = Counter()
        self.num_bytes: Counter[str] = Counter()
        self.num_records = 0
        self.first: int | None = None
        self.end = 0

    def read(self, reader: Reader, piece: Slice, file: MemoryFile) -> "Account":
        by_position = reader.has_entry_points(piece.input.key)
        for records in reader.open()(piece, file):
            assert self.first is None or records.first == self.end, "stretches follow each other"
            assert records.content_bytes == sum(getattr(records, name) for name in BYTES[1:])
            assert not by_position or records.content_bytes == records.end - records.first
            assert all(getattr(records, name) >= 0 for name in BYTES)
            self.first = records.first if self.first is None else self.first
            self.end = records.end
            self.documents += records.batch.to_pylist()
            self.bad += [vars(record) for record in records.quarantined]
            self.drops.update(records.drops)
            self.num_records += records.num_records
            self.num_bytes.update({name: getattr(records, name) for name in BYTES})
        assert self.first is not None, "at least one stretch"
        assert self.num_records == len(self.documents) + len(self.bad) + self.drops.total()
        return self

    def add(self, other: "Account") -> None:
        self.documents += other.documents
        self.bad += other.bad
        self.drops += other.drops
        self.num_bytes += other.num_bytes
        self.num_records += other.num_records
        self.end = other.end

    def facts(self) -> tuple[Any, ...]:
        return self.documents, self.bad, self.drops, +self.num_bytes, self.num_records, self.end


def read_whole(reader: Reader, key: str, data: bytes) -> Account:
    item = Input(key, len(data), "")
    return Account().read(reader, Slice(item, 0, len(data), True), MemoryFile(data))


def read_cut(reader: Reader, key: str, data: bytes, cuts: Sequence[int]) -> Account:
    """As the engine does: a slice that does not begin where the last one ended is read again from there."""
    item, file, total = Input(key, len(data), ""), MemoryFile(data), Account()
    bounds = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    for start, stop in itertools.pairwise(bounds):
        part = Account().read(reader, Slice(item, start, stop, start == 0), file)
        if total.end >= stop:
            continue
        if part.first != total.end:
            part = Account().read(reader, Slice(item, total.end, stop, True), file)
            assert part.first == total.end, "a proven slice begins where it is told to"
        total.add(part)
    return total


def check(reader: Reader, key: str, data: bytes, cuts: Sequence[int]) -> Account:
    whole = read_whole(reader, key, data)
    assert whole.first == 0
    assert whole.end == len(data)
    cut = read_cut(reader, key, data, cuts if reader.has_entry_points(key) else [])
    assert cut.facts() == whole.facts()
    return whole


# WARC

PAGES = st.builds(
    lambda word, count: b"<html><p>" + word * count + b"</html>",
    st.sampled_from(
        [b"alpha ", b"WARC/1.0\r\n", b"\r\n\r\n", b"\nWARC/1.0\r\nWARC-Type: response\r\n", b"\x1f\x8b\x08"]
    ),
    st.integers(0, 40),
)


def warc_record(number: int, kind: str, block: bytes, wrong: int = 0, end: bytes = b"\r\n\r\n") -> bytes:
    head = (
        f"WARC/1.0\r\nWARC-Type: {kind}\r\nWARC-Record-ID: <urn:record:{number}>\r\n"
        f"WARC-Target-URI: http://a.example/\r\nWARC-Date: 2024-05-01T00:00:00Z\r\n"
        f"Content-Type: application/http\r\nContent-Length: {len(block) + wrong}\r\n\r\n"
    )
    return head.encode() + block + end


def response(page: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n" + page


@st.composite
def warc_records(draw: st.DrawFn, depth: int = 1) -> bytes:
    """One record, sound or not; its payload may be a WARC file, plain or gzip."""
    pages = PAGES if depth == 0 else PAGES | plain_warcs(depth=0) | gzip_warcs(depth=0)
    kind = draw(st.sampled_from(["response", "response", "response", "request", "resource"]))
    wrong = draw(st.sampled_from([0] * 9 + [-7, 9, 300, 10**12]))
    end = draw(st.sampled_from([b"\r\n\r\n"] * 5 + [b"\r\n", b"\n\n", b"", b"\r\n\r\n\r\n\r\n"]))
    return warc_record(draw(st.integers(0, 10**6)), kind, response(draw(pages)), wrong, end)


GARBAGE = st.sampled_from(
    [b"garbage\r\n", b"\0" * 40, b"WARC/", b"WARC/1.0\r\nWARC-Type: response\r\n\r\n", b"\x1f\x8b\x08junk"]
)


@st.composite
def plain_warcs(draw: st.DrawFn, depth: int = 1) -> bytes:
    parts = draw(st.lists(warc_records(depth=depth) | warc_records(depth=depth) | GARBAGE, min_size=1, max_size=5))
    return damage(draw, warc_record(0, "warcinfo", b"software: test\r\n") + b"".join(parts))


@st.composite
def gzip_warcs(draw: st.DrawFn, depth: int = 1) -> bytes:
    """Members stored or compressed, of one record or several, with garbage and padding between them."""
    members = st.builds(
        gzip.compress,
        st.builds(b"".join, st.lists(warc_records(depth=depth), max_size=2)) | GARBAGE,
        st.sampled_from([0, 0, 9]),
        mtime=st.just(0),
    )
    parts = draw(st.lists(members | members | GARBAGE, min_size=1, max_size=5))
    return damage(draw, gzip.compress(warc_record(0, "warcinfo", b"software: test\r\n"), mtime=0) + b"".join(parts))


def damage(draw: st.DrawFn, data: bytes) -> bytes:
    """Sometimes cut, sometimes with a changed byte."""
    kind = draw(st.sampled_from(["none", "none", "cut", "flip"]))
    at = draw(st.integers(1, len(data) - 1))
    if kind == "cut":
        return data[:at]
    return data[:at] + bytes([data[at] ^ 0x55]) + data[at + 1 :] if kind == "flip" else data


CUTS = st.lists(st.integers(1, 60_000), max_size=30)


@settings(max_examples=100, deadline=None)
@given(plain_warcs(), CUTS)
def test_plain_warc_is_read_alike_however_it_is_cut(data: bytes, cuts: list[int]) -> None:
    check(ReadWarc(paths=()), "a.warc", data, [cut % len(data) for cut in cuts])


@settings(max_examples=100, deadline=None)
@given(gzip_warcs(), CUTS)
def test_gzip_warc_is_read_alike_however_it_is_cut(data: bytes, cuts: list[int]) -> None:
    check(ReadWarc(paths=()), "a.warc.gz", data, [cut % len(data) for cut in cuts])


LARGE = b"".join(bytes([at * 7 & 255 | 1, at >> 3 & 255 | 1]) for at in range(100_000))  # holds no NUL


@pytest.mark.parametrize("changed", [None, 20_000, 65_600, 140_000, 199_990])
@pytest.mark.parametrize("level", [0, 9])
def test_a_record_longer_than_its_slices_is_read_whole(changed: int | None, level: int) -> None:
    inner = gzip.compress(warc_record(7, "response", response(b"<p>inner</p>")), 0, mtime=0)
    block = response(LARGE[:150_000] + inner + LARGE[150_000:])
    member = gzip.compress(warc_record(1, "response", block), level, mtime=0)
    if changed is not None and changed < len(member):
        member = member[:changed] + bytes([member[changed] ^ 0x55]) + member[changed + 1 :]
    ends = [gzip.compress(warc_record(number, "response", response(b"<p>end</p>")), mtime=0) for number in (0, 2)]
    for key, data in {
        "a.warc.gz": ends[0] + member + ends[1],
        "a.warc": warc_record(0, "request", b"") + warc_record(1, "response", block) + warc_record(2, "request", b""),
    }.items():
        whole = check(ReadWarc(paths=()), key, data, range(4_999, len(data), 4_999))
        assert whole.num_records >= 3


# JSON Lines

LINES = st.one_of(
    st.builds(
        lambda number, text: json.dumps({"id": number, "text": text}, ensure_ascii=False).encode(
            "utf-8", "surrogatepass"
        ),
        st.integers(0, 9) | st.text(max_size=3),
        st.text(max_size=60),
    ),
    st.sampled_from(
        [b"", b" ", b"\r", b"{", b"[]", b"null", b'{"text": 1}', b'{"text": "a"}\r', b"\xef\xbb\xbf", b"\xff\xfe"]
    ),
    st.integers(60, 90).map(lambda size: b"x" * size),
)
FILES = st.builds(
    lambda lines, end: b"\n".join(lines) + end, st.lists(LINES, max_size=30), st.sampled_from([b"", b"\n"])
)


@settings(max_examples=300, deadline=None)
@given(FILES, CUTS)
def test_jsonl_is_read_alike_however_it_is_cut(data: bytes, cuts: list[int]) -> None:
    reader = ReadJsonl(paths=(), id="id", max_record_bytes=80)
    check(reader, "a.jsonl", data, [cut % max(1, len(data)) for cut in cuts])


@settings(max_examples=100, deadline=None)
@given(FILES, st.integers(0, 99))
def test_compressed_jsonl_holds_the_records_of_the_plain_file(data: bytes, at: int) -> None:
    middle = at * len(data) // 100
    reader = ReadJsonl(paths=(), id="id", max_record_bytes=80)
    plain = check(reader, "a.jsonl", data, [])
    frame = zstandard.ZstdCompressor().compress
    packed = {
        "a.jsonl.gz": gzip.compress(data[:middle]) + gzip.compress(data[middle:]),
        "a.jsonl.zst": frame(data[:middle]) + frame(data[middle:]),
    }
    for key, stored in packed.items():
        whole = check(reader, key, stored, [])
        assert (whole.drops, whole.num_records) == (plain.drops, plain.num_records)
        assert [bad["reason"] for bad in whole.bad] == [bad["reason"] for bad in plain.bad]
        assert +whole.num_bytes == +plain.num_bytes
        for mine, same in zip(whole.documents, plain.documents, strict=True):
            assert mine["origin"] == {
                "source": None,
                "key": key,
                "offset": 0,
                "length": len(stored),
                "inner": same["origin"]["offset"],
            }
            assert mine | {"origin": None} == same | {"origin": None}


# JATS


def article(number: int, size: int) -> bytes:
    meta = f'<article-id pub-id-type="pmc">{number}</article-id>' if number else ""
    front = f"<front><article-meta>{meta}</article-meta></front>"
    return f"<article>{front}<body><p>{'word ' * size}</p></body></article>".encode()


CONTENTS = st.builds(article, st.integers(0, 3), st.integers(0, 300)) | st.sampled_from(
    [b"", b"<sbml/>", b"<article>", b"\xff\xd8" * 400, b"\0" * 1024]
)
MEMBERS = st.lists(
    st.tuples(st.sampled_from(["a.nxml", "b/c.xml", "b/", "d.jpg", "x" * 120 + ".xml", "\u4e2d.xml"]), CONTENTS),
    max_size=6,
)


def archive(members: list[tuple[str, bytes]], form: int) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=form) as tar:
        for name, content in members:
            header = tarfile.TarInfo(name)
            header.type = tarfile.DIRTYPE if name.endswith("/") else tarfile.REGTYPE
            header.size = 0 if header.isdir() else len(content)
            tar.addfile(header, io.BytesIO(content))
    return file.getvalue()


@settings(max_examples=150, deadline=None)
@given(MEMBERS, st.sampled_from([tarfile.PAX_FORMAT, tarfile.GNU_FORMAT]))
def test_jats_archives_are_accounted_for(members: list[tuple[str, bytes]], form: int) -> None:
    reader = ReadJats(paths=(), max_record_bytes=1000)
    stored = archive(members, form)
    whole = check(reader, "a.tar", stored, [])
    assert whole.num_records == sum(not name.endswith("/") for name, _ in members)
    assert whole.num_bytes["lost_bytes"] == 0
    assert whole.num_bytes["content_bytes"] == len(stored)
    packed = check(reader, "a.tar.gz", gzip.compress(stored), [])
    assert (packed.drops, +packed.num_bytes, packed.num_records) == (whole.drops, +whole.num_bytes, whole.num_records)


@st.composite
def damaged_archives(draw: st.DrawFn) -> tuple[bytes, bytes]:
    """Plain, and as stored gzip."""
    stored = archive(draw(MEMBERS), tarfile.PAX_FORMAT)
    return damage(draw, stored), damage(draw, gzip.compress(stored, 0, mtime=0))


@settings(max_examples=150, deadline=None)
@given(damaged_archives())
def test_damaged_jats_archives_are_accounted_for(archives: tuple[bytes, bytes]) -> None:
    reader = ReadJats(paths=(), max_record_bytes=1000)
    plain = check(reader, "a.tar", archives[0], [])
    assert plain.num_bytes["content_bytes"] == len(archives[0])
    check(reader, "a.tar.gz", archives[1], [])


@settings(max_examples=50, deadline=None)
@given(CONTENTS.filter(bool))
def test_jats_articles_are_accounted_for(content: bytes) -> None:
    reader = ReadJats(paths=(), max_record_bytes=1000)
    plain, packed = check(reader, "a.xml", content, []), check(reader, "a.xml.gz", gzip.compress(content), [])
    assert (plain.num_records, plain.drops) == (packed.num_records, packed.drops) == (1, plain.drops)
    assert plain.num_bytes == packed.num_bytes
    assert plain.num_bytes["content_bytes"] == len(content)


# MEDLINE


def citation(number: int, size: int) -> bytes:
    return (
        f'<PubmedArticle><MedlineCitation><PMID Version="1">{number}</PMID><Article><Abstract><AbstractText>'
        f"{'word ' * size}</AbstractText></Abstract></Article></MedlineCitation></PubmedArticle>"
    ).encode()


CITATIONS = st.builds(citation, st.integers(0, 9), st.integers(0, 60)) | st.sampled_from(
    [
        b"<DeleteCitation><PMID Version='1'>3</PMID>\n<PMID>4</PMID></DeleteCitation>",
        b"<PubmedBookArticle><PMID>1</PMID></PubmedBookArticle>",
        b"<!-- <PubmedArticle> -->",
        citation(1, 9).replace(b"word", b"<!-- </PubmedArticle> --><![CDATA[<PubmedArticle>]]>", 1),
    ]
)
DAMAGED_CITATIONS = st.sampled_from(
    [
        *(b"junk", b"<junk>", b"<", b"<!-- ", b"</PubmedArticle>", b"<PubmedArticle>", b"<PubmedArticle/>", b"<?"),
        *(b"</PubmedArticleSet>", b"<PubmedArticleSet>", b"<DeleteCitation>", b"<PMID>", b"<PMID>5</PMID>", b"\xff\0"),
        citation(5, 500),
        citation(6, 3)[:40],
        citation(7, 3)[40:],
    ]
)


def pubmed_set(parts: list[bytes]) -> bytes:
    return b"<?xml version='1.0'?>\n<PubmedArticleSet>\n" + b"\n".join(parts) + b"\n</PubmedArticleSet>\n"


@st.composite
def pubmed_sets(draw: st.DrawFn) -> bytes:
    return damage(draw, pubmed_set(draw(st.lists(CITATIONS | CITATIONS | DAMAGED_CITATIONS, max_size=8))))


@settings(max_examples=300, deadline=None)
@given(pubmed_sets(), st.sampled_from([1, 7, 64, 1 << 20]))
def test_citations_are_read_alike_however_they_come(data: bytes, chunk_bytes: int) -> None:
    reader = ReadMedline(paths=(), max_record_bytes=1000)
    plain = check(reader, "a.xml", data, [])
    assert plain.num_bytes["content_bytes"] == len(data)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("stages.medline_framing.CHUNK_BYTES", chunk_bytes)
        patch.setattr("stages.compressed.PIECE_BYTES", chunk_bytes)
        assert check(reader, "a.xml", data, []).facts() == plain.facts()
    packed = check(reader, "a.xml.gz", gzip.compress(data), [])
    assert (packed.drops, +packed.num_bytes, packed.num_records) == (plain.drops, +plain.num_bytes, plain.num_records)


@settings(max_examples=100, deadline=None)
@given(st.lists(CITATIONS, max_size=12))
def test_sound_citations_are_those_of_a_tree_of_the_whole_set(parts: list[bytes]) -> None:
    data = pubmed_set(parts)
    whole = check(ReadMedline(paths=()), "a.xml", data, [])
    root = etree.fromstring(data)
    wanted = [one.text for one in root.iterfind("PubmedArticle/MedlineCitation/PMID")]
    wanted_deletions = [one.text for one in root.iterfind("DeleteCitation/PMID")]
    by_kind = {
        kind: [row["pmid"] for row in whole.documents if row["kind"] == kind] for kind in ("citation", "deletion")
    }
    assert by_kind == {"citation": wanted, "deletion": wanted_deletions}
    assert (whole.bad, whole.num_bytes["lost_bytes"]) == ([], 0)
    assert whole.drops.total() == len(root.findall("PubmedBookArticle"))


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_damaged_sets_are_accounted_for(data: st.DataObject) -> None:
    stored = gzip.compress(data.draw(pubmed_sets()), 0, mtime=0)
    at = data.draw(st.integers(10, len(stored) - 1))  # bytes of the header may be changed without harm
    changed = stored[:at] + bytes([stored[at] ^ 0x55]) + stored[at + 1 :]
    for one in (stored[:at], changed):
        whole = check(ReadMedline(paths=(), max_record_bytes=1000), "a.xml.gz", one, [])
        assert whole.bad, "damage is told"


@pytest.mark.parametrize("reader", [ReadWarc, ReadJats, ReadJsonl, ReadMedline])
def test_a_limit_that_no_record_could_keep_is_refused(reader: type[Any]) -> None:
    for limit in (0, -1):
        with pytest.raises(ValueError, match=f"max_record_bytes: found {limit}, wanted 1 or more"):
            reader(paths=(), max_record_bytes=limit)
    assert reader(paths=(), max_record_bytes=1).max_record_bytes == 1
