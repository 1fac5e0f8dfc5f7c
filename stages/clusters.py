"""From verified pairs to clusters and to the one document that is kept for each removed one.

    components  large-star and small-star in turn: each document learns the smallest id that it is connected to
    members     a document's row and the pairs to those before it go to the key of that smallest id
    verdicts    in order of preference, a document similar to one that was kept before is removed

Where the pairs fit the memory of one worker, all of it is done at once, by compiled loops over arrays
(stages/kernels/clusters.py), and gives the same.

Being connected removes nothing: a chain A - B - C whose ends differ keeps A and C.
Source: Kiveris et al. 2014, Connected Components in MapReduce and Beyond, section 3.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from curate.core.exchange import VERDICT, Loop, Reduce, Reducer, Shortcut
from curate.core.stage import Columns
from stages.ids import Flags, Words, id_array, id_keys, id_words, is_equal, is_less, one_array
from stages.kernels.clusters import find_documents, join, name_keepers
from stages.verification import EDGE, EQUAL, LINK

NEAR_DUPLICATE = "near_duplicate"

# Documents of one component that are held in memory, about 200 bytes each; copies of a text count
# once. Those beyond are judged by the first ones alone, so that some near-duplicates stay.
MAX_REMEMBERED = 1 << 20


@dataclass(frozen=True)
class Links:
    """Sorted rows as pairs of ids, with what is known of the rows before them.

    smallest: the first `other` of the id's rows, which is the smallest that it is linked to.
    is_new: the row differs from the one before it; is_first: it is the first of its id.
    """

    ids: Words
    others: Words
    smallest: Words
    is_new: Flags
    is_first: Flags


class LinkCarry:
    """Gives sorted rows as Links, batch after batch; carries one row and its id's smallest `other`."""

    def __init__(self) -> None:
        self._last: tuple[Words, Words, Words] | None = None  # (1, 2) each: id, other, smallest

    def take(self, rows: pa.Table) -> Links:
        """The next rows."""
        ids, others = id_words(rows.column("id")), id_words(rows.column("other"))
        none = ids[:1] ^ np.uint64(1), others[:1], others[:1]  # an id that is another
        last_id, last_other, last_smallest = self._last or none
        before, other_before = np.concatenate([last_id, ids[:-1]]), np.concatenate([last_other, others[:-1]])
        is_first = ~is_equal(ids, before)
        is_new = is_first | ~is_equal(others, other_before)
        first = np.maximum.accumulate(np.where(is_first, np.arange(len(ids)), -1))
        smallest = np.where((first >= 0)[:, None], others[first], last_smallest)
        if len(ids):
            self._last = ids[-1:], others[-1:], smallest[-1:]
        return Links(ids, others, smallest, is_new, is_first)


def link_rows(ids: Words, others: Words) -> pa.Table:
    """Rows of EDGE that say no more than that two documents are connected."""
    columns = {"key": pa.array(id_keys(ids)), "id": id_array(ids), "other": id_array(others)}
    columns["relation"] = pa.array(np.full(len(ids), LINK, np.uint8))
    return pa.table(columns | {name: pa.nulls(len(ids), pa.uint64()) for name in ("preference", "home")})


LINK_ORDER = ("key", "id", "other")


class LargeStar(Reduce):
    """Links each document above another to the smallest that this other is linked to, or is."""

    name = "large_star"
    inputs = ("edges", "small_star")
    order = LINK_ORDER
    to = "keys"
    columns: ClassVar[Columns] = EDGE

    def open(self) -> Reducer:
        """See Reduce."""
        return LargeStarReducer()


class LargeStarReducer(Reducer):
    """Rows from both ends of each link; carries one row."""

    def __init__(self) -> None:
        self._carry = LinkCarry()

    def reduce(self, rows: pa.Table) -> pa.Table:
        """See Reducer."""
        links = self._carry.take(rows)
        center = np.where(is_less(links.smallest, links.ids)[:, None], links.smallest, links.ids)
        above = links.is_new & is_less(links.ids, links.others)
        self.num_changed += int(np.count_nonzero(above & ~is_equal(center, links.ids)))
        return link_rows(links.others[above], center[above])


class SmallStar(Reduce):
    """Links each document, and all below it that it is linked to, to the smallest of these."""

    name = "small_star"
    inputs = ("large_star",)
    order = LINK_ORDER
    to = "keys"
    columns: ClassVar[Columns] = EDGE

    def open(self) -> Reducer:
        """See Reduce."""
        return SmallStarReducer()


class SmallStarReducer(Reducer):
    """Rows from the upper end of each link alone; gives them from both ends. Carries one row."""

    def __init__(self) -> None:
        self._carry = LinkCarry()

    def reduce(self, rows: pa.Table) -> pa.Table:
        """See Reducer."""
        links = self._carry.take(rows)
        moved = links.is_new & ~is_equal(links.others, links.smallest)
        self.num_changed += int(np.count_nonzero(moved))
        upper = np.concatenate([links.ids[links.is_first], links.others[moved]])
        center = np.concatenate([links.smallest[links.is_first], links.smallest[moved]])
        return link_rows(np.concatenate([upper, center]), np.concatenate([center, upper]))


COMPONENTS = Loop(name="components", start="edges", steps=(LargeStar(), SmallStar()))


class ReduceMembers(Reduce):
    """A document's pairs, and the star that it is in, to rows at the key of its cluster.

    The rows of a document: one with itself as `other`, and one for each pair with a document before it.
    """

    name = "members"
    inputs = ("edges", "components")
    order = LINK_ORDER
    to = "keys"
    columns: ClassVar[Columns] = {"cluster": pa.binary(16), **EDGE}

    def open(self) -> Reducer:
        """See Reduce."""
        return MembersReducer()


class MembersReducer(Reducer):
    """Carries one row, and whether its document was named."""

    def __init__(self) -> None:
        self._carry = LinkCarry()
        self._is_named = False

    def reduce(self, rows: pa.Table) -> pa.Table:
        """See Reducer."""
        links = self._carry.take(rows)
        if not rows.num_rows:
            return self._rows(rows, links, np.empty(0, np.int64), np.empty(0, np.int64))
        has_home = rows.column("home").is_valid().to_numpy()
        group = np.cumsum(links.is_first)  # 0: that of the batch before
        with_home = np.flatnonzero(has_home)
        groups, index = np.unique(group[with_home], return_index=True)
        named = with_home[index[groups > 0]] if self._is_named else with_home[index]
        self._is_named = bool(group[-1] in groups) or (self._is_named and group[-1] == 0)
        pairs = np.flatnonzero(rows.column("relation").to_numpy() != LINK)
        return self._rows(rows, links, named, pairs)

    def _rows(self, rows: pa.Table, links: Links, named: NDArray[np.int64], pairs: NDArray[np.int64]) -> pa.Table:
        which = np.concatenate([named, pairs])
        # A document that is not the smallest of its cluster is linked to the smallest, its first `other`.
        is_center = is_less(links.ids, links.smallest)
        cluster = np.where(is_center[:, None], links.ids, links.smallest)[which]
        relation = rows.column("relation").to_numpy()[which]
        relation[: len(named)] = LINK
        columns = {name: rows.column(name).take(pa.array(which)) for name in ("id", "preference", "home")}
        columns |= {"key": pa.array(id_keys(cluster)), "cluster": id_array(cluster), "relation": pa.array(relation)}
        columns["other"] = id_array(np.concatenate([links.ids[named], links.others[pairs]]))
        return pa.table(columns)


@dataclass(frozen=True)
class ReduceVerdicts(Reduce):
    """The documents of a cluster, in order of preference, to a verdict each."""

    name = "verdicts"
    inputs = ("members",)
    order = ("key", "cluster", "preference", "id", "other")
    columns: ClassVar[Columns] = VERDICT

    def open(self) -> Reducer:
        """See Reduce."""
        return VerdictsReducer()


class Component:
    """Decides about the documents of one cluster, given in order of preference.

    A document is removed in favor of the first kept one that it is similar to. One whose text is
    equal to a removed document's is similar to whatever that one is similar to.
    """

    def __init__(self, cluster: bytes) -> None:
        self.cluster = cluster
        self._kept: list[bytes] = []
        self._keeper: dict[bytes, int] = {}  # place in `_kept` of the document itself, or of the one kept for it

    def decide(self, document: bytes, pairs: Sequence[tuple[bytes, int]]) -> bytes | None:
        """The document that is kept in place of this one; None where it is kept itself."""
        places = [
            place
            for other, relation in pairs
            if (place := self._keeper.get(other)) is not None and (relation == EQUAL or self._kept[place] == other)
        ]
        place = min(places, default=len(self._kept))
        is_copy = any(relation == EQUAL for _, relation in pairs)  # nothing is paired with it
        if len(self._keeper) < MAX_REMEMBERED and not (places and is_copy):
            self._keeper[document] = place
            if not places:
                self._kept.append(document)
        return self._kept[place] if places else None


class VerdictsReducer(Reducer):
    """Carries what was decided in the cluster in hand, and the rows of its last document."""

    def __init__(self) -> None:
        self._held: pa.Table | None = None
        self._component = Component(b"")

    def reduce(self, rows: pa.Table) -> pa.Table:
        """See Reducer."""
        rows = rows if self._held is None else pa.concat_tables([self._held, rows])
        ids = id_words(rows.column("id"))
        changes = np.flatnonzero(~is_equal(ids[1:], ids[:-1])) + 1
        last = int(changes[-1]) if len(changes) else 0
        self._held = rows.slice(last)
        return self._judge(rows.slice(0, last))

    def finish(self) -> pa.Table | None:
        """See Reducer."""
        return None if self._held is None else self._judge(self._held)

    def _judge(self, rows: pa.Table) -> pa.Table:
        columns = [rows.column(name).to_pylist() for name in ("cluster", "id", "other", "relation", "home")]
        found: dict[str, list[Any]] = {name: [] for name in ("home", "id", *VERDICT)}
        for (cluster, document), lines in groupby(zip(*columns, strict=True), key=lambda line: line[:2]):
            if cluster != self._component.cluster:
                self._component = Component(cluster)
            pairs = list(lines)
            kept_id = self._component.decide(
                document, [(other, relation) for _, _, other, relation, _ in pairs if relation != LINK]
            )
            fate, reason = (None, None) if kept_id is None else ("merged", NEAR_DUPLICATE)
            for name, value in zip(found, (pairs[0][4], document, fate, reason, kept_id, cluster), strict=True):
                found[name].append(value)
        return pa.table(found, schema=verdict_schema())


# Rows of pairs, two a pair, that one worker takes at once, and what it holds for each at most: measured with 36 million
# rows about 10 million documents by benchmarks/dedup_scale.py.
MAX_ROWS_AT_ONCE, BYTES_A_ROW_AT_ONCE = 1 << 21, 220


class ReduceAtOnce(Reduce):
    """All pairs to a verdict for each document that is in one."""

    name = "verdicts"
    inputs = ("edges",)
    order = LINK_ORDER
    columns: ClassVar[Columns] = VERDICT

    def open(self) -> Reducer:
        """See Reduce."""
        return AtOnceReducer()


class AtOnceReducer(Reducer):
    """Holds all rows."""

    def __init__(self) -> None:
        self._tables: list[pa.Table] = []

    def reduce(self, rows: pa.Table) -> pa.Table:
        """See Reducer."""
        self._tables.append(rows)
        return verdict_schema().empty_table()

    def finish(self) -> pa.Table | None:
        """See Reducer."""
        if not self._tables:
            return None
        rows, self._tables = pa.concat_tables(self._tables), []
        ids, others = id_words(rows.column("id")), id_words(rows.column("other"))
        is_first = np.append(True, ~is_equal(ids[1:], ids[:-1]))
        number = (np.cumsum(is_first) - 1).astype(np.int32)
        keys, relation = one_array(rows.column("key")).to_numpy(), one_array(rows.column("relation")).to_numpy()
        preference, home = (one_array(rows.column(name)).to_numpy()[is_first] for name in ("preference", "home"))
        documents, pairs = ids[is_first], np.flatnonzero(relation != LINK)
        other = find_documents(keys[is_first], documents, id_keys(others), others)
        center = join(number, other, documents)
        equal = relation[pairs] == EQUAL
        is_copy = np.zeros(len(documents), bool)
        is_copy[number[pairs[equal]]] = True
        known = remembered(center, is_copy, preference, documents)
        keeper = name_keepers(number[pairs], other[pairs], equal, preference, documents, known)
        return verdicts(home, documents, keeper, center)


def remembered(center: NDArray[np.int32], is_copy: Flags, preference: NDArray[np.uint64], documents: Words) -> Flags:
    """Which documents others may be judged by: of each component the first MAX_REMEMBERED, copies aside."""
    known = np.ones(len(center), bool)
    sizes = np.bincount(center)
    for large in np.flatnonzero(sizes > MAX_REMEMBERED):
        known[center == large] = False
        members = np.flatnonzero((center == large) & ~is_copy)
        order = np.lexsort((documents[members, 1], documents[members, 0], preference[members]))
        known[members[order[:MAX_REMEMBERED]]] = True
    return known


def verdict_schema() -> pa.Schema:
    """Rows of VERDICT on the way home."""
    return pa.schema([("home", pa.uint64()), ("id", pa.binary(16)), *VERDICT.items()])


def verdicts(
    home: NDArray[np.uint64], documents: Words, keeper: NDArray[np.int32], center: NDArray[np.int32]
) -> pa.Table:
    """A verdict for each document, by the numbers of the one that is kept for it and of its cluster's smallest."""
    is_kept = pa.array(keeper == np.arange(len(keeper)))
    words = {"fate": "merged", "reason": NEAR_DUPLICATE}
    columns = {"home": pa.array(home), "id": id_array(documents)}
    columns |= {name: pc.if_else(is_kept, pa.scalar(None, pa.string()), word) for name, word in words.items()}
    columns["kept_id"] = pc.if_else(is_kept, pa.scalar(None, pa.binary(16)), id_array(documents[keeper]))
    columns["cluster"] = id_array(documents[center])
    return pa.table(columns)


CLUSTERS = Shortcut(
    at_once=ReduceAtOnce(), max_rows=MAX_ROWS_AT_ONCE, steps=(COMPONENTS, ReduceMembers(), ReduceVerdicts())
)
