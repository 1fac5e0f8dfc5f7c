"""From bands to verified pairs of near-duplicates: candidates, signatures, estimates.

    bands       a document to one row a band, and one for its whole text; see stages/signatures.py
    candidates  a bucket to pairs, which go home to the later document; the earlier one is told to answer
    signatures  the later document's signature travels to the earlier one's key, once a pair
    edges       pairs whose signatures agree in enough values, in both directions

"Earlier" and "before" mean: preferred, by `keep`; ties by id. Nothing else decides.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from curate.core.exchange import Reduce, Reducer, Reply
from curate.core.stage import Columns
from stages.ids import Flags, Words, id_array, id_keys, id_words, is_equal, one_array
from stages.kernels.minhash import count_agreements
from stages.kernels.pairs import pair_up
from stages.signatures import signature_values

# Of a document's candidates, the most that are verified: those found in the most bands come first.
# Bounds what leaves home to MAX_CANDIDATES signatures a document.
MAX_CANDIDATES = 64


class ReduceCandidates(Reduce):
    """Buckets to pairs: `other` is the earlier document, or the document itself where it is such a one.

    `is_whole`: the two texts are equal after normalization. `preference` is the one of `other`.
    """

    name = "candidates"
    inputs = ("bands",)
    order = ("key", "preference", "id")
    columns: ClassVar[Columns] = {"other": pa.binary(16), "preference": pa.uint64(), "is_whole": pa.bool_()}

    def open(self) -> Reducer:
        """See Reduce."""
        return CandidatesReducer()


class CandidatesReducer(Reducer):
    """Carries the window of the bucket in hand: at most 32 rows."""

    def __init__(self) -> None:
        self._window: pa.Table | None = None
        self._told: Flags = np.zeros(0, bool)  # of the window: which were told to answer

    def reduce(self, rows: pa.Table) -> pa.Table:
        """See Reducer."""
        num_known = len(self._told)
        if self._window is not None:
            rows = pa.concat_tables([self._window, rows])
        keys, wholes = (one_array(rows.column(name)).to_numpy() for name in ("key", "whole"))
        later, earlier, window = pair_up(keys, wholes, num_known)
        told = np.zeros(rows.num_rows, bool)
        told[:num_known] = self._told
        told_now = np.zeros(rows.num_rows, bool)
        told_now[earlier] = True
        asked = np.flatnonzero(told_now & ~told)
        self._window, self._told = rows.take(pa.array(window)), (told | told_now)[window]
        to, about = np.concatenate([later, asked]), np.concatenate([earlier, asked])
        is_whole = (keys[to] == wholes[to]) & (to != about)
        columns = {name: rows.column(name).take(pa.array(to)) for name in ("home", "id")}
        columns |= {name: rows.column(column).take(pa.array(about)) for name, column in OTHER.items()}
        return pa.table(columns | {"is_whole": pa.array(is_whole)})


OTHER = {"other": "id", "preference": "preference"}


class ReplySignatures(Reply):
    """The signatures of a home's candidates to the keys of the documents before them, and those of the latter."""

    name = "signatures"
    mail = "candidates"
    columns: ClassVar[Columns] = {
        "row": pa.uint32(),
        "keeper": pa.binary(16),  # the earlier document: the rows of one meet at its key
        "is_candidate": pa.uint8(),  # 0 in the keeper's own row
        "preference": pa.uint64(),
        "whole": pa.binary(16),
        "signature": pa.large_binary(),
    }

    def open(self) -> Callable[[pa.Table, pa.Table], pa.Table]:
        """See Reply."""
        return reply_signatures


def reply_signatures(kept: pa.Table, mail: pa.Table) -> pa.Table:
    """One row for each pair of a candidate that is to be verified, and one for each keeper."""
    ids, others = id_words(mail.column("id")), id_words(mail.column("other"))
    row, preference, is_whole = (one_array(mail.column(name)) for name in ("row", "preference", "is_whole"))
    is_own = is_equal(ids, others)
    candidates = np.flatnonzero(~is_own)
    chosen = candidates[
        choose(
            row.to_numpy()[candidates],
            others[candidates],
            preference.to_numpy()[candidates],
            is_whole.to_numpy(zero_copy_only=False)[candidates],
        )
    ]
    _, first = np.unique(row.to_numpy()[is_own], return_index=True)
    which = np.concatenate([np.flatnonzero(is_own)[first], chosen])
    at = np.searchsorted(one_array(kept.column("row")).to_numpy(), row.to_numpy()[which])
    columns = {name: kept.column(name).take(pa.array(at)) for name in kept.column_names}
    columns |= {
        "key": pa.array(id_keys(others[which])),
        "keeper": id_array(others[which]),
        "is_candidate": pa.array((~is_own[which]).astype(np.uint8)),
    }
    return pa.table(columns)


def choose(
    row: NDArray[np.uint32], others: Words, preference: NDArray[np.uint64], is_whole: Flags
) -> NDArray[np.int64]:
    """Which pairs are verified: each one once, and of those of one document at most MAX_CANDIDATES.

    Those found in most bands come first, then those with the most preferred document. Where the
    text is equal to another's, that one pair alone: what holds for the other holds for it too.
    """
    if not len(row):
        return np.empty(0, np.int64)
    order = np.lexsort((others[:, 1], others[:, 0], row))
    sorted_row, sorted_others = row[order], others[order]
    is_new = np.ones(len(row), bool)
    is_new[1:] = (sorted_row[1:] != sorted_row[:-1]) | ~is_equal(sorted_others[1:], sorted_others[:-1])
    first = np.flatnonzero(is_new)
    num_bands = np.diff(first, append=len(row))
    whole = np.logical_or.reduceat(is_whole[order], first)
    pairs = order[first]
    rank = np.lexsort((others[pairs, 1], others[pairs, 0], preference[pairs], -num_bands, ~whole, row[pairs]))
    pairs, whole = pairs[rank], whole[rank]
    starts = np.flatnonzero(np.append(True, row[pairs][1:] != row[pairs][:-1]))
    lengths = np.diff(starts, append=len(pairs))
    place = np.arange(len(pairs)) - np.repeat(starts, lengths)
    limit = np.repeat(np.where(whole[starts], 1, MAX_CANDIDATES), lengths)
    chosen: NDArray[np.int64] = pairs[place < limit]
    return chosen


# Rows about a pair of documents, as they travel to find components. Two rows an edge, one from each end.
# agreement: in the row of the later document, of how many values the two signatures agree (one more
# than there are where the texts are equal after normalization); 0 where `other` is not before `id`.
# preference and home are those of `id`; null where the row is only a link.
EDGE: Columns = {
    "other": pa.binary(16),
    "agreement": pa.uint16(),
    "preference": pa.uint64(),
    "home": pa.uint64(),
}


@dataclass(frozen=True)
class ReduceEdges(Reduce):
    """The rows of a keeper to the pairs with the candidates that are similar to it."""

    num_values: int  # of a signature
    threshold: float

    name = "edges"
    inputs = ("signatures",)
    order = ("key", "keeper", "is_candidate", "id")
    to = "keys"
    columns: ClassVar[Columns] = EDGE

    def open(self) -> Reducer:
        """See Reduce."""
        return EdgesReducer(self.num_values, self.threshold)


class EdgesReducer(Reducer):
    """Carries the row of the keeper in hand."""

    def __init__(self, num_values: int, threshold: float) -> None:
        self._num_values = num_values
        self._threshold = threshold
        self._keeper: pa.Table | None = None

    def reduce(self, rows: pa.Table) -> pa.Table:
        """See Reducer."""
        if self._keeper is not None:
            rows = pa.concat_tables([self._keeper, rows])
        keepers = np.flatnonzero(one_array(rows.column("is_candidate")).to_numpy() == 0)
        if not len(keepers) or keepers[0] != 0:
            raise ValueError("a candidate's signature came to a document that sent none itself")
        self._keeper = rows.slice(int(keepers[-1]), 1)
        keeper = np.repeat(keepers, np.diff(keepers, append=rows.num_rows))
        if not (id_words(rows.column("keeper")) == id_words(rows.column("id"))[keeper]).all():
            raise ValueError("a candidate's signature came to another document")
        agreement = self._agreement(rows, keeper)
        later = np.flatnonzero(agreement / self._num_values >= self._threshold)
        return edges(rows, later, keeper[later], agreement[later])

    def _agreement(self, rows: pa.Table, keeper: NDArray[np.int64]) -> NDArray[np.int64]:
        """For each candidate what it has in common with its keeper; -1 in the rows of keepers."""
        signature = one_array(rows.column("signature"))
        is_long = signature.is_valid().to_numpy(zero_copy_only=False)
        place = np.cumsum(is_long) - 1  # among the signatures that there are
        partner = np.where(is_long[keeper], place[keeper], -1)[is_long]
        agreement = np.full(rows.num_rows, -1, np.int64)
        agreement[is_long] = count_agreements(signature_values(signature, self._num_values), partner)
        wholes = id_words(rows.column("whole"))
        agreement[is_equal(wholes, wholes[keeper])] = self._num_values + 1
        agreement[keeper == np.arange(rows.num_rows)] = -1
        return agreement


def edges(
    rows: pa.Table, later: NDArray[np.int64], earlier: NDArray[np.int64], agreement: NDArray[np.int64]
) -> pa.Table:
    """Rows of EDGE about pairs of rows, from both ends."""
    ends, others = np.concatenate([later, earlier]), np.concatenate([earlier, later])
    ids = id_words(rows.column("id"))
    columns = {name: rows.column(name).take(pa.array(ends)) for name in ("id", "preference", "home")}
    columns |= {
        "key": pa.array(id_keys(ids[ends])),
        "other": id_array(ids[others]),
        "agreement": pa.array(np.concatenate([agreement, np.zeros_like(agreement)]).astype(np.uint16)),
    }
    return pa.table(columns)
