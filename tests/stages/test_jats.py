"""ReadJats: ids, metadata, archives, damage. ExtractJats: batches and quality on real articles."""

import gzip
import io
import json
import re
import tarfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import xxhash
import zstandard

from curate.core.errors import DataError, PlanError
from curate.core.hashing import record_id
from curate.core.stage import Input, Records, Slice
from stages.jats import ExtractJats, ReadJats
from stages.jats_front import JatsFront, article_url, read_front
from stages.jats_license import use_of
from tests.laws.test_reader import MemoryFile

CC_BY = "http://creativecommons.org/licenses/by/4.0/"


def article(meta: str = "", body: str = "<p>Text.</p>") -> bytes:
    return (
        '<!DOCTYPE article PUBLIC "-//NLM//DTD JATS v1.0//EN" "JATS.dtd">\n'
        '<article xmlns:xlink="http://www.w3.org/1999/xlink" article-type="research-article">'
        f"<front><article-meta>{meta}</article-meta></front><body>{body}</body></article>"
    ).encode()


def numbered(number: int, size: int = 10) -> bytes:
    return article(f'<article-id pub-id-type="pmc">{number}</article-id>', f"<p>{'word ' * size}</p>")


def archive(members: dict[str, bytes], form: int = tarfile.PAX_FORMAT) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=form) as tar:
        for name, data in members.items():
            header = tarfile.TarInfo(name)
            header.size = len(data)
            if name.endswith("/"):
                header.type = tarfile.DIRTYPE
            tar.addfile(header, io.BytesIO(data))
    return file.getvalue()


def stretches(key: str, data: bytes, **options: Any) -> list[Records]:
    reader = ReadJats(paths=(), **options)
    found = list(reader.open()(Slice(Input(key, len(data), ""), 0, len(data), True), MemoryFile(data)))
    assert not reader.has_entry_points(key)
    assert [(records.first, records.end) for records in found] == [(0, 0)] * (len(found) - 1) + [(0, len(data))]
    for records in found:
        kinds = (records.record_bytes, records.framing_bytes, records.skipped_bytes, records.lost_bytes)
        assert records.content_bytes == sum(kinds)
        assert min(kinds) >= 0
        assert records.num_records == records.batch.num_rows + sum(records.drops.values()) + len(records.quarantined)
    return found


def only(key: str, data: bytes, **options: Any) -> Records:
    (records,) = stretches(key, data, **options)
    return records


def bad(records: Records) -> list[tuple[str, str]]:
    return [(record.reason, record.name) for record in records.quarantined]


# --- metadata --------------------------------------------------------------------------------


def front(meta: str) -> JatsFront:
    found = read_front(article(meta))
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("ids", "pmcid", "pmid"),
    [
        ('<article-id pub-id-type="pmc">1</article-id><article-id pub-id-type="pmid">45</article-id>', "PMC1", "45"),
        ('<article-id pub-id-type="pmcid"> PMC123 </article-id>', "PMC123", None),
        ('<article-id pub-id-type="pmcid-ver">PMC123.2</article-id><article-id pub-id-type="pmcid">PMC123</article-id>',
         "PMC123.2", None),
        ('<article-id pub-id-type="pmc"></article-id><article-id pub-id-type="pmid">none</article-id>', None, None),
        ('<article-id pub-id-type="pmc">1</article-id><article-id pub-id-type="pmc">2</article-id>', "PMC1", None),
        ("", None, None),
    ],
)  # fmt: skip
def test_article_ids(ids: str, pmcid: str | None, pmid: str | None) -> None:
    found = front(ids)
    assert (found.pmcid, found.pmid) == (pmcid, pmid)


def test_ids_of_other_articles_are_not_taken() -> None:
    related = '<related-article><article-id pub-id-type="pmc">9</article-id></related-article>'
    assert front(related).pmcid is None
    stub = b"<front-stub><article-id pub-id-type='pmc'>9</article-id></front-stub>"
    translated = b"<article><sub-article>%b</sub-article></article>" % stub
    assert read_front(translated) == JatsFront(pmcid=None, pmid=None, doi=None, kind=None, date=None)


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        (f'<license xlink:href="{CC_BY}"/>', "cc-by"),
        ('<license xlink:href="https://creativecommons.org/licences/by-nc-nd/3.0"><license-p>x</license-p></license>',
         "cc-by-nc-nd"),
        ('<license><ali:license_ref xmlns:ali="http://www.niso.org/schemas/ali/1.0/">'
         "https://creativecommons.org/publicdomain/zero/1.0/</ali:license_ref></license>", "cc0"),
        ('<license xlink:href="http://creativecommons.org/publicdomain/mark/1.0/"/>', "public-domain"),
        (f'<license xlink:href="{CC_BY}"><p>http://creativecommons.org/publicdomain/zero/1.0/ applies to the data.</p>'
         "</license>", "cc-by"),
        ('<license><p>under the <ext-link xlink:href="http://creativecommons.org/licenses/by-nc/4.0/">terms</ext-link>'
         "</p></license>", "cc-by-nc"),
        ("<license><p>the Creative Commons Attribution License, which permits use</p></license>", "cc-by"),
        ("<license><p>Creative Commons Attribution-Noncommercial-Share Alike 3.0</p></license>", "cc-by-nc-sa"),
        ("<license><p>a CC BY-NC 4.0 license</p></license>", "cc-by-nc"),
        ("<copyright-statement>under the Creative Commons Attribution License</copyright-statement>", "cc-by"),
        # Two that contradict each other: the more restrictive one holds, be it a link or words.
        ('<license xlink:href="http://creativecommons.org/licenses/by-nc-sa/3.0"><p>the Creative Commons Attribution '
         "License (<uri xlink:href='http://creativecommons.org/licenses/by/2.0'>x</uri>)</p></license>", "cc-by-nc-sa"),
        (f'<license xlink:href="{CC_BY}"><p>for non-commercial use only</p></license>', "non-commercial"),
        ("<license><p>verbatim copying and redistribution of this article are permitted in all media for any "
         "purpose</p></license>", "verbatim"),
        ("<license><p>the Creative Commons Public Domain Declaration</p></license>", "public-domain"),
        ("<license><p>All rights reserved.</p></license>", None),
        ("", None),
    ],
)  # fmt: skip
def test_licenses(statement: str, expected: str | None) -> None:
    assert front(f"<permissions>{statement}</permissions>").license.name == expected


@pytest.mark.parametrize(
    ("name", "use"),
    [
        ("cc0", "commercial"), ("public-domain", "commercial"), ("cc-by-nd", "commercial"),
        ("cc-by-nc-nd", "non_commercial"), ("non-commercial", "non_commercial"),
        ("verbatim", "unclear"), (None, "unclear"),
    ],
)  # fmt: skip
def test_uses_of_licenses(name: str | None, use: str) -> None:
    assert use_of(name) == use


def test_what_a_license_was_read_from_is_kept() -> None:
    link = front(f'<permissions><license xlink:href="{CC_BY}"><p>a</p></license></permissions>').license
    assert link.evidence == "creativecommons.org/licenses/by/4.0/"
    words = front("<permissions><license><p>All rights\n reserved.</p></license></permissions>").license
    assert (words.name, words.evidence, words.use) == (None, "All rights reserved.", "unclear")
    assert front("").license.evidence is None


@pytest.mark.parametrize(
    ("meta", "is_retracted"),
    [
        ("<title-group><article-title>RETRACTED: On x</article-title></title-group>", True),
        ("<title-group><article-title>[Retracted] On x</article-title></title-group>", True),
        ("<title-group><article-title>Retracted articles: a study</article-title></title-group>", False),
        ("<title-group><article-title>Withdrawn children at school</article-title></title-group>", False),
        ('<pub-date pub-type="retracted"><year>2010</year></pub-date>', True),
        ('<related-article related-article-type="retraction-forward"/>', True),
        ('<related-article related-article-type="retracted-article"/>', False),  # this is the notice
    ],
)
def test_marks_of_retraction(meta: str, is_retracted: bool) -> None:
    assert front(meta).retracted == is_retracted


@pytest.mark.parametrize(
    ("journal", "expected"),
    [
        ("<journal-title><italic>In Vivo</italic> Models</journal-title>", "In Vivo Models"),  # pubmed_parser#110
        ("<journal-title/><abbrev-journal-title>J. Mod.</abbrev-journal-title>", "J. Mod."),
        ("<journal-title-group><journal-title>J</journal-title></journal-title-group>", "J"),
        ("<journal-title/>", None),
    ],
)
def test_journals_and_languages(journal: str, expected: str | None) -> None:
    meta = f"<front><journal-meta>{journal}</journal-meta><article-meta/></front>"
    found = read_front(f"<article xml:lang='pt-BR'>{meta}</article>".encode())
    assert found is not None
    assert (found.journal, found.language) == (expected, "pt")


def test_where_a_reader_finds_an_article() -> None:
    assert article_url("10.1/x", "PMC7.2", "5") == "https://doi.org/10.1/x"
    assert article_url(None, "PMC7.2", "5") == "https://pmc.ncbi.nlm.nih.gov/articles/PMC7/"
    assert article_url(None, None, "5") == "https://pubmed.ncbi.nlm.nih.gov/5/"
    assert article_url(None, None, None) is None


@pytest.mark.parametrize(
    ("dates", "expected"),
    [
        ('<pub-date pub-type="ppub"><month>4</month><year>2005</year></pub-date>'
         '<pub-date pub-type="epub"><day>15</day><month>3</month><year>2005</year></pub-date>', "2005-03-15"),
        ('<pub-date date-type="pub"><month>Jun</month><year>1999</year></pub-date>', "1999-06"),
        ('<pub-date pub-type="collection"><season>Spring</season><year>2010</year></pub-date>', "2010"),
        ('<pub-date pub-type="pmc-release"><year>2012</year></pub-date>', None),
        ('<pub-date pub-type="epub"><day>41</day><month>13</month><year>2005</year></pub-date>', "2005"),
        ('<pub-date pub-type="epub"><day>41</day><month>12</month><year>2005</year></pub-date>', "2005-12"),
        ('<pub-date pub-type="epub"><year>n.d.</year></pub-date><pub-date><year>2001</year></pub-date>', "2001"),
        ("", None),
    ],
)  # fmt: skip
def test_dates(dates: str, expected: str | None) -> None:
    assert front(dates).date == expected


# --- reading ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "pack"),
    [
        ("a.xml", bytes),
        ("a.NXML", bytes),
        ("a.xml.gz", gzip.compress),
        ("a.nxml.zst", zstandard.ZstdCompressor().compress),
    ],
)
def test_an_article_a_file(key: str, pack: Any) -> None:
    meta = '<article-id pub-id-type="pmc">7</article-id><pub-date pub-type="epub"><year>2001</year></pub-date>'
    data = article(f'{meta}<permissions><license xlink:href="{CC_BY}"/></permissions>')
    stored = pack(data)
    records = only(key, stored)
    assert records.batch.to_pylist() == [
        {
            "id": record_id("jats", "PMC7"),
            "name": "PMC7",
            "record_hash": xxhash.xxh3_128_digest(data),
            "source": None,
            "origin": {"source": None, "key": key, "offset": 0, "length": len(stored), "inner": 0},
            "content": data,
            "url": "https://pmc.ncbi.nlm.nih.gov/articles/PMC7/",
            "language": None,
            "license": "cc-by",
            "date": "2001",
            "kind": "research-article",
            "pmid": None,
            "pmcid": "PMC7",
            "doi": None,
            "journal": None,
            "license_use": "commercial",
            "license_evidence": "creativecommons.org/licenses/by/4.0/",
            "retracted": False,
        }
    ]
    assert (records.content_bytes, records.record_bytes) == (len(data), len(data))


def test_names_and_ids_without_a_pmcid() -> None:
    by_pmid = article('<article-id pub-id-type="pmid">45</article-id><article-id pub-id-type="doi">10.1/x</article-id>')
    by_doi = article('<article-id pub-id-type="doi">10.1/x</article-id>')
    by_nothing = article()
    rows = only("a.tar", archive({"1.xml": by_pmid, "2.xml": by_doi, "3.xml": by_nothing})).batch.to_pylist()
    assert [row["name"] for row in rows] == ["PMID:45", "10.1/x", "3.xml"]
    natives = ("PMID:45", by_doi, by_nothing)
    assert [row["id"] for row in rows] == [record_id("jats", native) for native in natives]


@pytest.mark.parametrize("form", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT, tarfile.USTAR_FORMAT])
def test_an_archive(form: int) -> None:
    long_name = "PMC2/" + ("x" * 90 + "/") * (1 if form == tarfile.USTAR_FORMAT else 3) + "b.nxml"
    members = {
        "PMC1/": b"",
        "PMC1/a.nxml": numbered(1),
        "PMC1/figure.jpg": b"\xff\xd8" * 700,
        "PMC1/model.xml": b"<sbml/>",
        long_name: numbered(2, 300),
        "../../etc/passwd.xml": numbered(3),
        "empty.txt": b"",
    }
    data = archive(members, form)
    records = only("a.tar.gz", gzip.compress(data))
    rows = records.batch.to_pylist()
    assert [row["name"] for row in rows] == ["PMC1", "PMC2", "PMC3"]
    for row in rows:
        begin = row["origin"]["inner"]
        assert (
            data[begin : begin + len(row["content"])]
            == row["content"]
            == numbered(int(row["name"][3:]), 300 if row["name"] == "PMC2" else 10)
        )
    assert records.drops == {"not_article": 3}
    assert (records.num_records, records.quarantined) == (6, ())
    articles = sum(len(members[name]) for name in ("PMC1/a.nxml", long_name, "../../etc/passwd.xml"))
    assert (records.content_bytes, records.record_bytes, records.skipped_bytes) == (len(data), articles, 1407)


def test_batches_are_bounded_and_stretches_follow_each_other() -> None:
    members = {f"{number}.xml": numbered(number, 200_000) for number in range(8)}
    found = stretches("a.tar.gz", gzip.compress(archive(members), 1))
    assert [records.batch.num_rows for records in found] == [5, 3]


def test_archives_one_behind_the_other() -> None:
    pair = archive({"1.xml": numbered(1)}) + archive({"2.xml": numbered(2)})
    records = only("a.tar", pair)
    assert records.batch.column("name").to_pylist() == ["PMC1", "PMC2"]
    assert (records.lost_bytes, records.quarantined) == (0, ())


def test_a_member_larger_than_the_limit() -> None:
    data = archive({"1.xml": numbered(1), "2.xml": numbered(2, 5000), "3.xml": numbered(3)})
    records = only("a.tar", data, max_record_bytes=10_000)
    assert records.batch.column("name").to_pylist() == ["PMC1", "PMC3"]
    assert bad(records) == [("too_large", "2.xml")]
    assert records.record_bytes == sum(len(numbered(*pair)) for pair in ((1, 10), (2, 5000), (3, 10)))
    assert bad(only("2.xml.gz", gzip.compress(numbered(2, 5000)), max_record_bytes=10_000)) == [
        ("too_large", "2.xml.gz")
    ]
    exact = len(numbered(1))
    assert only("1.xml", numbered(1), max_record_bytes=exact).batch.num_rows == 1
    assert bad(only("1.xml", numbered(1), max_record_bytes=exact - 1)) == [("too_large", "1.xml")]


def test_xml_that_is_bad_in_the_front_is_quarantined_and_its_neighbors_kept() -> None:
    members = {
        "1.xml": numbered(1),
        "2.xml": b"<article><front><article-meta></front></article>",
        "3.xml": b'<!DOCTYPE a [<!ENTITY x "y">]><article/>',
        "4.xml": b"",
        "5.xml": b"<article><body>",
        "6.xml": numbered(6),
    }
    records = only("a.tar", archive(members))
    assert records.batch.column("name").to_pylist() == ["PMC1", "PMC6"]
    assert bad(records) == [("bad_xml", "2.xml"), ("unsafe_xml", "3.xml"), ("bad_xml", "4.xml"), ("bad_xml", "5.xml")]
    assert len({record.id for record in records.quarantined}) == 4


def test_xml_that_is_bad_behind_the_front_is_found_by_the_extractor() -> None:
    cut = numbered(1)[:-20]
    batch = only("a.tar", archive({"1.xml": cut})).batch
    assert batch.column("name").to_pylist() == ["PMC1"]
    with pytest.raises(DataError) as caught:
        ExtractJats().open()(batch)
    assert caught.value.reason == "bad_xml"


MEMBERS = {f"{number}.xml": numbered(number, 100 + number) for number in range(5)} | {"x.jpg": b"\xff" * 2000}


@pytest.mark.parametrize("at", [0, 100, 512, 900, 1279, 1536, 1600, 2048, 5000, 7000, 9000, 10_240, 10_752])
def test_an_archive_that_is_cut_keeps_its_whole_members(at: int) -> None:
    data = archive(MEMBERS)
    ends = [data.index(content) + len(content) for content in MEMBERS.values()]
    assert ends[-1] < 10_240 < 10_752 < len(data)
    records = only("a.tar", data[:at])
    assert records.num_records - len(records.quarantined) == sum(end <= at for end in ends)
    names = records.batch.column("name").to_pylist()
    assert names == [f"PMC{number}" for number in range(len(names))]
    ended = at == 10_752  # behind the first block of zeros
    assert [reason for reason, _ in bad(records)] == [] if ended else ["truncated"]
    assert records.content_bytes == at


@pytest.mark.parametrize("at", [5, 200, 3500, -9])
def test_a_gzip_that_is_cut_keeps_whole_members(at: int) -> None:
    data = gzip.compress(archive(MEMBERS), 0, mtime=0)
    records = only("a.tgz", data[:at])
    assert [reason for reason, _ in bad(records)] == ["truncated"]
    names = records.batch.column("name").to_pylist()
    assert names == [f"PMC{number}" for number in range({5: 0, 200: 0, 3500: 2, -9: 5}[at])]
    assert records.lost_bytes > 0 or at == 5


def test_a_damaged_header_ends_an_archive_and_is_said() -> None:
    """The standard library takes it for the end of the archive, and says nothing."""
    data = bytearray(archive(MEMBERS))
    at = data.index(b"2.xml")
    data[at] ^= 1
    records = only("a.tar", bytes(data))
    assert records.batch.column("name").to_pylist() == ["PMC0", "PMC1"]
    assert bad(records) == [("corrupt", "a.tar")]
    assert records.lost_bytes == len(data) - at


def test_garbage_behind_gzip_is_lost_and_said() -> None:
    records = only("a.tar.gz", gzip.compress(archive(MEMBERS)) + b"garbage")
    assert records.batch.num_rows == 5
    assert bad(records) == [("garbage", "a.tar.gz")]
    assert records.lost_bytes >= len(b"garbage")
    assert bad(only("a.xml.gz", gzip.compress(numbered(1))[:-6])) == [("truncated", "a.xml.gz")]
    assert bad(only("a.xml.gz", b"no gzip")) == [("corrupt", "a.xml.gz")]


def test_a_bomb_is_left_off() -> None:
    records = only("a.xml.gz", gzip.compress(bytes(200 << 20), 9), max_record_bytes=1 << 20)
    assert bad(records) == [("bomb", "a.xml.gz")]


def test_other_files_are_refused() -> None:
    for key in ("a.zip", "xml", "a.xml.bz2"):
        with pytest.raises(PlanError, match=r"ReadJats cannot read .* narrow `paths`"):
            ReadJats(paths=()).has_entry_points(key)


# --- extraction ------------------------------------------------------------------------------


def test_columns_of_the_extractor() -> None:
    batch = only("a.tar", archive({"1.xml": numbered(1, 2)})).batch
    out = ExtractJats().open()(batch)
    assert out.schema.names == [name for name in batch.schema.names if name != "content"] + ["text", "title"]
    assert (out.column("text").to_pylist(), out.column("title").to_pylist()) == (["word word"], [None])
    assert (out.schema.field("text").type, out.schema.field("title").type) == (pa.large_string(), pa.string())


def words(text: str) -> Counter[str]:
    return Counter(re.findall(r"\w+", text))


def f1(found: Counter[str], gold: Counter[str]) -> float:
    common = (found & gold).total()
    return 2 * common / (found.total() + gold.total())


def craft(shared_data: Path, num_articles: int) -> Iterator[tuple[bytes, str]]:
    with tarfile.open(shared_data / "pubmed" / "jats" / "jats_craft.tar.xz") as tar:
        names = sorted(name for name in tar.getnames() if name.endswith(".nxml"))[:num_articles]
        for name in names:
            gold = tar.extractfile(name.replace("nxml/", "gold_txt/").replace(".nxml", ".txt"))
            content = tar.extractfile(name)
            assert gold is not None
            assert content is not None
            yield content.read(), gold.read().decode()


def test_real_articles_hold_the_words_of_the_curators(shared_data: Path) -> None:
    """All 78 articles of CRAFT: 0.987, worst 0.943; a dump of title, abstract and body has 0.940, worst 0.836."""
    pairs = list(craft(shared_data, 10))
    batch = pa.RecordBatch.from_pydict({"content": pa.array([xml for xml, _ in pairs], pa.large_binary())})
    texts = ExtractJats().open()(batch).column("text").to_pylist()
    scores = [f1(words(text), words(gold)) for text, (_, gold) in zip(texts, pairs, strict=True)]
    assert sum(scores) / len(scores) > 0.98
    assert min(scores) > 0.94


def test_real_metadata(shared_data: Path) -> None:
    folder = shared_data / "pubmed" / "jats"
    with (folder / "manifest.jsonl").open(encoding="utf-8") as file:
        known = {row["member"]: row for row in map(json.loads, file) if row["archive"] == "jats_plos.tar.xz"}
    with tarfile.open(folder / "jats_plos.tar.xz") as tar:
        for member in tar:
            row, content = known[member.name], tar.extractfile(member)
            assert content is not None
            found = read_front(content.read())
            assert found is not None
            assert (found.pmcid, found.doi, found.kind) == (row["pmcid"], row["doi"], row["article_type"])
            assert found.license.name == {"cc-by": "cc-by", "cc-by(text)": "cc-by"}.get(
                row["licence"], found.license.name
            )
            assert found.journal is not None
            assert found.date is not None
