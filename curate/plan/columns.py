"""Columns along a source's chain: what each step finds, adds and removes."""

from collections.abc import Sequence

import pyarrow as pa

from curate.core.errors import PlanError, suggestion
from curate.core.schema import IDENTITY
from curate.core.stage import Columns, Map, Reader
from curate.core.summary import NeedsSummary
from curate.plan.load import Place, Scalar
from curate.plan.plan import Step

TEXT = "text"
OWN_COLUMNS = frozenset({"cluster", "rank", "row"})  # the engine gives them to documents at an Exchange


def trace_columns(
    source: str, read: Scalar, reader: Reader, steps: Sequence[tuple[Step, Place]]
) -> tuple[Columns, ...]:
    """The columns after the reader, whose `use` is `read`, and after each step.

    A Map that changes the text takes the columns with it that were made from the text as it was. An
    Exchange reads columns and changes none. Raises PlanError, at the place of the step, where a step
    reads a column that is not there, or adds one that the engine keeps for itself.
    """
    use = read.text
    _refuse_own(use, reader.adds, read.place)
    trace = _Trace({**IDENTITY, **reader.adds})
    found: list[Columns] = [dict(trace.columns)]
    for number, (step, place) in enumerate(steps):
        for column in _columns_read(step):
            if column not in trace.columns:
                chain = " -> ".join([use, *(before.use for before, _ in steps[:number])])
                raise _missing(column, step, place, trace, f"source {source!r}: {chain}")
        try:
            step.stage.check_columns(trace.columns)
        except ValueError as error:
            raise place.error(f"{step.use}: {error} (source {source!r})") from None
        if isinstance(step.stage, Map):
            _refuse_own(step.use, step.stage.adds, place)
            trace.change(step.stage, step.use)
        found.append(dict(trace.columns))
    return tuple(found)


def _columns_read(step: Step) -> tuple[str, ...]:
    """What a step reads, and the summary that it needs."""
    stage = step.stage
    return (*stage.columns_read(), *(stage.summary().columns_read() if isinstance(stage, NeedsSummary) else ()))


class _Trace:
    """The columns at one point of a chain, and what became of those that are gone."""

    def __init__(self, columns: dict[str, pa.DataType]) -> None:
        self.columns = columns
        self.gone: dict[str, str] = {}
        self._derived: set[str] = set()  # say something about the text as it is now

    def change(self, stage: Map, use: str) -> None:
        """Take what a Map adds and removes."""
        adds = dict(stage.adds)
        gone = dict.fromkeys(stage.removes, f"which {use} removed; read it before that step")
        if TEXT in adds and TEXT in self.columns:
            reason = f"which was made from the text before {use} changed it; make it again after that step"
            gone |= dict.fromkeys(self._derived, reason)
        gone = {column: reason for column, reason in gone.items() if column in self.columns and column not in adds}
        self.gone |= gone
        self.columns = {name: kind for name, kind in self.columns.items() if name not in gone} | adds
        self._derived -= gone.keys()
        if {TEXT, *self._derived}.intersection(stage.columns_read()):
            self._derived |= adds.keys() - {TEXT}


def _refuse_own(use: str, adds: Columns, place: Place) -> None:
    taken = OWN_COLUMNS & adds.keys()
    if taken:
        raise place.error(f"{use} adds the column {min(taken)!r}, a name that curate keeps for its own")


def _missing(column: str, step: Step, place: Place, trace: _Trace, chain: str) -> PlanError:
    how = trace.gone.get(column, f"which nothing before it adds{suggestion(column, trace.columns)}")
    return place.error(f"{step.use} reads column {column!r}, {how} ({chain})")
