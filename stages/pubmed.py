"""One document for each article of PubMed, whatever files, versions and full texts tell of it.

records   each document at the key of its PMID (else PMCID, else DOI), and beside it, at the keys of its other
          ids, what says that these ids mean this PMID
articles  a document without a PMID takes the one that its id means; all go to the key of their article
verdicts  deletions are applied, and of the documents of an article that are left one stays
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import xxhash
from numpy.typing import NDArray

from curate.core.exchange import VERDICT, Exchange, Loop, Reduce, Reducer, Reply, Send, Sent
from curate.core.stage import Columns
from stages.ids import one_array

FULL_TEXT, OLDER_VERSION, DELETED, APPLIED = "full_text", "older_version", "deleted", "applied"
CITATION, ARTICLE, DELETION = range(3)  # the roles of documents; an article is a full text
ALL_VERSIONS = -1

Preference = Literal["full_text", "newest"]
Indices = NDArray[np.int64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True)
class OneDocumentPerPmid(Exchange):
    """Leaves one document for each PMID: the newest citation wins, deletions apply, a full text replaces its citation.

    A document belongs to its PMID. One without belongs to the PMID that the newest citation with its
    PMCID states, or without a PMCID with its DOI; else its PMCID (without version) or DOI is its
    article. Documents without any of these are left alone.

    A citation or deletion is newer the greater (pubmed_file, pubmed_position). A deletion drops the
    older citations of its PMID and version (of all versions where it states none), and nothing else.
    Of the citations that are left the newest stays. Of several full texts that of the earlier source
    stays, then the later version of the PMCID, then the smaller id. With `full_text` the full text
    stays and the citation is merged into it; with `newest` a citation stays where there is one, as
    PubMed's files say nothing of the age of a full text.

    Reads: pmid, pmcid, doi; where a source has them, kind and what `stages.medline.ReadMedline` adds:
    a document with a pubmed_file is a citation or deletion, any other a full text.
    Drops: deleted (a citation), applied (a deletion).
    Merges: full_text (a citation into the full text), older_version (all others into what stays).
    The license is none of its business: a full text that a later step drops takes its citation with it.
    """

    version: ClassVar[int] = 1
    libraries: ClassVar[tuple[str, ...]] = ("xxhash",)
    reads: ClassVar[tuple[str, ...]] = ("pmid", "pmcid", "doi")
    reasons: ClassVar[tuple[str, ...]] = (FULL_TEXT, OLDER_VERSION, DELETED, APPLIED)

    prefer: Preference = "full_text"

    def program(self) -> tuple[Send | Reply | Reduce | Loop, ...]:
        """See Exchange."""
        return SendRecords(self.prefer), ReduceArticles(), ReduceVerdicts()


# What travels about a document, beside its key and id. What sorts first wins.
_RECORD: Columns = {
    "article": pa.string(),  # PMID:..., PMC... or doi:...
    "role": pa.uint8(),
    "tier": pa.uint8(),  # 0 for what is preferred to all of tier 1
    "rank": pa.uint16(),  # of a full text's source; PubMed's own order needs none
    "age": pa.int64(),  # minus the number of the file, or of the PMCID's version
    "depth": pa.int64(),  # minus the position in the file
    "pmid_version": pa.int32(),
}
_AGE_ORDER = ("tier", "rank", "age", "depth", "id")


@dataclass(frozen=True)
class SendRecords(Send):
    """Each document that has an id of PubMed's world, and what its other ids mean."""

    prefer: Preference

    name = "records"
    columns: ClassVar[Columns] = {
        "row": pa.uint32(),
        **_RECORD,
        "is_document": pa.bool_(),  # else it says no more than that `article` means `pmid`
        "is_sought": pa.uint8(),  # 1 where `pmid` is null
        "pmid": pa.string(),
    }

    def open(self) -> Callable[[pa.RecordBatch], Sent]:
        """See Send."""
        return self._send

    def _send(self, batch: pa.RecordBatch) -> Sent:
        pmid, pmcid, doi = _pmids(batch), _pmcids(batch).field("id"), _dois(batch)
        facts = self._facts(batch) | {"pmid": pmid, "is_sought": pmid.is_null().cast(pa.uint8())}
        own = pc.coalesce(pmid, pmcid, doi)
        parts = [_rows(facts, own, own.is_valid(), is_document=True)]
        may_mean = pc.and_(pmid.is_valid(), pc.not_equal(facts["role"], DELETION))
        for other in (pmcid, doi):
            parts.append(_rows(facts, other, pc.and_(may_mean, other.is_valid()), is_document=False))
        return Sent(rows=pa.concat_batches(parts))

    def _facts(self, batch: pa.RecordBatch) -> dict[str, pa.Array]:
        """What is the same in all rows about a document."""
        file = _column(batch, "pubmed_file", pa.int64())
        is_full_text = file.is_null()
        is_deletion = pc.fill_null(pc.equal(_column(batch, "kind", pa.string()), "deletion"), False)
        role = pc.if_else(is_full_text, ARTICLE, pc.if_else(is_deletion, DELETION, CITATION))
        any_version = pc.if_else(is_deletion, ALL_VERSIONS, 1)
        is_second = pc.xor(is_full_text, self.prefer == FULL_TEXT)
        return {
            "id": batch.column("id"),
            "row": batch.column("row"),
            "role": role.cast(pa.uint8()),
            "tier": is_second.cast(pa.uint8()),
            "rank": pc.if_else(is_full_text, batch.column("rank"), pa.scalar(0, pa.uint16())),
            "age": pc.negate(pc.if_else(is_full_text, _pmcids(batch).field("version"), file)),
            "depth": pc.negate(pc.fill_null(_column(batch, "pubmed_position", pa.int64()), 0)),
            "pmid_version": pc.coalesce(_column(batch, "pmid_version", pa.int32()), any_version.cast(pa.int32())),
        }


def _rows(facts: dict[str, pa.Array], article: pa.Array, mask: pa.Array, is_document: bool) -> pa.RecordBatch:
    columns = facts | {"article": article, "is_document": pa.repeat(is_document, len(article))}
    rows = pa.RecordBatch.from_pydict({name: columns[name] for name in ("id", *SendRecords.columns)}).filter(mask)
    return rows.append_column("key", article_keys(rows.column("article")))


def _column(batch: pa.RecordBatch, name: str, kind: pa.DataType) -> pa.Array:
    """A column that not all sources have."""
    return batch.column(name) if name in batch.schema.names else pa.nulls(batch.num_rows, kind)


def _pmids(batch: pa.RecordBatch) -> pa.Array:
    number = pc.struct_field(pc.extract_regex(batch.column("pmid"), r"^0*(?P<number>[0-9]+)$"), "number")
    return pc.binary_join_element_wise("PMID:", number, "")


def _pmcids(batch: pa.RecordBatch) -> pa.StructArray:
    """`id` without the version, and `version`, 0 where none is stated; both valid or null, field by field."""
    pattern = r"^(?:PMC|pmc)?0*(?P<number>[0-9]+)(?:\.(?P<version>[0-9]{1,9}))?$"
    found = pc.extract_regex(batch.column("pmcid"), pattern)
    version = pc.struct_field(found, "version")
    version = pc.fill_null(pc.if_else(pc.equal(version, ""), "0", version), "0").cast(pa.int64())
    id = pc.binary_join_element_wise("PMC", pc.struct_field(found, "number"), "")
    return pa.StructArray.from_arrays([id, version], ["id", "version"])


def _dois(batch: pa.RecordBatch) -> pa.Array:
    """In lower case, as a DOI is the same in any."""
    pattern = r"(?i)^\s*(?:https?://(?:dx\.)?doi\.org/|doi:)?\s*(?P<doi>10\.\S+)\s*$"
    doi = pc.struct_field(pc.extract_regex(batch.column("doi"), pattern), "doi")
    return pc.binary_join_element_wise("doi:", pc.utf8_lower(doi), "")


def article_keys(articles: pa.Array) -> pa.Array:
    """Where the rows of an article meet."""
    names = articles.cast(pa.binary()).to_pylist()
    return pa.array([xxhash.xxh3_64_intdigest(name) for name in names], pa.uint64())


class ReduceArticles(Reduce):
    """Documents to the key of their article."""

    name = "articles"
    inputs = ("records",)
    # What means an article comes before what seeks it, and of that citations, the newest first.
    order = ("key", "article", "is_sought", "role", *_AGE_ORDER)
    to = "keys"
    columns: ClassVar[Columns] = {**_RECORD, "home": pa.uint64()}

    def open(self) -> Reducer:
        """See Reduce."""
        return ArticleReducer()


class ArticleReducer(Reducer):
    """Carries the first row of the id in hand."""

    def __init__(self) -> None:
        self._first: pa.Table | None = None

    def reduce(self, rows: pa.Table) -> pa.Table:
        """See Reducer."""
        rows, num_carried = _behind(self._first, rows)
        groups = _groups(rows)
        firsts = np.flatnonzero(np.diff(groups, prepend=-1))
        self._first = rows.slice(int(firsts[-1]), 1)
        pmid, article = one_array(rows.column("pmid")), one_array(rows.column("article"))
        found = pc.coalesce(pmid, pmid.take(pa.array(firsts[groups])), article)
        rows = rows.set_column(rows.schema.get_field_index("article"), "article", found)
        rows = rows.slice(num_carried)
        rows = rows.filter(rows.column("is_document"))
        keys = article_keys(rows.column("article"))
        return rows.select(["id", *ReduceArticles.columns]).append_column("key", keys)


class ReduceVerdicts(Reduce):
    """Of each article all documents but the one that stays."""

    name = "verdicts"
    inputs = ("articles",)
    order = ("key", "article", *_AGE_ORDER)
    columns: ClassVar[Columns] = VERDICT

    def open(self) -> Reducer:
        """See Reduce."""
        return VerdictReducer()


class VerdictReducer(Reducer):
    """Carries of the article in hand what stays, the citation that stays or would, and a deletion a version."""

    def __init__(self) -> None:
        self._carried: pa.Table | None = None

    def reduce(self, rows: pa.Table) -> pa.Table:
        """See Reducer."""
        rows, num_carried = _behind(self._carried, rows)
        groups, roles = _groups(rows), rows.column("role").to_numpy()
        since = _deletions(groups, roles, rows.column("pmid_version").to_numpy())
        is_deleted = _deleted(since, groups, roles, rows.column("pmid_version").to_numpy())
        is_left = ~is_deleted & (roles != DELETION)
        kept, citation = _firsts(groups, is_left), _firsts(groups, is_left & (roles == CITATION))
        last = int(groups[-1])
        carried = {*kept[last:].tolist(), *citation[last:].tolist(), *(i for at, i in since.items() if at[0] == last)}
        self._carried = rows.take(pa.array(sorted(carried - {-1}), pa.int64()))
        index = np.arange(len(groups))
        is_replaced = (index == citation[groups]) & (roles[kept[groups]] == ARTICLE)
        reasons = np.where(is_replaced, FULL_TEXT, OLDER_VERSION)
        reasons = np.where(is_left, reasons, np.where(is_deleted, DELETED, APPLIED))
        goes = (index != kept[groups]) & (index >= num_carried)
        kept_rows = pa.array(kept[groups], pa.int64(), mask=~is_left)
        verdicts = pa.table(
            {
                "home": rows.column("home"),
                "id": rows.column("id"),
                "fate": pa.array(np.where(is_left, "merged", "dropped"), pa.string()),
                "reason": pa.array(reasons, pa.string()),
                "kept_id": rows.column("id").take(kept_rows),
                "cluster": pa.nulls(len(groups), pa.binary(16)),
            }
        )
        return verdicts.filter(pa.array(goes))


def _behind(carried: pa.Table | None, rows: pa.Table) -> tuple[pa.Table, int]:
    """Rows behind those that were carried, and how many these are."""
    if carried is None:
        return rows.combine_chunks(), 0
    return pa.concat_tables([carried, rows.select(carried.schema.names)]).combine_chunks(), carried.num_rows


def _groups(rows: pa.Table) -> Indices:
    """The number of each row's article."""
    article = one_array(rows.column("article"))
    is_new = pc.not_equal(article.slice(1), article.slice(0, max(0, len(article) - 1)))
    numbers: Indices = np.append(0, np.cumsum(is_new.to_numpy(zero_copy_only=False)))[: len(article)]
    return numbers


def _firsts(groups: Indices, mask: Flags) -> Indices:
    """Of each group the first row where the mask holds, or -1."""
    found = np.flatnonzero(mask)[::-1]
    firsts = np.full(int(groups[-1]) + 1, -1, np.int64)
    firsts[groups[found]] = found
    return firsts


def _deletions(groups: Indices, roles: Indices, versions: Indices) -> dict[tuple[int, int], int]:
    """(group, version) -> the row of the newest deletion."""
    since: dict[tuple[int, int], int] = {}
    for i in np.flatnonzero(roles == DELETION).tolist():
        since.setdefault((int(groups[i]), int(versions[i])), i)
    return since


def _deleted(since: dict[tuple[int, int], int], groups: Indices, roles: Indices, versions: Indices) -> Flags:
    """Which rows are citations behind, so older than, a deletion of their version."""
    is_deleted = np.zeros(len(groups), bool)
    touched = np.isin(groups, [group for group, _ in since])
    for i in np.flatnonzero(touched & (roles == CITATION)).tolist():
        applying = (since.get((int(groups[i]), version)) for version in (int(versions[i]), ALL_VERSIONS))
        is_deleted[i] = any(row is not None and row < i for row in applying)
    return is_deleted
