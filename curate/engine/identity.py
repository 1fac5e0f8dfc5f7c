"""One record of each id: equal bytes again are merged into the first, other bytes are quarantined.

The first is the one that lies first: by source, input, offset.
"""

from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from curate.core.exchange import VERDICT, Exchange, Reduce, Reducer, Send, Sent
from curate.core.stage import Columns
from curate.engine.ledger import id_bytes, id_keys

SAME_RECORD, ID_CONFLICT = "same_record", "id_conflict"
PLACE: Columns = {"rank": pa.uint16(), "input": pa.string(), "offset": pa.int64(), "inner": pa.int64()}
ORDER = ("key", "id", *PLACE)


def place_columns(table: Any) -> dict[str, Any]:
    """Where each document of a table (with `rank`) lies, as columns to sort by."""
    origin = table["origin"]
    origin = origin.combine_chunks() if isinstance(origin, pa.ChunkedArray) else origin
    names = {"input": "key", "offset": "offset", "inner": "inner"}
    return {"rank": table["rank"]} | {name: pc.struct_field(origin, field) for name, field in names.items()}


def judge(ids: NDArray[np.uint8], hashes: NDArray[np.uint8]) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """For records sorted by id and place, (n, 16) each: which are the same as the first of their id, which conflict."""
    is_first = np.ones(len(ids), bool)
    is_first[1:] = (ids[1:] != ids[:-1]).any(axis=1)
    first = np.maximum.accumulate(np.where(is_first, np.arange(len(ids)), 0))
    is_equal = (hashes == hashes[first]).all(axis=1)
    return ~is_first & is_equal, ~is_first & ~is_equal


class SendIdentity(Send):
    """Each document: its id, its hash and where it lies."""

    name = "records"
    columns: ClassVar[Columns] = {"row": pa.uint32(), "record_hash": pa.binary(16), **PLACE}

    def open(self) -> Any:
        """See Send."""

        def send(batch: pa.RecordBatch) -> Sent:
            columns = {"key": id_keys(batch.column("id")), "id": batch.column("id"), "row": batch.column("row")}
            columns |= {"record_hash": batch.column("record_hash")} | place_columns(batch)
            return Sent(rows=pa.RecordBatch.from_pydict(columns))

        return send


class IdentityReducer(Reducer):
    """Carries the first record of the id in hand."""

    def __init__(self) -> None:
        self._first: pa.Table | None = None

    def reduce(self, rows: pa.Table) -> pa.Table:
        """See Reducer."""
        carried = [] if self._first is None else [self._first]
        rows = pa.concat_tables([*carried, rows]).combine_chunks()
        ids = id_bytes(rows.column("id"))
        is_same, is_conflict = judge(ids, id_bytes(rows.column("record_hash")))
        self._first = rows.slice(int(np.flatnonzero(~(is_same | is_conflict))[-1]), 1)
        rows = rows.append_column("same", pa.array(is_same)).filter(pa.array(is_same | is_conflict))
        same = rows.column("same")
        columns = {
            "home": rows.column("home"),
            "id": rows.column("id"),
            "fate": pc.if_else(same, "merged", "quarantined"),
            "reason": pc.if_else(same, SAME_RECORD, ID_CONFLICT),
            "kept_id": pc.if_else(same, rows.column("id"), pa.scalar(None, pa.binary(16))),
            "cluster": pa.nulls(rows.num_rows, pa.binary(16)),
        }
        return pa.table(columns)


class ReduceIdentity(Reduce):
    """Verdicts about all but the first record of each id."""

    name = "verdicts"
    inputs = ("records",)
    order = ORDER
    columns: ClassVar[Columns] = VERDICT

    def open(self) -> Reducer:
        """See Reduce."""
        return IdentityReducer()


class Identity(Exchange):
    """The engine runs it before the first exchange of a pipeline; without one, packing does the same."""

    reads: ClassVar[tuple[str, ...]] = ("record_hash",)

    def options(self) -> dict[str, Any]:
        """None."""
        return {}

    def program(self) -> tuple[Send | Reduce, ...]:
        """See Exchange."""
        return SendIdentity(), ReduceIdentity()
