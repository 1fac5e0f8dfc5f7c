"""The family that knows all documents: each batch to a small table, tables to one, which is handed to a later stage.

    batch -> table -+
    batch -> table -+-> combine, 64 by 64, in storage -> table -> (one more round, or) stage.open(table, ...)
    batch -> table -+

A Map or Filter names the Summary that it needs, so it stands in no list of steps: the engine brings all
documents of the step's node home before the step, sums them up, and opens the step with the tables.
"""

import abc
from collections.abc import Callable, Sequence
from typing import ClassVar

import pyarrow as pa

from curate.core.stage import Columns, Stage


class Summary(Stage):
    """All documents to one table of at most `max_rows` rows: integers, ids and words, never a sum of floats.

    Law: the same documents give the same table, however they are cut into batches, and in whatever
    order and grouping the tables of the batches are combined. No two documents have one id.
    """

    reads: ClassVar[tuple[str, ...]] = ()
    columns: ClassVar[Columns]  # of the tables
    max_rows: ClassVar[int] = 1 << 16

    def columns_read(self) -> tuple[str, ...]:
        """The columns that must exist beside `id`; narrow ones, as they are kept for later rounds."""
        return self.reads

    @abc.abstractmethod
    def open(self, *before: pa.Table) -> Callable[[pa.RecordBatch], pa.Table]:
        """The function that makes the table of a batch. `before`: the answers of the rounds before this one."""

    @abc.abstractmethod
    def combine(self, tables: Sequence[pa.Table]) -> pa.Table:
        """One table of several of the same round."""

    def is_enough(self, *tables: pa.Table) -> bool:
        """Whether these answers, one a round, say all that is wanted; else another round follows."""
        return True


class NeedsSummary(abc.ABC):
    """Beside Map or Filter: a stage that is opened with the tables of a Summary, `open(*tables)`, one a round."""

    @abc.abstractmethod
    def summary(self) -> Summary:
        """Of the documents that come to this stage, in all units of all sources of its node."""
