"""From bands to candidate pairs and their signatures; stages/verification.py goes on.

    bands       a document to one row a band, and one for its whole text; see stages/signatures.py
    candidates  a bucket to pairs, which go home to the later document; the earlier one is told to answer
    signatures  the later document's signature travels to the earlier one's key, once a pair

"Earlier" and "before" mean: preferred, by `keep`; ties by id. Nothing else decides.
"""

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from curate.core.exchange import Reduce, Reducer, Reply
from curate.core.stage import Columns
from stages.ids import Flags, Words, id_array, id_keys, id_words, is_equal, one_array
from stages.kernels.pairs import pair_up

# Of a document's candidates, the most that are verified: a quarter of them the most preferred documents, which are
# the likeliest to be kept, the others those found in the most bands. Bounds what leaves home to MAX_CANDIDATES
# signatures a document.
MAX_CANDIDATES = 64


class ReduceCandidates(Reduce):
    """Buckets to pairs: `other` is the earlier document, or the document itself where it is such a one.

    `is_whole`: the two texts are equal after normalization. `preference` is the one of `other`.
    """

    name = "candidates"
    inputs = ("bands",)
    order = ("key", "preference", "id")
    columns: ClassVar[Columns] = {
        "other": pa.binary(16),
        "preference": pa.uint64(),
        "is_whole": pa.bool_(),
        "is_scoped": pa.bool_(),
    }

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
        columns = {name: rows.column(name).take(pa.array(to)) for name in ("home", "id", "is_scoped")}
        columns |= {name: rows.column(column).take(pa.array(about)) for name, column in OTHER.items()}
        return pa.table(columns | {"is_whole": pa.array(is_whole)})


OTHER = {"other": "id", "preference": "preference"}


# Rows of a signature or of shingles, as both travel to verify pairs.
SKETCHES: Columns = {
    "row": pa.uint32(),
    "keeper": pa.binary(16),  # the earlier document: the rows of one meet at its key
    "is_exact": pa.uint8(),  # 1 where the sketch is the hashes of the shingles, 0 where it is the signature
    "is_candidate": pa.uint8(),  # 0 in the keeper's own row
    "preference": pa.uint64(),
    "whole": pa.binary(16),
    "scope": pa.uint64(),
    "sketch": pa.large_binary(),
}
PAIR_ORDER = ("key", "keeper", "is_exact", "is_candidate", "id")


class ReplySignatures(Reply):
    """The signatures of a home's candidates to the keys of the documents before them, and those of the latter."""

    name = "signatures"
    mail = "candidates"
    columns: ClassVar[Columns] = SKETCHES

    def open(self) -> Callable[[pa.Table, pa.Table], pa.Table]:
        """See Reply."""
        return reply_signatures


def reply_signatures(kept: pa.Table, mail: pa.Table) -> pa.Table:
    """One row for each pair of a candidate that is to be verified, and one for each keeper."""
    ids, others = id_words(mail.column("id")), id_words(mail.column("other"))
    row, preference, is_whole, is_scoped = (
        one_array(mail.column(name)).to_numpy(zero_copy_only=False)
        for name in ("row", "preference", "is_whole", "is_scoped")
    )
    is_own = is_equal(ids, others)
    chosen: list[NDArray[np.int64]] = []
    for scoped in (False, True):
        some = np.flatnonzero(~is_own & (is_scoped == scoped))
        chosen.append(some[choose(row[some], others[some], preference[some], is_whole[some])])
    _, first = np.unique(row[is_own], return_index=True)
    which = np.concatenate([np.flatnonzero(is_own)[first], _distinct(np.concatenate(chosen), row, others)])
    at = np.searchsorted(one_array(kept.column("row")).to_numpy(), row[which])
    columns = {name: kept.column(name).take(pa.array(at)) for name in kept.column_names if name != "signature"}
    columns["sketch"] = kept.column("signature").take(pa.array(at))
    columns |= {
        "key": pa.array(id_keys(others[which])),
        "keeper": id_array(others[which]),
        "is_exact": pa.array(np.zeros(len(which), np.uint8)),
        "is_candidate": pa.array((~is_own[which]).astype(np.uint8)),
    }
    return pa.table(columns)


def _distinct(pairs: NDArray[np.int64], row: NDArray[np.uint32], others: Words) -> NDArray[np.int64]:
    """Each pair once, also where it was chosen within a scope and beyond it."""
    pairs = pairs[np.lexsort((others[pairs, 1], others[pairs, 0], row[pairs]))]
    is_same = (row[pairs][1:] == row[pairs][:-1]) & is_equal(others[pairs][1:], others[pairs][:-1])
    distinct: NDArray[np.int64] = pairs[np.append(True, ~is_same)[: len(pairs)]]
    return distinct


def choose(
    row: NDArray[np.uint32], others: Words, preference: NDArray[np.uint64], is_whole: Flags
) -> NDArray[np.int64]:
    """Which pairs are verified: each one once, and of those of one document at most MAX_CANDIDATES.

    Where the text is equal to another's, that one pair alone: what holds for the other holds for it too.
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
    group = row[pairs]
    preferred = ranks(group, ~whole, preference[pairs], others[pairs, 0], others[pairs, 1])
    is_chosen = preferred < MAX_CANDIDATES // 4
    is_chosen |= ranks(group, -num_bands, preferred) < MAX_CANDIDATES - MAX_CANDIDATES // 4
    has_whole = np.isin(group, group[whole])
    chosen: NDArray[np.int64] = pairs[np.where(has_whole, preferred == 0, is_chosen)]
    return chosen


def ranks(group: NDArray[np.uint32], *columns: NDArray[Any]) -> NDArray[np.int64]:
    """The place of each row within its group, in the order of the columns."""
    order = np.lexsort((*columns[::-1], group))
    is_first = np.append(True, group[order][1:] != group[order][:-1])[: len(group)]
    place = np.arange(len(group))
    found = np.empty(len(group), np.int64)
    found[order] = place - np.maximum.accumulate(np.where(is_first, place, 0))
    return found
