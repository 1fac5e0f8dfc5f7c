"""Removing documents that say what another one says: equal texts, and near-duplicates."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import xxhash

from curate.core.exchange import VERDICT, Exchange, Part, Reduce, Reducer, Send, Sent
from curate.core.stage import Asset, Columns, Filter, first_reason
from stages.bands import PRESETS, Bands, Preset, choose_bands
from stages.clusters import BYTES_A_ROW_AT_ONCE, CLUSTERS, MAX_ROWS_AT_ONCE
from stages.contamination import EvaluationSets
from stages.ids import id_array, id_words, is_equal
from stages.keepers import Order, Preference, Scope
from stages.kernels.buffers import text_buffers
from stages.minhash import MAX_CANDIDATES, SKETCHES, ReduceCandidates, ReplySignatures
from stages.signatures import KEPT, SendBands, row_bytes
from stages.verification import ReduceDoubts, ReduceEdges, ReplyShingles

EXACT, CONTAMINATED = "exact", "contaminated"

CURVE = (0.3, 0.4, 0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95)  # similarities that `curate plan` tells of

MAX_VALUES = 1 << 14  # of a signature: their number must fit 16 bits, and 450 x 20 be allowed


@dataclass(frozen=True, kw_only=True)
class ExactDedup(Exchange):
    """Merges documents whose texts are equal, byte for byte, into the first by source and id.

    The text is taken as it is: white space, case and Unicode forms count. Compared are hashes
    (xxh3_128). Documents without text take no part, so that `drop_empty` says what became of them.

    Reads: text.
    Merges: exact. Gives no `cluster`: of equal documents one is left, whose own id serves.
    """

    version: ClassVar[int] = 1
    libraries: ClassVar[tuple[str, ...]] = ("xxhash",)
    reads: ClassVar[tuple[str, ...]] = ("text",)
    reasons: ClassVar[tuple[str, ...]] = (EXACT,)

    keep: tuple[Preference, ...] = ("source_order",)  # which is kept; equal texts are equally long; ties by id
    score: str | None = None  # the column of which `highest` keeps the highest

    def __post_init__(self) -> None:
        """Raises ValueError for options that contradict each other."""
        Order(self.keep, self.score).check()

    def columns_read(self) -> tuple[str, ...]:
        """See Exchange."""
        return *self.reads, *Order(self.keep, self.score).columns()

    def program(self) -> tuple[Part, ...]:
        """See Exchange."""
        return SendTextHashes(Order(self.keep, self.score)), ReduceEqual()


@dataclass(frozen=True, kw_only=True)
class MinHashDedup(Exchange):
    """Merges near-duplicates into a document that is kept and similar to them, never by a chain alone.

    Similar: the Jaccard index of the sets of shingles is at least `threshold`. A shingle is `ngram`
    units in a row; a unit is a word (letters, numbers, marks), case folded, or a character of a script
    without spaces; texts are compared in NFKC, punctuation and symbols only part units. A text of
    fewer units is a duplicate of equal ones alone. Texts
    without units, such as empty ones, are duplicates of nothing.

    Pairs are sought among documents that agree in all `rows` values of one of `bands` bands: a pair
    of similarity s is found with probability 1 - (1 - s^rows)^bands. Without `bands`, `rows` and
    `preset` they are chosen by the threshold: 21 x 6 at 0.8. In a bucket a document is paired with the
    first 16 and the last 16 before it, and of all its pairs at most 64 are verified; so the cost is
    linear, whatever the number of copies. The estimate from all values decides where it is further
    than 0.1 (or 3 standard errors) from the threshold, else the exact index does, for at most 16 pairs
    a document. Documents are taken in the order of `keep`: one that is similar to a document kept
    before it is removed.

    With a `scope` a document is removed in favor of one in the same source, dump (the first folder of the
    input's key below the source's root) or group alone; Penedo et al. 2024 (FineWeb), section 3.4, found
    that removal across dumps did harm. Clusters are those of all documents, whatever the scope.

    Reads: text; date or the score where `keep` compares them.
    Merges: near_duplicate, with the kept document's id.
    Gives `cluster`: the smallest id that a document is connected to by similar pairs, whether kept or not.
    The signature is that of datasketch 2.0 (scheme affine32, seed 1) for this module's hash of shingles.
    Of a component of more than 2^20 different texts, held in memory at 200 bytes each, some near-duplicates stay.
    Source: Broder 1997, On the resemblance and containment of documents; Lee et al. 2021, section 4.2, for
    verified pairs. Defaults: 0.8 and word 5-grams as in Lee et al. 2021, appendix A.
    """

    version: ClassVar[int] = 3
    libraries: ClassVar[tuple[str, ...]] = ("numba", "xxhash")
    reads: ClassVar[tuple[str, ...]] = ("text",)
    reasons: ClassVar[tuple[str, ...]] = ("near_duplicate",)

    ngram: int = 5  # units a shingle
    preset: Preset | None = None  # bands x rows of others, see stages/bands.py
    bands: int | None = None
    rows: int | None = None  # values a band
    threshold: float = 0.8
    keep: tuple[Preference, ...] = ("source_order", "longest")  # which is kept, by UTF-8 bytes of the text; ties by id
    score: str | None = None  # the column of which `highest` keeps the highest
    scope: Scope = "global"  # where a kept one is sought: in all, in the source, dump or group of the document
    num_groups: int = 100  # of `scope: group`, by a hash of the input: Penedo et al. 2023 (RefinedWeb), section 3.3

    def __post_init__(self) -> None:
        """Raises ValueError for options out of range or that contradict each other."""
        for name, value in (("ngram", self.ngram), ("bands", self.bands), ("rows", self.rows)):
            if value is not None and value < 1:
                raise ValueError(f"{name} is {value}, must be at least 1")
        if not 0 < self.threshold <= 1:
            raise ValueError(f"threshold is {self.threshold}, must be above 0 and at most 1 (equal shingles)")
        if (self.bands is None) != (self.rows is None):
            raise ValueError("bands and rows are given together, or chosen by the threshold")
        if self.preset is not None and self.bands is not None:
            raise ValueError(f"preset {self.preset} gives bands and rows; leave these out, or the preset")
        if self.layout.num_values > MAX_VALUES:
            raise ValueError(f"bands x rows is {self.layout.num_values}, must be at most {MAX_VALUES}")
        if self.num_groups < 1:
            raise ValueError(f"num_groups is {self.num_groups}, must be at least 1")
        Order(self.keep, self.score).check()

    def columns_read(self) -> tuple[str, ...]:
        """See Exchange."""
        return *self.reads, *Order(self.keep, self.score).columns(), *(() if self.scope == "global" else ("origin",))

    @property
    def layout(self) -> Bands:
        """The bands: explicit, of the preset, or chosen by the threshold."""
        if self.bands is not None and self.rows is not None:
            return Bands(self.bands, self.rows)
        return choose_bands(self.threshold) if self.preset is None else PRESETS[self.preset]

    def forecast(self) -> Mapping[str, Any]:
        """The S-curve, and bytes before compression: a document, a verified pair, the clusters in one worker."""
        num_sent = (self.layout.bands + 1) * (1 if self.scope == "global" else 2)
        return {
            "bands_x_rows": f"{self.layout.bands} x {self.layout.rows}",
            "found_at_similarity": {str(one): round(self.layout.probability(one), 4) for one in CURVE},
            "bytes_sent_a_document": num_sent * row_bytes(SendBands.columns),
            "bytes_kept_at_home_a_document": row_bytes(KEPT) + 4 * self.layout.num_values,
            "bytes_sent_a_candidate": row_bytes(SKETCHES) + 4 * self.layout.num_values,
            "most_candidates_a_document": MAX_CANDIDATES,
            "pairs_clustered_at_once": MAX_ROWS_AT_ONCE // 2,
            "bytes_in_memory_at_once": MAX_ROWS_AT_ONCE * BYTES_A_ROW_AT_ONCE,
        }

    def program(self) -> tuple[Part, ...]:
        """See Exchange."""
        num_values = self.layout.num_values
        return (
            SendBands(self.ngram, *self.layout, Order(self.keep, self.score), self.scope, self.num_groups),
            ReduceCandidates(),
            ReplySignatures(),
            ReduceDoubts(num_values, self.threshold),
            ReplyShingles(self.ngram),
            ReduceEdges(num_values, self.threshold),
            CLUSTERS,
        )


@dataclass(frozen=True, kw_only=True)
class Decontaminate(Filter):
    """Drops documents that hold words of an evaluation set: `ngram` units in a row of one of its items.

    Units are those of MinHashDedup. A set is a file of JSON lines; each text in a line is compared by
    itself. An item of fewer than `ngram` units is sought as a whole, one of fewer than 8 not at all.
    The ledger tells set and line in `detail`, such as mmlu:17.

    Reads: text.
    Drops: contaminated.
    Source: Brown et al. 2020 (GPT-3), appendix C: 13-grams; there what is around the n-gram is cut out.
    """

    version: ClassVar[int] = 1
    libraries: ClassVar[tuple[str, ...]] = ("numba",)
    reads: ClassVar[tuple[str, ...]] = ("text",)
    reasons: ClassVar[tuple[str, ...]] = (CONTAMINATED,)

    sets: dict[str, Asset]  # by name; a list of files, or a pattern, names each by its file
    ngram: int = 13  # units

    def __post_init__(self) -> None:
        """Raises ValueError for options out of range."""
        if self.ngram < 1:
            raise ValueError(f"ngram is {self.ngram}, must be at least 1")

    def open(self) -> Callable[[pa.RecordBatch], pa.Array]:
        """The function that judges a batch; its method `details` names the item."""
        return Contamination(EvaluationSets(self.sets, self.ngram))


@dataclass(frozen=True)
class Contamination:
    """What Decontaminate opens."""

    sets: EvaluationSets

    def __call__(self, batch: pa.RecordBatch) -> pa.Array:
        """See Filter."""
        return first_reason({CONTAMINATED: pa.array(self.sets.holds(batch.column("text")))})

    def details(self, dropped: pa.RecordBatch) -> pa.Array:
        """Set and line of the first item of each dropped document."""
        return pa.array(self.sets.find(dropped.column("text")), pa.string())


@dataclass(frozen=True)
class SendTextHashes(Send):
    """The hash of each text that is not empty."""

    order: Order

    name = "texts"
    columns: ClassVar[Columns] = {"row": pa.uint32(), "text_hash": pa.binary(16), "preference": pa.uint64()}

    def open(self) -> Callable[[pa.RecordBatch], Sent]:
        """See Send."""
        return self._send

    def _send(self, batch: pa.RecordBatch) -> Sent:
        text = batch.column("text")
        data, offsets = text_buffers(text)
        spans = pairwise(offsets.tolist())
        hashes = pa.array([xxhash.xxh3_128_digest(data[start:end].data) for start, end in spans], pa.binary(16))
        columns = {"id": batch.column("id"), "row": batch.column("row"), "text_hash": hashes}
        columns["key"] = pa.array(id_words(hashes)[:, 0])
        columns["preference"] = pa.array(self.order.numbers(batch))
        rows = pa.RecordBatch.from_pydict(columns)
        is_empty = pc.or_(pc.equal(pc.binary_length(text), 0), pc.utf8_is_space(text))
        return Sent(rows=rows.filter(pc.invert(pc.fill_null(is_empty, True))))


class ReduceEqual(Reduce):
    """All but the first document of each hash are merged into the first."""

    name = "verdicts"
    inputs = ("texts",)
    order = ("key", "text_hash", "preference", "id")
    columns: ClassVar[Columns] = VERDICT

    def open(self) -> Reducer:
        """See Reduce."""
        return EqualReducer()


class EqualReducer(Reducer):
    """Carries the first document of the hash in hand."""

    def __init__(self) -> None:
        self._first: pa.Table | None = None

    def reduce(self, rows: pa.Table) -> pa.Table:
        """See Reducer."""
        rows = rows if self._first is None else pa.concat_tables([self._first, rows])
        ids, hashes = id_words(rows.column("id")), id_words(rows.column("text_hash"))
        is_first = np.append(True, ~is_equal(hashes[1:], hashes[:-1]))[: len(hashes)]
        first = np.maximum.accumulate(np.where(is_first, np.arange(len(hashes)), 0))
        if len(hashes):
            self._first = rows.slice(int(first[-1]), 1)
        merged = np.flatnonzero(~is_first)
        columns = {
            "home": rows.column("home").take(pa.array(merged)),
            "id": id_array(ids[merged]),
            "fate": pa.repeat(pa.scalar("merged"), len(merged)),
            "reason": pa.repeat(pa.scalar(EXACT), len(merged)),
            "kept_id": id_array(ids[first[merged]]),
            "cluster": pa.nulls(len(merged), pa.binary(16)),
        }
        return pa.table(columns)
