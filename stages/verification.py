"""From the signatures of candidate pairs to verified pairs: by the estimate where it is sure, else by the shingles.

    doubts     pairs whose estimate is near the threshold go home, to both documents
    shingles   their shingles' hashes travel to the earlier document's key, once a pair
    edges      the similar pairs, in both directions

"Earlier" and "before" mean: preferred, by `keep`; ties by id. Nothing else decides.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from curate.core.exchange import Reduce, Reducer, Reply
from curate.core.stage import Columns
from stages.ids import Flags, id_array, id_keys, id_words, is_equal, one_array
from stages.kernels.buffers import text_buffers
from stages.kernels.minhash import collect_shingles, compare_shingles, count_agreements
from stages.minhash import PAIR_ORDER, SKETCHES, ranks
from stages.signatures import normalized, signature_values, value_array, value_stretches

MARGIN = 0.1  # beyond it an estimate decides, unless so few values need more:
MARGIN_ERRORS = 3  # standard errors of the estimate at the threshold

# Of a document's doubtful pairs, the most whose shingles are compared: half of them for the most preferred documents,
# half for those estimated above the threshold. Bounds what leaves home to MAX_DOUBTS sets of shingles a document.
MAX_DOUBTS = 16


def doubtful_counts(num_values: int, threshold: float) -> tuple[int, int]:
    """[low, high): in so many values do two signatures agree that are in doubt; with more, they are similar.

    For 126 values at 0.8 that is 88 to 114, or an estimate within 0.107.
    """
    margin = max(MARGIN, MARGIN_ERRORS * math.sqrt(threshold * (1 - threshold) / num_values))
    return math.ceil((threshold - margin) * num_values), math.floor((threshold + margin) * num_values) + 1


@dataclass(frozen=True)
class Pairs:
    """Rows of sketches, each candidate's with its keeper's.

    keeper: position of the keeper's row, its own in a keeper's row; is_same: the texts are equal after
    normalization; agreement: of how many values two signatures agree, -1 where these are not compared.
    """

    rows: pa.Table
    keeper: NDArray[np.int64]
    is_candidate: Flags
    is_same: Flags
    agreement: NDArray[np.int64]


class PairCarry:
    """Gives sorted rows as Pairs, batch after batch; carries the row of the keeper in hand."""

    def __init__(self, num_values: int) -> None:
        self._num_values = num_values
        self._keeper: pa.Table | None = None
        self.was_carried = False  # whether the first row was carried: it was given before

    def take(self, rows: pa.Table) -> Pairs:
        """The next rows."""
        self.was_carried = self._keeper is not None
        if self._keeper is not None:
            rows = pa.concat_tables([self._keeper, rows])
        is_candidate = one_array(rows.column("is_candidate")).to_numpy() == 1
        keepers = np.flatnonzero(~is_candidate)
        if not len(keepers) or keepers[0] != 0:
            raise ValueError("a candidate's row came to a document that sent none itself")
        self._keeper = rows.slice(int(keepers[-1]), 1)
        keeper = np.repeat(keepers, np.diff(keepers, append=rows.num_rows))
        if not (id_words(rows.column("keeper")) == id_words(rows.column("id"))[keeper]).all():
            raise ValueError("a candidate's row came to another document")
        is_exact = one_array(rows.column("is_exact")).to_numpy() == 1
        wholes = id_words(rows.column("whole"))
        is_same = is_candidate & ~is_exact & is_equal(wholes, wholes[keeper])
        agreement = self._agreement(rows, keeper, is_exact)
        agreement[~is_candidate] = -1
        return Pairs(rows, keeper, is_candidate, is_same, agreement)

    def _agreement(self, rows: pa.Table, keeper: NDArray[np.int64], is_exact: Flags) -> NDArray[np.int64]:
        sketch = one_array(rows.column("sketch"))
        is_long = sketch.is_valid().to_numpy(zero_copy_only=False) & ~is_exact
        place = np.cumsum(is_long) - 1  # among the signatures that there are
        partner = np.where(is_long[keeper], place[keeper], -1)[is_long]
        agreement = np.full(rows.num_rows, -1, np.int64)
        signatures = signature_values(sketch.filter(pa.array(is_long)), self._num_values)
        agreement[is_long] = count_agreements(signatures, partner)
        return agreement


@dataclass(frozen=True)
class ReduceDoubts(Reduce):
    """The rows of a keeper to the pairs whose estimate does not decide.

    `other` is the keeper, or the document itself where it is one. `preference` is the document's own.
    """

    num_values: int  # of a signature
    threshold: float

    name = "doubts"
    inputs = ("signatures",)
    order = PAIR_ORDER
    columns: ClassVar[Columns] = {
        "other": pa.binary(16),
        "preference": pa.uint64(),
        "other_preference": pa.uint64(),
        "scope": pa.uint64(),
        "is_likely": pa.bool_(),  # the estimate is above the threshold
    }

    def open(self) -> Reducer:
        """See Reduce."""
        return DoubtsReducer(self.num_values, self.threshold)


class DoubtsReducer(Reducer):
    """Carries the row of the keeper in hand, and whether it was asked for its shingles."""

    def __init__(self, num_values: int, threshold: float) -> None:
        self._carry = PairCarry(num_values)
        self._low, self._high = doubtful_counts(num_values, threshold)
        self._likely = num_values * threshold
        self._was_asked = False

    def reduce(self, rows: pa.Table) -> pa.Table:
        """See Reducer."""
        pairs = self._carry.take(rows)
        agreement = pairs.agreement
        is_doubtful = (agreement >= max(self._low, 0)) & (agreement < self._high) & ~pairs.is_same
        later = np.flatnonzero(is_doubtful)
        asked = np.zeros(len(agreement), bool)
        asked[pairs.keeper[later]] = True
        was_asked = self._was_asked and self._carry.was_carried
        last = int(pairs.keeper[-1])
        self._was_asked = bool(asked[last]) or (was_asked and last == 0)
        asked[0] &= not was_asked
        keepers = np.flatnonzero(asked)
        which, about = np.concatenate([later, keepers]), np.concatenate([pairs.keeper[later], keepers])
        columns = {
            name: pairs.rows.column(name).take(pa.array(which)) for name in ("home", "id", "preference", "scope")
        }
        columns |= {
            "other": pairs.rows.column("id").take(pa.array(about)),
            "other_preference": pairs.rows.column("preference").take(pa.array(about)),
            "is_likely": pa.array(agreement[which] >= self._likely),
        }
        return pa.table(columns)


@dataclass(frozen=True)
class ReplyShingles(Reply):
    """The shingles of documents in doubt to the keys of the documents before them, and those of the latter."""

    ngram: int

    name = "shingles"
    mail = "doubts"
    reads = ("text",)
    columns: ClassVar[Columns] = SKETCHES

    def open(self) -> Callable[[pa.Table, pa.Table], pa.Table]:
        """See Reply."""
        return self._reply

    def _reply(self, documents: pa.Table, mail: pa.Table) -> pa.Table:
        ids, others = id_words(mail.column("id")), id_words(mail.column("other"))
        row = one_array(mail.column("row")).to_numpy()
        is_own = is_equal(ids, others)
        chosen = np.concatenate([np.flatnonzero(is_own), self._choose(mail, row, is_own)])
        values, offsets = collect_shingles(*text_buffers(normalized(one_array(documents.column("text")))), self.ngram)
        at = np.searchsorted(one_array(documents.column("row")).to_numpy(), row[chosen])
        columns = {name: mail.column(name).take(pa.array(chosen)) for name in ("id", "row", "preference", "scope")}
        columns |= {
            "key": pa.array(id_keys(others[chosen])),
            "keeper": id_array(others[chosen]),
            "is_exact": pa.array(np.ones(len(chosen), np.uint8)),
            "is_candidate": pa.array((~is_own[chosen]).astype(np.uint8)),
            "whole": id_array(ids[chosen]),  # of no use here
            "sketch": value_array(values, offsets).take(pa.array(at)),
        }
        return pa.table(columns)

    def _choose(self, mail: pa.Table, row: NDArray[np.uint32], is_own: Flags) -> NDArray[np.int64]:
        """Of each document at most MAX_DOUBTS pairs."""
        pairs = np.flatnonzero(~is_own)
        preference, likely = (
            one_array(mail.column(name)).to_numpy(zero_copy_only=False)[pairs]
            for name in ("other_preference", "is_likely")
        )
        others = id_words(mail.column("other"))[pairs]
        preferred = ranks(row[pairs], preference, others[:, 0], others[:, 1])
        found: NDArray[np.int64] = pairs[
            (preferred < MAX_DOUBTS // 2) | (ranks(row[pairs], ~likely, preferred) < MAX_DOUBTS // 2)
        ]
        return found


# What `relation` says in the row of the later document; LINK where `other` is not before `id`, or is of another scope.
LINK, SIMILAR, EQUAL = 0, 1, 2  # EQUAL: the texts are equal after normalization

# Rows about a pair of documents, as they travel to find components. Two rows an edge, one from each end.
# preference and home are those of `id`; null where the row is only a link.
EDGE: Columns = {
    "other": pa.binary(16),
    "relation": pa.uint8(),
    "preference": pa.uint64(),
    "home": pa.uint64(),
}


@dataclass(frozen=True)
class ReduceEdges(Reduce):
    """The rows of a keeper to the pairs with the candidates that are similar to it."""

    num_values: int  # of a signature
    threshold: float

    name = "edges"
    inputs = ("signatures", "shingles")
    order = PAIR_ORDER
    to = "keys"
    columns: ClassVar[Columns] = EDGE

    def open(self) -> Reducer:
        """See Reduce."""
        return EdgesReducer(self.num_values, self.threshold)


class EdgesReducer(Reducer):
    """Carries the row of the keeper in hand."""

    def __init__(self, num_values: int, threshold: float) -> None:
        self._carry = PairCarry(num_values)
        self._threshold = threshold
        _, self._sure = doubtful_counts(num_values, threshold)

    def reduce(self, rows: pa.Table) -> pa.Table:
        """See Reducer."""
        pairs = self._carry.take(rows)
        is_similar = pairs.agreement >= self._sure
        is_similar |= pairs.is_same | (similarity(pairs) >= self._threshold)
        later = np.flatnonzero(is_similar)
        relation = np.where(pairs.is_same[later], EQUAL, SIMILAR)
        scope = one_array(pairs.rows.column("scope")).to_numpy()
        relation[scope[later] != scope[pairs.keeper[later]]] = LINK  # one cluster, and yet nothing is removed
        return edges(pairs.rows, later, pairs.keeper[later], relation)


def similarity(pairs: Pairs) -> NDArray[np.float64]:
    """The Jaccard index of the shingles of pairs whose shingles came; -1 in all other rows."""
    is_exact = one_array(pairs.rows.column("is_exact")).to_numpy() == 1
    place = np.cumsum(is_exact) - 1  # among the rows with shingles
    partner = np.where(pairs.is_candidate, place[pairs.keeper], -1)[is_exact]
    found = np.full(len(is_exact), -1.0)
    shingles = one_array(pairs.rows.column("sketch")).filter(pa.array(is_exact))
    found[is_exact] = compare_shingles(*value_stretches(shingles), partner)
    return found


def edges(
    rows: pa.Table, later: NDArray[np.int64], earlier: NDArray[np.int64], relation: NDArray[np.int64]
) -> pa.Table:
    """Rows of EDGE about pairs of rows, from both ends."""
    ends, others = np.concatenate([later, earlier]), np.concatenate([earlier, later])
    ids = id_words(rows.column("id"))
    columns = {name: rows.column(name).take(pa.array(ends)) for name in ("id", "preference", "home")}
    columns |= {
        "key": pa.array(id_keys(ids[ends])),
        "other": id_array(ids[others]),
        "relation": pa.array(np.concatenate([relation, np.full_like(relation, LINK)]).astype(np.uint8)),
    }
    return pa.table(columns)
