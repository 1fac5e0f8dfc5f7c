"""Keeping the best documents of the whole run, by a column of numbers."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from curate.core.stage import Columns, Filter, first_reason
from curate.core.summary import NeedsSummary, Summary
from stages.ids import id_words

Words = NDArray[np.uint64]  # (n, 3): how far from the best score, id; the best document first
WORD_BITS, ALL_BITS = 64, 192


@dataclass(frozen=True, kw_only=True)
class KeepTop(Filter, NeedsSummary):
    """Keeps the documents with the highest values of a column: round(share x documents) of them, exactly.

    Counted are the documents of all sources and units that come to this step and have a value. Values
    are compared as they are stored, equal ones by the id, the smaller first; so the answer is one set,
    whatever the workers, units and order. Half a document is rounded to the even number.

    Reads: `column`, of integers or floating-point numbers.
    Drops: no_score (null, or not a number), below_top.
    Source: Li et al. 2024 (DataComp-LM), section 4.4: the top 10 % by a fastText classifier.
    """

    version: ClassVar[int] = 1
    reasons: ClassVar[tuple[str, ...]] = ("no_score", "below_top")

    column: str  # of numbers; higher is better
    share: float  # of the documents that have a value; above 0, at most 1

    def __post_init__(self) -> None:
        """Raises ValueError for a share that is none."""
        if not 0 < self.share <= 1:
            raise ValueError(f"share is {self.share}, must be above 0 and at most 1")

    def columns_read(self) -> tuple[str, ...]:
        """See Filter."""
        return ("id", self.column)

    def check_columns(self, columns: Columns) -> None:
        """See Stage."""
        kind = columns[self.column]
        if not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
            raise ValueError(f"column {self.column!r} holds {kind}; want numbers")

    def summary(self) -> Summary:
        """See NeedsSummary."""
        return CountRanks(column=self.column, share=self.share)

    def open(self, *tables: pa.Table) -> Callable[[pa.RecordBatch], pa.Array]:
        """The function that judges a batch, given the tables of CountRanks."""
        cut = find_cut(tables, self.share)

        def judge(batch: pa.RecordBatch) -> pa.Array:
            is_below = _is_after(ranks_of(batch, self.column), cut.last) | cut.is_empty
            no_score = pc.invert(_has_score(batch.column(self.column)))
            return first_reason({"no_score": no_score, "below_top": pa.array(is_below)})

        return judge


@dataclass(frozen=True, kw_only=True)
class CountRanks(Summary):
    """How many documents there are in each range of (score, id), as fine as `max_rows` ranges allow.

    A rank is a number of 192 bits: the score, turned so that the best comes first, and the id. All ranges
    of a table share the first `bits` bits, as many as give no more than `max_rows` different beginnings;
    so the table is a function of the documents. The next round counts inside the one range in which the
    share ends. Each adds 16 bits at least: scores of 4 decimals take one round up to 65,536 documents and
    two up to about 10^9, and no column more than twelve.

    Reads: `column`.
    """

    version: ClassVar[int] = 1
    columns: ClassVar[Columns] = {
        "score": pa.uint64(),  # the beginning of the range
        "id_high": pa.uint64(),
        "id_low": pa.uint64(),
        "bits": pa.uint8(),
        "documents": pa.uint64(),
    }

    column: str
    share: float

    def columns_read(self) -> tuple[str, ...]:
        """See Summary."""
        return (self.column,)

    def open(self, *before: pa.Table) -> Callable[[pa.RecordBatch], pa.Table]:
        """See Summary."""
        cut = find_cut(before, self.share) if before else None

        def count(batch: pa.RecordBatch) -> pa.Table:
            has_score = _has_score(batch.column(self.column)).to_numpy(zero_copy_only=False)
            words = ranks_of(batch, self.column)[has_score]
            if cut is not None:
                words = words[~_is_after(words, cut.last) & ~_is_after(cut.first[None], words)]
            return self._table(words, np.full(len(words), ALL_BITS, np.uint8), np.ones(len(words), np.uint64))

        return count

    def combine(self, tables: Sequence[pa.Table]) -> pa.Table:
        """See Summary."""
        table = pa.concat_tables(tables)
        words = np.column_stack([table.column(name).to_numpy() for name in ("score", "id_high", "id_low")])
        return self._table(words, table.column("bits").to_numpy(), table.column("documents").to_numpy())

    def is_enough(self, *tables: pa.Table) -> bool:
        """See Summary."""
        return find_cut(tables, self.share).is_exact

    def _table(self, words: Words, bits: NDArray[np.uint8], documents: NDArray[np.uint64]) -> pa.Table:
        """Ranges of any size as ranges of one."""
        num_bits = int(bits.min(initial=ALL_BITS))
        words = words & mask_of(num_bits)
        order = np.lexsort(words.T[::-1])
        words, documents = words[order], documents[order]
        common = common_bits(words)
        num_ranges = 1 + np.cumsum(np.bincount(common, minlength=ALL_BITS + 1))  # at one bit more than the index
        num_bits = min(num_bits, int(np.searchsorted(num_ranges, self.max_rows, side="right")))
        first = np.flatnonzero(np.append(True, common < num_bits)[: len(words)])
        words = words[first] & mask_of(num_bits)
        columns = dict(zip(("score", "id_high", "id_low"), words.T.copy(), strict=True))
        columns["bits"] = np.full(len(first), num_bits, np.uint8)
        columns["documents"] = np.add.reduceat(documents, first) if len(first) else documents
        return pa.table({name: pa.array(columns[name], kind) for name, kind in self.columns.items()})


@dataclass(frozen=True)
class Cut:
    """The range of ranks in which a share ends; exact: it ends with `last`; empty: it is none at all."""

    first: Words  # (3,)
    last: Words
    is_exact: bool
    is_empty: bool = False


def find_cut(tables: Sequence[pa.Table], share: float) -> Cut:
    """Where the share ends, as far as the tables of CountRanks tell."""
    wanted = round(Fraction(repr(share)) * int(tables[0].column("documents").to_numpy().sum(dtype=np.uint64)))
    if wanted == 0:
        return Cut(mask_of(0), mask_of(0), is_exact=True, is_empty=True)
    for table in tables:
        ends = np.cumsum(table.column("documents").to_numpy(), dtype=np.int64)
        place = int(np.searchsorted(ends, wanted))
        first = np.array([table.column(name)[place].as_py() for name in ("score", "id_high", "id_low")], np.uint64)
        num_bits = table.column("bits")[place].as_py()
        is_exact = wanted == ends[place] or num_bits == ALL_BITS
        wanted -= int(ends[place - 1]) if place else 0
    return Cut(first, first | ~mask_of(num_bits), is_exact)


def ranks_of(batch: pa.RecordBatch, column: str) -> Words:
    """The rank of each document: a smaller one is better. That of one without a score means nothing."""
    words: Words = np.column_stack([~ascending(batch.column(column)), id_words(batch.column("id"))])
    return words


def ascending(values: pa.Array) -> NDArray[np.uint64]:
    """Numbers as 64 bits that sort as the numbers do; floating-point numbers by IEEE 754, with one zero."""
    sign = np.uint64(1 << 63)
    if pa.types.is_floating(values.type):
        numbers = pc.fill_null(values, 0).cast(pa.float64()).to_numpy() + 0.0
        bits = numbers.view(np.uint64)
        turned = np.where(bits & sign, ~bits, bits | sign)
    elif pa.types.is_unsigned_integer(values.type):
        turned = pc.fill_null(values, 0).cast(pa.uint64()).to_numpy()
    else:
        turned = pc.fill_null(values, 0).cast(pa.int64()).to_numpy().view(np.uint64) ^ sign
    answer: NDArray[np.uint64] = turned
    return answer


def mask_of(num_bits: int) -> Words:
    """Three words whose first bits are set."""
    number = ((1 << num_bits) - 1) << (ALL_BITS - num_bits)
    return np.array([number >> shift & ((1 << WORD_BITS) - 1) for shift in (128, 64, 0)], np.uint64)


def common_bits(words: Words) -> NDArray[np.int64]:
    """How many bits each rank begins with as the one before it does, without the first."""
    different = words[1:] ^ words[:-1]
    zeros = leading_zeros(different)
    is_zero = different == 0
    bits: NDArray[np.int64] = np.where(
        is_zero[:, 0], np.where(is_zero[:, 1], 128 + zeros[:, 2], 64 + zeros[:, 1]), zeros[:, 0]
    )
    return bits


def leading_zeros(words: Words) -> NDArray[np.int64]:
    """Of each word; 64 for 0."""
    left = np.full(words.shape, WORD_BITS, np.int64)
    rest = words.copy()
    for step in (32, 16, 8, 4, 2, 1):
        is_high = rest >> np.uint64(step) != 0
        left[is_high] -= step
        rest = np.where(is_high, rest >> np.uint64(step), rest)
    answer: NDArray[np.int64] = left - (rest != 0)
    return answer


def _is_after(words: Words, limit: Words) -> NDArray[np.bool_]:
    """Which ranks come after the limit: row for row, or one for all."""
    after = words > limit
    equal = words == limit
    answer: NDArray[np.bool_] = after[..., 0] | (equal[..., 0] & (after[..., 1] | (equal[..., 1] & after[..., 2])))
    return answer


def _has_score(values: pa.Array) -> pa.Array:
    is_valid = values.is_valid()
    return (
        pc.and_(is_valid, pc.equal(values, values)).fill_null(False) if pa.types.is_floating(values.type) else is_valid
    )
