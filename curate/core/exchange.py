"""The fifth family of stages: documents of all units meet by key, as narrow sorted rows, and verdicts go home.

    Send -> sort -> Reduce -> ... -> Reduce to homes
      homes         ranges of keys      each document gets its verdict

An exchange is a sort: its answer is one sequence ordered by key, and neither homes nor ranges are
anything but places where it is cut. The engine drives it: see curate.engine.programs.
"""

import abc
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa

from curate.core.stage import Columns, Stage


class Reducer(abc.ABC):
    """What a Reduce opens: takes sorted rows, batch after batch, and gives rows.

    Batches follow the sort order and may end anywhere, also between two rows of one key: what the
    next batch needs is carried along, in bounded memory. The answer may not depend on the cuts.
    """

    num_changed: int = 0  # rows that this pass of a Loop changed; 0 in all reducers ends the Loop

    @abc.abstractmethod
    def reduce(self, rows: pa.Table) -> pa.Table:
        """Rows that follow from `rows` and those before; they may be held back."""

    def finish(self) -> pa.Table | None:
        """What was held back, once the last batch has been taken."""
        return None


@dataclass(frozen=True)
class Sent:
    """What leaves a home for an exchange, and what stays there for its later rounds."""

    rows: pa.RecordBatch  # key, id and the columns of the Send
    kept: pa.RecordBatch | None = None  # id first; narrow; given to each later Reply


class Send(abc.ABC):
    """First step of an exchange: documents, where they lie, to narrow rows that travel. Never `text`."""

    name: ClassVar[str]
    columns: ClassVar[Columns]  # of the rows, beside `key` (uint64, well spread) and `id` (binary(16))

    @abc.abstractmethod
    def open(self) -> Callable[[pa.RecordBatch], Sent]:
        """A pure function of each document alone."""


class Reply(abc.ABC):
    """Later step: what was kept of the documents of one home, and the mail that came, to rows that travel.

    The mail of some documents is given at a time; the rows about a document depend on its own mail
    alone. With `reads`, these columns of the documents that have mail (and `row`) take the place of
    what was kept.
    """

    name: ClassVar[str]
    mail: ClassVar[str]  # the Reduce whose rows came
    columns: ClassVar[Columns]
    reads: ClassVar[tuple[str, ...]] = ()

    @abc.abstractmethod
    def open(self) -> Callable[[pa.Table, pa.Table], pa.Table]:
        """(kept or documents, mail), each sorted by `row`, to rows."""


class Reduce(abc.ABC):
    """Rows of all homes, sorted, to rows: for the next Reduce (`key`, `id`, ...) or for homes (`home`, `id`, ...).

    Rows of a Send or Reply carry `home` (uint32), the number of the home that they left, added on arrival.
    """

    name: ClassVar[str]
    inputs: ClassVar[tuple[str, ...]]  # steps whose rows it takes; their columns must be the same
    order: ClassVar[tuple[str, ...]] = ("key", "id")  # `key` first; ties beyond these must not matter
    to: ClassVar[str] = "homes"  # or "keys"
    columns: ClassVar[Columns]  # of its own rows, beside `key` or `home`, and `id`

    @abc.abstractmethod
    def open(self) -> Reducer:
        """A fresh reducer for one range of keys."""


@dataclass(frozen=True)
class Loop:
    """Reduces that are run in turn until a whole turn changed nothing. The first takes `start` at first,
    then the rows of the last."""

    name: str
    start: str  # the step whose rows the first turn takes
    steps: tuple[Reduce, ...]


@dataclass(frozen=True)
class Shortcut:
    """Steps for any number of rows, and one Reduce that gives the rows of their last at once.

    It is run alone, with all keys in one range, where its inputs have at most `max_rows` rows: what it
    holds in memory is bounded by them. The name and columns are those of the last step.
    """

    at_once: Reduce
    max_rows: int
    steps: tuple[Reduce | Loop, ...]

    @property
    def name(self) -> str:
        """That of the last step."""
        return self.at_once.name


Part = Send | Reply | Reduce | Loop | Shortcut


def walk(program: Iterable[Part]) -> Iterator[Part]:
    """The parts of a program, and behind each the steps inside it."""
    for part in program:
        yield part
        yield from walk(getattr(part, "steps", ()))


# The columns of the rows that an exchange's last Reduce sends home. fate: "dropped" or "merged", or
# null for a document that stays and only learns its `cluster`.
VERDICT: Columns = {"fate": pa.string(), "reason": pa.string(), "kept_id": pa.binary(16), "cluster": pa.binary(16)}


class Exchange(Stage):
    """Decides about documents by looking at others: rounds of send, sort and reduce; verdicts go home.

    `program()` lists the steps in order: a Send first; a Reduce to homes with the columns of
    VERDICT last, or a Shortcut to one. Each step reads what steps before it gave.
    """

    reads: ClassVar[tuple[str, ...]] = ()
    reasons: ClassVar[tuple[str, ...]] = ()

    def columns_read(self) -> tuple[str, ...]:
        """The columns that must exist; depends on options where a stage overrides it."""
        return self.reads

    def forecast(self) -> Mapping[str, Any]:
        """What can be said before it runs, for `curate plan`: names to numbers, or to mappings of numbers."""
        return {}

    @abc.abstractmethod
    def program(self) -> tuple[Part, ...]:
        """The steps; the same for equal stages."""
