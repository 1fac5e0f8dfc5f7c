"""OneDocumentPerPmid once more, as plainly as it can be said: lists, loops and no sorted streams."""

from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

Verdicts = dict[int, tuple[str, str, int | None]]  # position -> fate, reason, position of what is kept

TYPES = {
    "id": pa.binary(16),
    "rank": pa.uint16(),
    "pmid": pa.string(),
    "pmcid": pa.string(),
    "doi": pa.string(),
    "kind": pa.string(),
    "pmid_version": pa.int32(),
    "pubmed_file": pa.int64(),
    "pubmed_position": pa.int64(),
}


@dataclass(frozen=True, kw_only=True)
class Document:
    """One document; `number` makes its id. A full text has no `place` = (file, position)."""

    number: int
    pmid: str | None = None
    pmcid: str | None = None
    doi: str | None = None
    place: tuple[int, int] | None = None
    version: int | None = None
    is_deletion: bool = False
    rank: int = 0

    @property
    def is_full_text(self) -> bool:
        return self.place is None

    @property
    def other_ids(self) -> list[str]:
        return [one for one in (self.pmcid and self.pmcid.partition(".")[0], self.doi) if one]

    @property
    def age(self) -> tuple[Any, ...]:
        """Smaller for what wins among its like."""
        if self.place is None:
            return self.rank, -int((self.pmcid or "").partition(".")[2] or 0), self.number
        return -self.place[0], -self.place[1], self.number


def batch_of(documents: list[Document]) -> pa.RecordBatch:
    rows = [
        {
            "id": one.number.to_bytes(16, "big"),
            "rank": one.rank,
            "pmid": one.pmid,
            "pmcid": one.pmcid,
            "doi": one.doi,
            "kind": "research-article" if one.place is None else "deletion" if one.is_deletion else "citation",
            "pmid_version": one.version,
            "pubmed_file": one.place and one.place[0],
            "pubmed_position": one.place and one.place[1],
        }
        for one in documents
    ]
    return pa.RecordBatch.from_pylist(rows, schema=pa.schema(list(TYPES.items())))


def verdicts_of(documents: list[Document], prefer: str) -> Verdicts:
    groups: dict[str, list[Document]] = {}
    for one in documents:
        if (article := _article(one, documents)) is not None:
            groups.setdefault(article, []).append(one)
    position = {one.number: at for at, one in enumerate(documents)}
    verdicts: Verdicts = {}
    for group in groups.values():
        for number, (fate, reason, kept) in _judge(group, prefer).items():
            verdicts[position[number]] = fate, reason, None if kept is None else position[kept]
    return verdicts


def _article(one: Document, documents: list[Document]) -> str | None:
    if one.pmid or not one.other_ids:
        return one.pmid
    wanted = one.other_ids[0]
    telling = [other for other in documents if other.pmid and wanted in other.other_ids and not other.is_deletion]
    if not telling:
        return wanted
    return min(telling, key=lambda other: (other.is_full_text, *other.age)).pmid


def _judge(group: list[Document], prefer: str) -> dict[int, tuple[str, str, int | None]]:
    found: dict[int, tuple[str, str, int | None]] = {}
    deletions = [one for one in group if one.is_deletion]
    left = []
    for one in group:
        if one.is_deletion:
            found[one.number] = "dropped", "applied", None
        elif any(_deletes(deletion, one) for deletion in deletions):
            found[one.number] = "dropped", "deleted", None
        else:
            left.append(one)
    if left:
        kept = min(left, key=lambda one: (one.is_full_text != (prefer == "full_text"), *one.age))
        newest = min((one for one in left if not one.is_full_text), key=lambda one: one.age, default=None)
        for one in left:
            if one is not kept:
                reason = "full_text" if one is newest and kept.is_full_text else "older_version"
                found[one.number] = "merged", reason, kept.number
    return found


def _deletes(deletion: Document, one: Document) -> bool:
    return not one.is_full_text and deletion.version in (None, one.version) and deletion.age < one.age


PMIDS = st.sampled_from("123")
PMCIDS = st.sampled_from([None, "PMC1", "PMC2", "PMC2.1", "PMC2.2"])
DOIS = st.sampled_from([None, "10.1/a", "10.1/b"])
PLACES = st.lists(st.tuples(st.integers(1, 3), st.integers(0, 4)), unique=True, max_size=12)


@st.composite
def pubmed_documents(draw: st.DrawFn) -> list[Document]:
    """Few ids, so that much is linked to much; the place of a citation is its own."""
    found = []
    for count, place in enumerate(draw(PLACES)):
        number, pmid = count * 7 % 13, draw(PMIDS)
        if draw(st.booleans()):
            version = draw(st.sampled_from([1, 2, None]))
            found.append(Document(number=number, pmid=pmid, place=place, version=version, is_deletion=True))
        else:
            version, pmcid, doi = draw(st.sampled_from([1, 1, 2])), draw(PMCIDS), draw(DOIS)
            found.append(Document(number=number, pmid=pmid, pmcid=pmcid, doi=doi, place=place, version=version))
    for count in range(draw(st.integers(0, 6))):
        own, pmcid, doi = draw(st.none() | PMIDS), draw(PMCIDS), draw(DOIS)
        found.append(Document(number=20 + count, pmid=own, pmcid=pmcid, doi=doi, rank=draw(st.integers(0, 1))))
    return draw(st.permutations(found))
