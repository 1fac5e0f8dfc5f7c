"""Where the documents of a pass go: home, with rows that travel to an exchange, or to the shuffle, as tokens."""

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from curate.core.errors import StageError
from curate.core.exchange import Exchange, Reduce, Send, walk
from curate.core.hashing import order_key
from curate.core.schema import ORIGIN, SIDECAR, schema_of
from curate.core.stage import Columns, with_columns
from curate.core.storage import Storage
from curate.core.summary import NeedsSummary, Summary
from curate.engine.contract import guarded
from curate.engine.exchange import Files, SortedRuns, parquet
from curate.engine.receipt import Artifact, Written
from curate.plan.plan import Plan, Source, Step

TRAIN, ALL = "train", "all"
SEND_ROWS = 1024  # documents that an exchange is given at once
HOME_ORDER = ("home", "id")  # of rows that are sent to homes


class Sink(Protocol):
    """Takes the documents that a pass lets through."""

    def add(self, batch: pa.RecordBatch) -> None:
        """Take documents, in order."""

    def finish(self) -> tuple[list[Artifact | Written], dict[str, Any]]:
        """What was made of them, and its facts."""


def document_schema(plan: Plan) -> pa.Schema:
    """The rows of the shuffle, sorted by (key, id): tokens, and what the sidecar keeps."""
    token = pa.uint16() if plan.rows.dtype == "<u2" else pa.uint32()
    columns = {"key": pa.uint64(), "id": pa.binary(16), "record_hash": pa.binary(16), "source": pa.string()}
    columns |= {name: pa.string() for name in SIDECAR}
    return schema_of(columns | {"origin": ORIGIN, "tokens": pa.large_list(token)})


def lane_role(split: str, group: str) -> str:
    """The role of the documents of one (split, group)."""
    return f"documents:{split}:{group}"


class TokenSink:
    """Tokens, sorted by a hash of (seed, id), apart by split and mix group."""

    def __init__(self, plan: Plan, source: Source, storage: Storage) -> None:
        self._storage = storage
        self._plan = plan
        self._schema = document_schema(plan)
        self._group = group_of(plan, source.name)
        self._lanes: dict[str, SortedRuns] = {}
        self._tokens: dict[str, int] = {}

    def add(self, batch: pa.RecordBatch) -> None:
        """See Sink."""
        keys = [order_key(self._plan.seed, one) for one in batch.column("id").to_pylist()]
        present = {name: batch.column(name) for name in batch.schema.names} | {"key": pa.array(keys, pa.uint64())}
        absent = {field.name: pa.nulls(batch.num_rows, field.type) for field in self._schema}
        columns = [present.get(field.name, absent[field.name]) for field in self._schema]
        rows = pa.RecordBatch.from_arrays(columns, schema=self._schema)
        splits = pa.array(self._splits(batch), pa.string())
        for split in pc.unique(splits).to_pylist():
            self._add_lane(split, rows.filter(pc.equal(splits, split)))

    def _add_lane(self, split: str, rows: pa.RecordBatch) -> None:
        role = lane_role(split, self._group)
        if role not in self._lanes:
            self._lanes[role] = SortedRuns(role, self._schema, ("key", "id"), self._storage)
        self._lanes[role].add(rows)
        self._tokens[role] = self._tokens.get(role, 0) + len(rows.column("tokens").flatten())

    def _splits(self, batch: pa.RecordBatch) -> list[str]:
        """The split of each document: a hash of (seed, cluster), so that near-duplicates stay together."""
        if not self._plan.splits:
            return [TRAIN] * batch.num_rows
        clusters = batch.column("cluster" if "cluster" in batch.schema.names else "id").to_pylist()
        return [split_of(self._plan, cluster) for cluster in clusters]

    def finish(self) -> tuple[list[Artifact | Written], dict[str, Any]]:
        """See Sink."""
        files = [file for role in sorted(self._lanes) for file in self._lanes[role].finish()]
        return files, {"tokens": sum(self._tokens.values()), "lanes": self._tokens}


def group_of(plan: Plan, source: str) -> str:
    """The mix group of a source."""
    return next((group.name for group in plan.groups if source in group.sources), ALL)


def split_of(plan: Plan, cluster: bytes) -> str:
    """The split of a cluster of near-duplicates, named by its smallest id."""
    draw = order_key(plan.seed, b"split", cluster) / 2**64
    for name, share in plan.splits:
        if draw < share:
            return name
        draw -= share
    return TRAIN


class Tally:
    """The table of a Summary, from batches or from tables, in bounded memory."""

    def __init__(self, step: Step, before: Sequence[pa.Table] = ()) -> None:
        self._step = step
        self._summary = summary_of(step)
        self._count = self._summary.open(*before)
        self._tables = [schema_of(dict(self._summary.columns)).empty_table()]

    def count(self, batch: pa.RecordBatch) -> None:
        """Take documents."""
        self.add(guarded(self._step, self._count, batch))

    def add(self, table: pa.Table) -> None:
        """Take a table of documents."""
        self._tables.append(table)
        if sum(one.num_rows for one in self._tables) > 2 * self._summary.max_rows:
            self._combine()

    def finish(self) -> list[Artifact | Written]:
        """The table, as the output of a unit."""
        self._combine()
        (table,) = self._tables
        data = parquet(table.combine_chunks())
        return [Artifact(role=summary_role(self._step), data=data, rows=table.num_rows, suffix=".parquet")]

    def _combine(self) -> None:
        table = guarded(self._step, self._summary.combine, self._tables)
        if table.schema != self._tables[0].schema or table.num_rows > self._summary.max_rows:
            raise StageError(
                f"step {self._step.name!r} ({self._step.use}): its summary gave {table.num_rows} rows of "
                f"{table.schema.names}, declared are up to {self._summary.max_rows} of {self._tables[0].schema.names}"
            )
        self._tables = [table]


class SummarySink:
    """Documents as they are, and the table of a Summary of them."""

    def __init__(self, step: Step, storage: Storage) -> None:
        self._columns = list(dict.fromkeys(["id", *summary_of(step).columns_read()]))
        self._documents = Files("home", storage)
        self._kept = Files(kept_role(step), storage)
        self._tally = Tally(step)

    def add(self, batch: pa.RecordBatch) -> None:
        """See Sink."""
        self._documents.add(batch)
        narrow = batch.select(self._columns)
        self._kept.add(narrow)
        self._tally.count(narrow)

    def finish(self) -> tuple[list[Artifact | Written], dict[str, Any]]:
        """See Sink."""
        return self._documents.finish() + self._kept.finish() + self._tally.finish(), {"tokens": 0, "lanes": {}}


class HomeSink:
    """Documents as they are, and the rows that an exchange sends about them."""

    def __init__(self, plan: Plan, source: Source, step: Step, send: Any, storage: Storage) -> None:
        first = send_of(step)
        self._rank = [one.name for one in plan.sources].index(source.name)
        self._send = send
        self._row = 0
        self._documents = Files("home", storage)
        self._kept = Files(kept_role(step), storage)
        order = order_of(step, first.name)
        self._rows = SortedRuns(rows_role(step, first.name), rows_schema(first.columns), order, storage)

    def add(self, batch: pa.RecordBatch) -> None:
        """See Sink."""
        self._documents.add(batch)
        for first in range(0, batch.num_rows, SEND_ROWS):  # each may give many rows
            self._add_rows(batch.slice(first, SEND_ROWS))

    def _add_rows(self, batch: pa.RecordBatch) -> None:
        numbers = pa.array(np.arange(self._row, self._row + batch.num_rows, dtype=np.uint32))
        ranks = pa.array(np.full(batch.num_rows, self._rank, np.uint16))
        sent = self._send(with_columns(batch, {"row": numbers, "rank": ranks}))
        self._row += batch.num_rows
        self._rows.add(sent.rows.select(self._rows.schema.names))
        if sent.kept is not None:
            self._kept.add(sent.kept)

    def finish(self) -> tuple[list[Artifact | Written], dict[str, Any]]:
        """See Sink."""
        return self._documents.finish() + self._kept.finish() + self._rows.finish(), {"tokens": 0, "lanes": {}}


def send_of(step: Step) -> Send:
    """The Send that an exchange begins with."""
    first = exchange_of(step).program()[0]
    if not isinstance(first, Send):
        raise TypeError(f"{step.use}: the first step of an exchange must be a Send")
    return first


def exchange_of(step: Step) -> Exchange:
    """The stage of a step that is an exchange."""
    if not isinstance(step.stage, Exchange):
        raise TypeError(f"{step.use} is not an exchange")
    return step.stage


def summary_of(step: Step) -> Summary:
    """The Summary that a step needs."""
    if not isinstance(step.stage, NeedsSummary):
        raise TypeError(f"{step.use} needs no summary")
    return step.stage.summary()


def summary_role(step: Step) -> str:
    """The role of the tables of the Summary that a step needs."""
    return f"summary:{step.name}"


def rows_role(step: Step, name: str) -> str:
    """The role of the rows that a step of an exchange gave."""
    return f"rows:{step.name}:{name}"


def kept_role(step: Step) -> str:
    """The role of what an exchange keeps of documents at home."""
    return f"kept:{step.name}"


def rows_schema(columns: Columns, address: str = "key") -> pa.Schema:
    """Rows on the way: `key` or `home`, `id`, and the step's columns."""
    return schema_of({address: pa.uint64(), "id": pa.binary(16), **columns})


def order_of(step: Step, name: str) -> tuple[str, ...]:
    """The order in which the rows of a step are wanted by those that take them."""
    for part in walk(exchange_of(step).program()):
        if isinstance(part, Reduce) and name in part.inputs:
            return part.order
    raise ValueError(f"{step.use}: nobody takes the rows of {name!r}")
