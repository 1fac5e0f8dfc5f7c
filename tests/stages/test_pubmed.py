"""OneDocumentPerPmid: which of the documents of an article stays, and what becomes of the others."""

import json
import tarfile
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from curate.core.stage import Input, Slice
from stages.jats import ReadJats
from stages.medline import ReadMedline
from stages.pubmed import OneDocumentPerPmid, Preference
from tests.laws.test_reader import MemoryFile
from tests.oracle import Cuts, run_exchange
from tests.stages.reference_pubmed import Document, Verdicts, batch_of, pubmed_documents, verdicts_of
from tests.stages.test_medline import letters

FULL_TEXT, NEWEST = OneDocumentPerPmid(), OneDocumentPerPmid(prefer="newest")


def citation(
    number: int,
    file: int,
    position: int = 0,
    version: int = 1,
    pmid: str = "1",
    pmcid: str | None = None,
    doi: str | None = None,
) -> Document:
    return Document(number=number, pmid=pmid, pmcid=pmcid, doi=doi, place=(file, position), version=version)


def deletion(number: int, file: int, position: int = 0, version: int | None = 1, pmid: str = "1") -> Document:
    return Document(number=number, pmid=pmid, place=(file, position), version=version, is_deletion=True)


def verdicts(exchange: OneDocumentPerPmid, *documents: Document, cuts: Cuts | None = None) -> Verdicts:
    """By the number of the document; the kept document by its number."""
    found = run_exchange(exchange, batch_of(list(documents)), cuts).verdicts
    number = {one.number.to_bytes(16, "big"): one.number for one in documents}
    return {documents[at].number: (one["fate"], one["reason"], number.get(one["kept_id"])) for at, one in found.items()}


def test_the_newest_citation_stays() -> None:
    found = verdicts(FULL_TEXT, citation(1, 10, 5), citation(2, 10, 7), citation(3, 9, 99))
    assert found == {1: ("merged", "older_version", 2), 3: ("merged", "older_version", 2)}


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (3, 2, 1, 0), (2, 0, 3, 1)])
def test_the_order_of_the_files_does_not_matter(order: tuple[int, ...]) -> None:
    """titipata/pubmed_parser#168: PMIDs 1 and 2, then version 2 of PMID 2 and the deletion of PMID 1."""
    documents = [
        citation(1, 1, 0, pmid="1"),
        citation(2, 1, 1, pmid="2"),
        citation(3, 2, 0, version=2, pmid="2"),
        deletion(4, 2, 1, version=None, pmid="1"),
    ]
    assert verdicts(FULL_TEXT, *(documents[at] for at in order), cuts=Cuts(3, 2, 7)) == {
        1: ("dropped", "deleted", None),
        2: ("merged", "older_version", 3),
        4: ("dropped", "applied", None),
    }


@pytest.mark.parametrize(
    ("place", "version", "is_deleted"),
    [
        ((4, 0), 1, False),
        ((5, 6), 1, False),
        ((5, 8), 1, True),
        ((6, 0), 1, True),
        ((6, 0), 2, False),
        ((6, 0), None, True),
    ],
)
def test_a_deletion_applies_to_what_is_older_and_to_its_version(
    place: tuple[int, int], version: int | None, is_deleted: bool
) -> None:
    found = verdicts(FULL_TEXT, citation(1, 5, 7), deletion(2, *place, version=version))
    assert found[2] == ("dropped", "applied", None)
    assert (found.get(1) == ("dropped", "deleted", None)) is is_deleted


def test_a_citation_that_came_back_stays_and_older_ones_are_deleted() -> None:
    found = verdicts(FULL_TEXT, citation(1, 1), deletion(2, 2), citation(3, 3))
    assert found == {1: ("dropped", "deleted", None), 2: ("dropped", "applied", None)}


def test_where_the_newest_version_is_deleted_the_one_before_it_stays() -> None:
    found = verdicts(FULL_TEXT, citation(1, 1), citation(2, 2, version=2), deletion(3, 3, version=2))
    assert found == {2: ("dropped", "deleted", None), 3: ("dropped", "applied", None)}


def test_a_full_text_replaces_its_citation() -> None:
    full = Document(number=9, pmid="1", pmcid="PMC5")
    found = verdicts(FULL_TEXT, citation(1, 1), citation(2, 2), full)
    assert found == {2: ("merged", "full_text", 9), 1: ("merged", "older_version", 9)}
    found = verdicts(NEWEST, citation(1, 1), citation(2, 2), full)
    assert found == {1: ("merged", "older_version", 2), 9: ("merged", "older_version", 2)}


@pytest.mark.parametrize("exchange", [FULL_TEXT, NEWEST])
def test_a_deletion_does_not_touch_a_full_text(exchange: OneDocumentPerPmid) -> None:
    found = verdicts(exchange, citation(1, 1), deletion(2, 2), Document(number=9, pmid="1"))
    assert found == {1: ("dropped", "deleted", None), 2: ("dropped", "applied", None)}


@pytest.mark.parametrize(
    ("full", "is_linked"),
    [
        (Document(number=9, pmid="1"), True),
        (Document(number=9, pmid="001"), True),
        (Document(number=9, pmcid="PMC5"), True),
        (Document(number=9, pmcid="PMC5.2"), True),
        (Document(number=9, doi="https://doi.org/10.1/ab"), True),
        (Document(number=9, pmid="2", pmcid="PMC5", doi="10.1/AB"), False),  # its own PMID counts
        (Document(number=9, pmcid="PMC6", doi="10.1/AB"), False),  # then its PMCID
        (Document(number=9, pmcid="PMC55"), False),
        (Document(number=9, doi="10.1/abc"), False),
        (Document(number=9, doi="ab"), False),
        (Document(number=9), False),
    ],
)
def test_what_links_a_full_text_to_its_citation(full: Document, is_linked: bool) -> None:
    found = verdicts(FULL_TEXT, citation(1, 1, pmcid="PMC5", doi="10.1/AB"), full)
    assert found == ({1: ("merged", "full_text", 9)} if is_linked else {})


def test_the_newest_citation_says_what_a_pmcid_means() -> None:
    found = verdicts(
        FULL_TEXT,
        citation(1, 1, pmid="1", pmcid="PMC5"),
        citation(2, 2, pmid="2", pmcid="PMC5"),
        Document(number=9, pmcid="PMC5"),
    )
    assert found == {2: ("merged", "full_text", 9)}


def test_of_full_texts_that_of_the_earlier_source_stays_then_the_later_version() -> None:
    found = verdicts(
        FULL_TEXT,
        Document(number=1, pmid="1", pmcid="PMC5.3", rank=1),
        Document(number=2, pmid="1", pmcid="PMC5.10"),
        Document(number=3, pmid="1", pmcid="PMC5.9"),
        Document(number=4, pmid="1"),
    )
    assert found == {number: ("merged", "older_version", 2) for number in (1, 3, 4)}


def test_full_texts_without_a_citation_are_known_by_pmcid_or_doi() -> None:
    found = verdicts(
        FULL_TEXT,
        Document(number=1, pmcid="PMC5.1"),
        Document(number=2, pmcid="PMC5.2"),
        Document(number=3, doi="10.1/a"),
        Document(number=4, doi="doi:10.1/A"),
    )
    assert found == {1: ("merged", "older_version", 2), 4: ("merged", "older_version", 3)}


def test_documents_without_an_id_and_columns_that_a_source_lacks() -> None:
    batch = batch_of([Document(number=1), Document(number=2, pmid="1"), Document(number=3, pmid="1")])
    batch = batch.select(["id", "rank", "pmid", "pmcid", "doi"])
    found = run_exchange(FULL_TEXT, batch).verdicts
    assert {at: (one["reason"], one["kept_id"]) for at, one in found.items()} == {
        2: ("older_version", (2).to_bytes(16, "big"))
    }


def test_columns_of_the_readers_are_those_that_are_read() -> None:
    for reader in (ReadJats(paths=()), ReadMedline(paths=())):
        assert set(FULL_TEXT.columns_read()) <= set(reader.adds)
        assert all(reader.adds[name] == pa.string() for name in FULL_TEXT.columns_read())


# --- against the reference -------------------------------------------------------------------


@settings(max_examples=300, deadline=None)
@given(
    pubmed_documents(),
    st.sampled_from(["full_text", "newest"]),
    st.builds(Cuts, num_homes=st.integers(1, 4), num_parts=st.integers(1, 5), seed=st.none() | st.integers(0, 1 << 32)),
)
def test_the_verdicts_are_those_of_the_reference(documents: list[Document], prefer: Preference, cuts: Cuts) -> None:
    found = run_exchange(OneDocumentPerPmid(prefer=prefer), batch_of(documents), cuts).verdicts
    position = {one.number.to_bytes(16, "big"): at for at, one in enumerate(documents)}
    plain = {at: (one["fate"], one["reason"], position.get(one["kept_id"])) for at, one in found.items()}
    assert plain == verdicts_of(documents, prefer)


def test_keys_that_collide_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    documents = [citation(n, n, pmid=str(n % 5), pmcid=f"PMC{n % 5}") for n in range(20)]
    documents += [Document(number=30 + n, pmcid=f"PMC{n}") for n in range(7)]
    alone = verdicts(FULL_TEXT, *documents)
    monkeypatch.setattr("xxhash.xxh3_64_intdigest", lambda _: 7)
    assert verdicts(FULL_TEXT, *documents, cuts=Cuts(3, 2, 1)) == alone == verdicts(FULL_TEXT, *documents)


# --- real records ----------------------------------------------------------------------------


def read(reader: Any, key: str, data: bytes, rank: int) -> pa.Table:
    piece = Slice(Input(key, len(data), ""), 0, len(data), True)
    table = pa.Table.from_batches([records.batch for records in reader.open()(piece, MemoryFile(data))])
    names = ("id", "title", "pmid", "pmcid", "doi", "kind", "pmid_version", "pubmed_file", "pubmed_position")
    table = table.select([name for name in names if name in table.schema.names])
    return table.append_column("rank", pa.array([rank] * table.num_rows, pa.uint16()))


def as_batch(*tables: pa.Table) -> pa.RecordBatch:
    table = pa.concat_tables(tables, promote_options="default").combine_chunks()
    batch: pa.RecordBatch = table.to_batches()[0]
    return batch


def test_real_deletions(shared_data: Path) -> None:
    """262 deletions of an update file; of 10 of its PMIDs an older citation, of 10 a newer one, is there as well."""
    path = shared_data / "pubmed" / "medline" / "pubmed20n1016.xml.gz"
    update = read(ReadMedline(paths=()), path.name, path.read_bytes(), 0)
    named = update.filter(pa.compute.equal(update["kind"], "deletion"))["pmid"].to_pylist()
    planted = b"".join(
        b'<PubmedArticle><MedlineCitation><PMID Version="1">%s</PMID></MedlineCitation></PubmedArticle>' % pmid.encode()
        for pmid in named[:20]
    )
    middle = len(planted) // 2
    older, newer = (
        read(ReadMedline(paths=()), key, b"<PubmedArticleSet>" + part + b"</PubmedArticleSet>", 0)
        for key, part in (("pubmed20n0001.xml", planted[:middle]), ("pubmed21n0001.xml", planted[middle:]))
    )
    found = run_exchange(FULL_TEXT, as_batch(newer, update, older), Cuts(4, 3, 1)).verdicts
    assert Counter((one["fate"], one["reason"]) for one in found.values()) == {
        ("dropped", "applied"): 262,
        ("dropped", "deleted"): 10,
    }


def test_full_texts_and_citations_of_the_same_articles(shared_data: Path) -> None:
    """2,429 derived citations are the front matter of full texts; whether the right two met is told by their titles."""
    folder = shared_data / "pubmed"
    stated = [json.loads(line) for line in (folder / "jats" / "manifest.jsonl").read_text("utf-8").splitlines()]
    title_of = {(row["archive"], row["member"]): row["title"] or "" for row in stated}
    titles: list[str] = []
    tables = []
    for path in sorted((folder / "medline").glob("derived_jats_*.xml.gz")):
        tables.append(read(ReadMedline(paths=()), path.name, path.read_bytes(), 1))
        titles += [title or "" for title in tables[-1]["title"].to_pylist()]
    num_citations = len(titles)
    for archive in sorted((folder / "jats").glob("jats_*.tar.xz")):
        with tarfile.open(archive) as tar:
            for member in tar:
                if (content := tar.extractfile(member)) is not None and (archive.name, member.name) in title_of:
                    tables.append(read(ReadJats(paths=()), "a.xml", content.read(), 0))
                    titles.append(title_of[archive.name, member.name])
    batch = as_batch(*tables)
    found = run_exchange(FULL_TEXT, batch, Cuts(5, 4, 3)).verdicts
    assert Counter((at < num_citations, one["fate"], one["reason"]) for at, one in found.items()) == {
        (True, "merged", "full_text"): num_citations,
        (False, "merged", "older_version"): 8,  # the copies of the six groups in natural_duplicates.jsonl
    }
    position = {id: at for at, id in enumerate(batch.column("id").to_pylist())}
    known = (folder / "jats" / "natural_duplicates.jsonl").read_text("utf-8").splitlines()
    several = {json.loads(line)["key"] for line in known}  # files of one DOI, some of them with a title of their own
    dois = [(doi or "").lower() for doi in batch.column("doi").to_pylist()]
    pairs = [(titles[at], titles[position[one["kept_id"]]]) for at, one in found.items() if dois[at] not in several]
    assert (num_citations, len(pairs)) == (2429, 2423)
    # The manifest cuts long titles.
    assert [pair for pair in pairs if not letters(pair[0]).startswith(letters(pair[1])[:90])] == []
