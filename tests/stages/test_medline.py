"""ReadMedline: framing, ids, damage, and what it makes of real files. Single citations: test_medline_citation."""

import gzip
import hashlib
import re
import subprocess
import sys
import textwrap
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from lxml import etree

from curate.core.errors import PlanError
from curate.core.hashing import record_id
from curate.core.stage import Input, Records, Slice
from stages.medline import ReadMedline, file_number
from tests.laws.test_reader import MemoryFile

HEAD = (
    b'<?xml version="1.0" encoding="utf-8"?>\n<!DOCTYPE PubmedArticleSet PUBLIC '
    b'"-//NLM//DTD PubMedArticle, 1st January 2025//EN" "https://dtd.nlm.nih.gov/ncbi/pubmed/out/pubmed_250101.dtd">\n'
    b"<PubmedArticleSet>\n"
)
TAIL = b"</PubmedArticleSet>\n"


def record(pmid: int | str, words: str = "Words.", version: str = "1", article: str = "", data: str = "") -> bytes:
    return (
        f'<PubmedArticle><MedlineCitation><PMID Version="{version}">{pmid}</PMID><Article>'
        f"<ArticleTitle>Title {pmid}.</ArticleTitle><Abstract><AbstractText>{words}</AbstractText></Abstract>{article}"
        f"</Article></MedlineCitation><PubmedData>{data}</PubmedData></PubmedArticle>"
    ).encode()


def deletions(*pmids: int) -> bytes:
    each = "".join(f'<PMID Version="1">{pmid}</PMID>' for pmid in pmids)
    return f"<DeleteCitation>{each}</DeleteCitation>".encode()


def whole_set(*records: bytes) -> bytes:
    return HEAD + b"\n".join(records) + b"\n" + TAIL


def stretches(key: str, data: bytes, **options: Any) -> list[Records]:
    reader = ReadMedline(paths=(), **options)
    found = list(reader.open()(Slice(Input(key, len(data), ""), 0, len(data), True), MemoryFile(data)))
    assert not reader.has_entry_points(key)
    assert [(records.first, records.end) for records in found] == [(0, 0)] * (len(found) - 1) + [(0, len(data))]
    for records in found:
        kinds = (records.record_bytes, records.framing_bytes, records.skipped_bytes, records.lost_bytes)
        assert records.content_bytes == sum(kinds)
        assert min(kinds) >= 0
        assert records.num_records == records.batch.num_rows + sum(records.drops.values()) + len(records.quarantined)
    return found


def only(data: bytes, key: str = "pubmed25n0001.xml", **options: Any) -> Records:
    (records,) = stretches(key, data, **options)
    return records


def pmids(records: Records) -> list[str]:
    found: list[str] = records.batch.column("pmid").to_pylist()
    return found


def bad(records: Records) -> list[tuple[str, int]]:
    return [(one.reason, one.origin["offset"] + one.origin["inner"]) for one in records.quarantined]


# --- records ---------------------------------------------------------------------------------


def test_a_set_with_citations_a_book_and_deletions() -> None:
    book = b"<PubmedBookArticle><BookDocument><PMID>7</PMID></BookDocument></PubmedBookArticle>"
    data = whole_set(record(1), book, record(2), deletions(3, 4))
    found = only(data)
    assert pmids(found) == ["1", "2", "3", "4"]
    assert found.batch.column("kind").to_pylist() == ["citation", "citation", "deletion", "deletion"]
    assert found.batch.column("text").to_pylist() == ["# Title 1.\n\nWords.", "# Title 2.\n\nWords.", None, None]
    assert found.drops == {"book": 1}
    assert (found.num_records, found.skipped_bytes, found.lost_bytes) == (5, len(book), 0)
    assert found.record_bytes == len(record(1) + record(2) + b'<PMID Version="1">3</PMID>' * 2)


def test_the_id_names_the_place_so_that_a_version_given_out_again_is_no_conflict() -> None:
    data = whole_set(record(1))
    first, second = only(data), only(data.replace(b"Words", b"Other"), "updates/pubmed25n1500.xml")
    assert first.batch.column("id").to_pylist() == [record_id("medline", f"1.1@25000001.{data.index(record(1))}")]
    assert first.batch.column("name").to_pylist() == second.batch.column("name").to_pylist() == ["PMID:1"]
    assert first.batch.column("id") != second.batch.column("id")


def test_a_copy_of_a_file_gives_the_same_records() -> None:
    data = whole_set(record(1), record(2), deletions(3))
    plain, packed = only(data), only(gzip.compress(data), "copy/pubmed25n0001.xml.gz")
    same = [name for name in plain.batch.schema.names if name != "origin"]
    assert plain.batch.select(same) == packed.batch.select(same)


def test_the_origin_leads_to_the_record() -> None:
    data = whole_set(record(1), record(22), deletions(3))
    for row in only(data).batch.to_pylist():
        start = row["origin"]["offset"]
        piece = data[start : start + row["origin"]["length"]]
        assert piece.startswith((b"<PubmedArticle>", b"<PMID")) and row["pmid"].encode() in piece
    stored = gzip.compress(data)
    origins = only(stored, "a.xml.gz").batch.column("origin").to_pylist()
    assert [one["inner"] for one in origins] == [row["pubmed_position"] for row in only(data).batch.to_pylist()]
    assert {(one["offset"], one["length"]) for one in origins} == {(0, len(stored))}


@pytest.mark.parametrize(
    ("key", "number"),
    [
        ("baseline/pubmed26n0001.xml.gz", 26000001),
        ("pubmed26n1335.xml.gz", 26001335),
        ("medline17n0012.xml", 17000012),
        ("2024/set 3.xml.zst", 3),
        ("2024-01-31.xml", 20240131),
        ("x.xml", 0),
    ],
)
def test_numbers_of_files(key: str, number: int) -> None:
    assert file_number(key) == number


@pytest.mark.parametrize("key", ["a.txt", "a.xml.bz2", "pubmed26n0001.xml.gz.md5", "1" * 19 + ".xml"])
def test_other_names_are_refused_before_anything_is_read(key: str) -> None:
    with pytest.raises(PlanError, match="ReadMedline cannot"):
        ReadMedline(paths=()).has_entry_points(key)


def test_a_large_file_comes_in_stretches() -> None:
    """TranslatorSRI/pubmed2db#25: 30,000 citations as one tree take gigabytes."""
    data = gzip.compress(whole_set(*(record(number, "word " * 300) for number in range(9_000)), deletions(1)), 1)
    found = stretches("a.xml.gz", data)
    assert len(found) > 2
    assert sum(one.num_records for one in found) == 9_001
    assert sum(one.lost_bytes + one.skipped_bytes for one in found) == 0


def test_memory_is_bounded(tmp_path: Path) -> None:
    """TranslatorSRI/pubmed2db#25: peak below 200 MiB for 30,000 citations of 6 KB, in a process of its own."""
    data = whole_set(*(record(number, "word " * 250) for number in range(30_000)))
    (tmp_path / "pubmed25n0001.xml.gz").write_bytes(gzip.compress(data, 1))
    script = """
        import resource, sys
        from pathlib import Path
        from curate.core.stage import Input, Slice
        from curate.core.storage import open_storage
        from stages.medline import ReadMedline
        storage = open_storage(sys.argv[1])
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        with storage.open("pubmed25n0001.xml.gz") as file:
            piece = Slice(Input("pubmed25n0001.xml.gz", file.size, ""), 0, file.size, True)
            num = sum(records.num_records for records in ReadMedline(paths=()).open()(piece, file))
        print(num, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
    """
    command = [sys.executable, "-c", textwrap.dedent(script), str(tmp_path)]
    root = Path(__file__).parents[2]
    done = subprocess.run(command, capture_output=True, text=True, cwd=root, timeout=300, check=True)
    num_records, grown_kib = map(int, done.stdout.split())
    assert num_records == 30_000
    assert grown_kib < 100 << 10


# --- damage ----------------------------------------------------------------------------------


def test_a_tag_that_is_missing_costs_one_record() -> None:
    """titipata/pubmed_parser#161: everything behind the damage was lost, and nobody was told."""
    records = [record(number) for number in range(1, 6)]
    broken = records[2].replace(b"</ArticleTitle>", b"")
    data = whole_set(*records[:2], broken, *records[3:])
    found = only(gzip.compress(data), "a.xml.gz")
    assert pmids(found) == ["1", "2", "4", "5"]
    assert bad(found) == [("bad_xml", data.index(broken))]
    assert (found.record_bytes, found.lost_bytes) == (sum(map(len, records)) - len(b"</ArticleTitle>"), 0)


@pytest.mark.parametrize(
    ("cut", "left", "reasons"),
    [
        (b"</PubmedArticle>", ["1", "3"], ["bad_xml"]),  # the end tag of 2
        (b"<PubmedArticle>", ["1", "3"], ["bad_xml"]),  # the start tag of 2
        (b"</PubmedArticle>\n<PubmedArticle>", ["1"], ["bad_xml"]),  # 2 and 3 have become one
    ],
)
def test_a_border_that_is_missing(cut: bytes, left: list[str], reasons: list[str]) -> None:
    data = whole_set(record(1), record(2), record(3))
    at = data.index(cut, data.index(record(2)))
    found = only(data[:at] + data[at + len(cut) :])
    assert (pmids(found), [reason for reason, _ in bad(found)]) == (left, reasons)


def test_a_truncated_file_says_so() -> None:
    data = gzip.compress(whole_set(*(record(number) for number in range(5))), 0)
    at = data.index(record(3)) + 40
    found = only(data[:at], "a.xml.gz")
    assert pmids(found) == ["0", "1", "2"]
    assert [reason for reason, _ in bad(found)] == ["truncated"]
    assert found.lost_bytes > 0


@pytest.mark.parametrize(
    "end", [b"", b"\n", record(2)[:-1], record(2)[:50], b"<", b"</Pub", b"<DeleteCitation><PMID>2"]
)
def test_a_plain_file_that_ends_before_its_set(end: bytes) -> None:
    data = HEAD + record(1) + end
    found = only(data)
    assert pmids(found) == ["1"]
    assert [reason for reason, _ in bad(found)] == ["truncated"]


def test_a_changed_byte_in_gzip() -> None:
    """The checksum stands at the end: what was read before is kept, and the damage is told."""
    data = gzip.compress(whole_set(*(record(number, "word " * 50) for number in range(200))), 0)
    at = data.index(record(3, "word " * 50)) + 100
    found = only(data[:at] + b"\0" + data[at + 1 :], "a.xml.gz")
    assert [reason for reason, _ in bad(found)] == ["bad_xml", "corrupt"]
    assert pmids(found) == [str(number) for number in range(201) if number != 3][: len(pmids(found))]
    assert len(pmids(found)) > 100


@pytest.mark.parametrize(
    "junk", [b"junk", b"<junk/>", b"< 3", b"</PubmedArticle>", b"]]>", b"<PMID>5</PMID>", b"\0\xff"]
)
def test_bytes_outside_of_records(junk: bytes) -> None:
    data = whole_set(record(1), junk, record(2))
    found = only(data)
    assert (pmids(found), bad(found)) == (["1", "2"], [("bad_xml", data.index(b"\n" + junk + b"\n") + 1)])
    assert found.lost_bytes == len(junk + b"\n")


def test_the_pmid_of_a_citation_without_a_beginning_deletes_nothing() -> None:
    headless = record(9).removeprefix(b"<PubmedArticle>")
    data = HEAD + deletions(1).removesuffix(b"</DeleteCitation>") + headless + record(2) + TAIL
    found = only(data)
    assert list(zip(pmids(found), found.batch.column("kind").to_pylist(), strict=True)) == [
        ("1", "deletion"),
        ("2", "citation"),
    ]


@pytest.mark.parametrize(
    ("damage", "num_bad"),
    [
        (b"<PMID>x</PMID>", 1),
        (b"<PMID>4", 1),
        (b"<PMID>4<PMID>", 2),
        (b"junk", 1),
        (b"<PMID/>", 1),
        (b'<PMID Version="z">4</PMID>', 1),
    ],
)
def test_damage_among_deletions(damage: bytes, num_bad: int) -> None:
    data = whole_set(record(1), deletions(2, 3).replace(b"</PMID><PMID", b"</PMID>" + damage + b"<PMID", 1))
    found = only(data)
    assert (pmids(found), len(bad(found))) == (["1", "2", "3"], num_bad)


def test_what_is_too_large() -> None:
    data = whole_set(record(1), record(2, "x" * 5000), record(3))
    found = only(data, max_record_bytes=1000)
    assert (pmids(found), bad(found)) == (["1", "3"], [("too_large", data.index(record(2, "x" * 5000)))])
    assert found.record_bytes == sum(len(record(1)) for _ in "13") + len(record(2, "x" * 5000)) + 1
    assert pmids(only(data, max_record_bytes=len(record(2, "x" * 5000)))) == ["1", "2", "3"]
    assert pmids(only(data, max_record_bytes=len(record(2, "x" * 5000)) - 1)) == ["1", "3"]


@pytest.mark.parametrize(
    "unit", [b"<PubmedArticle>", b"<PubmedArticle><!--", b"<DeleteCitation><PMID>", b"<", b"<!--", b"x"]
)
def test_what_is_hostile_takes_linear_time(unit: bytes) -> None:
    """It ends: quadratic search in these would take minutes."""
    data = HEAD + unit * (2_000_000 // len(unit))
    found = stretches("a.xml", data, max_record_bytes=100_000)
    assert sum(one.content_bytes for one in found) == len(data)
    assert sum(len(one.quarantined) for one in found) > 0


def test_comments_and_sections_that_hold_tags() -> None:
    hidden = "<!-- </PubmedArticle><PubmedArticle> --><![CDATA[</PubmedArticle> & p<b>]]><?x </PubmedArticle>?>y"
    found = only(whole_set(b"<!-- <PubmedArticle> -->", record(1, hidden), record(2)))
    assert found.batch.column("text").to_pylist()[0] == "# Title 1.\n\n</PubmedArticle> & py"
    assert (pmids(found), bad(found)) == (["1", "2"], [])


def test_two_sets_in_one_file() -> None:
    assert pmids(only(whole_set(record(1)) + whole_set(record(2)))) == ["1", "2"]
    twice = gzip.compress(whole_set(record(1))) + gzip.compress(whole_set(record(2)))
    assert pmids(only(twice, "a.xml.gz")) == ["1", "2"]


def test_namespaces_and_encoding_of_the_file() -> None:
    head = (
        '<?xml version="1.0" encoding="ISO-8859-1"?><PubmedArticleSet xmlns:mml="http://www.w3.org/1998/Math/MathML">'
    )
    words = record(1, "caf\u00e9 <mml:math><mml:msup><mml:mi>x</mml:mi><mml:mn>2</mml:mn></mml:msup></mml:math>.")
    found = only(head.encode() + words.decode().encode("latin-1") + TAIL)
    assert found.batch.column("text").to_pylist() == ["# Title 1.\n\ncaf\u00e9 x^2."]


@pytest.mark.parametrize(
    ("data", "drops", "reasons"),
    [
        (b"", {}, ["truncated"]),
        (b" \n", {}, ["truncated"]),
        (b"no XML", {}, ["bad_xml"]),
        (b"\xff\xfe<\0", {}, ["bad_xml"]),
        (b"</PubmedArticleSe>", {}, ["bad_xml"]),
        (b"<?xml version='1.0'?><pmc-articleset><PubmedArticle/></pmc-articleset>", {"not_citations": 1}, []),
        (b"<!DOCTYPE a [<!ENTITY b 'c'>]><PubmedArticleSet>" + record(1) + TAIL, {}, ["unsafe_xml"]),
        (b"<PubmedArticleSet/>", {}, []),
        (b"\xef\xbb\xbf<PubmedArticleSet></PubmedArticleSet>", {}, []),
        (b"<PubmedBookArticleSet><PubmedBookArticle/></PubmedBookArticleSet>", {"book": 1}, []),
        (b"<PubmedArticleSet><PubmedArticle/></PubmedArticleSet>", {}, ["bad_pmid"]),
        (whole_set(record("12x")), {}, ["bad_pmid"]),
        (whole_set(record("1" * 19)), {}, ["bad_pmid"]),
        (whole_set(record(1).replace(b"</PubmedData>", b"<!ENTITY a 'b'></PubmedData>")), {}, ["unsafe_xml"]),
        (whole_set(record(1, "&undefined;")), {}, []),
    ],
)
def test_files_that_are_something_else(data: bytes, drops: dict[str, int], reasons: list[str]) -> None:
    found = only(data)
    assert (found.drops, [reason for reason, _ in bad(found)]) == (drops, reasons)


def test_a_file_with_another_root_is_skipped_in_bounded_memory() -> None:
    data = b"<articles>" + b"x" * (3 << 20)
    found = stretches("a.xml", data)
    assert (found[0].num_records, sum(one.skipped_bytes for one in found)) == (1, len(data))


# --- real files ------------------------------------------------------------------------------

REAL = {
    "pubmed26n1334.xml.gz": (30, 0),
    "pubmed26n1335.xml.gz": (30, 6),
    "pubmed20n1016.xml.gz": (26, 262),
    "pmparser_empty_set.xml": (0, 0),
    "pmparser_no_rows.xml": (2, 0),
    "biopython_pubmed1.xml": (2, 0),
    "biopython_pubmed7.xml": (1, 0),
    "derived_jats_0005.xml.gz": (429, 0),
}


def read_real(path: Path) -> list[dict[str, Any]]:
    found = stretches(path.name, path.read_bytes())
    assert sum(len(one.quarantined) for one in found) == 0
    assert sum(one.lost_bytes + one.skipped_bytes for one in found) == 0
    return [row for one in found for row in one.batch.to_pylist()]


def dom(path: Path) -> Any:
    return etree.fromstring(gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes())


@pytest.mark.parametrize("name", REAL)
def test_real_files_hold_the_records_that_a_tree_of_the_whole_file_holds(name: str, shared_data: Path) -> None:
    path = shared_data / "pubmed" / "medline" / name
    rows, root = read_real(path), dom(path)
    assert (Counter(row["kind"] for row in rows)["citation"], Counter(row["kind"] for row in rows)["deletion"]) == REAL[
        name
    ]
    wanted = [one.findtext("MedlineCitation/PMID") for one in root.iterfind("PubmedArticle")]
    assert [row["pmid"] for row in rows] == wanted + [one.text for one in root.iterfind("DeleteCitation/PMID")]
    assert len({row["id"] for row in rows}) == len(rows)


def letters(text: str) -> str:
    """Letters and digits alone, in order: how they are joined and marked is tested above."""
    return re.sub(r"[\W_]+", "", text)


def own_text(article: Any) -> str:
    """Title, labels and abstract in document order, by code that shares nothing with the reader."""
    parts = [article.find("MedlineCitation/Article/ArticleTitle")]
    parts += article.findall("MedlineCitation/Article/Abstract/AbstractText")
    labels = [(part.get("Label") or "").replace("UNLABELLED", "") for part in parts]
    return " ".join(label + " " + "".join(part.itertext()) for label, part in zip(labels, parts, strict=True))


def test_no_letter_of_title_or_abstract_is_lost_or_made_up(shared_data: Path) -> None:
    differing: dict[str, tuple[str, str]] = {}
    num_texts = 0
    for path in sorted((shared_data / "pubmed" / "medline").glob("*.xml*")):
        if path.suffix == ".md5" or path.name == "biopython_efetch_pmc.xml":
            continue
        texts = {row["pmid"]: row["text"] for row in read_real(path) if row["text"]}
        for one in dom(path).iterfind("PubmedArticle"):
            pmid = one.findtext("MedlineCitation/PMID") or ""
            if one.find("MedlineCitation/Article/Abstract") is not None and pmid in texts:
                num_texts += 1
                wanted, found = letters(own_text(one)), letters(texts[pmid])
                if wanted != found:
                    differing[pmid] = wanted, found
    assert num_texts == 3267
    repeats_its_label, escaped_twice = {"25550680", "29540181"}, {"21814588", "23874575"}  # ITALY: 2004&amp;ndash;...
    assert set(differing) == repeats_its_label | escaped_twice
    assert all(len(wanted) > len(found) > len(wanted) - 60 for wanted, found in differing.values())


def test_derived_citations_carry_the_checksum_beside_them(shared_data: Path) -> None:
    """The data are what their notes say, so that the figures above mean something."""
    path = shared_data / "pubmed" / "medline" / "derived_jats_0005.xml.gz"
    stated = path.with_name(path.name + ".md5").read_text()
    assert hashlib.md5(path.read_bytes(), usedforsecurity=False).hexdigest() in stated


def test_columns() -> None:
    reader = ReadMedline(paths=())
    found = only(whole_set(record(1)))
    assert {field.name: field.type for field in found.batch.schema} == dict(reader.adds)
    assert found.batch.schema.field("retracted").type == pa.bool_()
