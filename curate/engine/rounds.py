"""The rounds of an exchange: units that answer mail at home, merge small runs, or reduce a range of keys."""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from curate.core.errors import CurateError, StageError
from curate.core.exchange import Reduce, Reducer, Reply, Shortcut, walk
from curate.engine.context import Context
from curate.engine.crash import crash_point
from curate.engine.exchange import Files, SortedRuns, range_of
from curate.engine.homes import mail_pieces, read_documents, read_kept
from curate.engine.merge import Run, merge
from curate.engine.receipt import Result
from curate.engine.sinks import HOME_ORDER, exchange_of, order_of, rows_role, rows_schema
from curate.engine.units import RoundInput, Unit
from curate.plan.plan import Step

REDUCED_ROWS = 1 << 16  # rows that a reducer takes at once: some give many for each


def run_round(context: Context, unit: Unit) -> Result:
    """One unit of a round: what it does stands in its spec."""
    step = next(one for one in steps_between(context) if one.name == unit.spec["exchange"])
    part = find_part(step, unit.spec["step"], at_once=unit.spec["does"] == "at_once")
    if unit.spec["does"] == "combine":
        return combine(context, unit, step, unit.spec["step"])
    if isinstance(part, Reply):
        return reply(context, unit, step, part)
    if isinstance(part, Reduce):
        return reduce(context, unit, step, part)
    raise TypeError(f"{step.use}: {part} has no units")


def steps_between(context: Context) -> Iterator[Step]:
    """The steps of the plan that stand between passes, with those that the engine adds."""
    for source in context.plan.sources:
        for this in context.passes(source):
            if this.after is not None:
                yield this.after


def find_part(step: Step, name: str, *, at_once: bool) -> Any:
    """The part of an exchange's program with this name, also inside a Loop or Shortcut."""
    for part in walk(exchange_of(step).program()):
        if part.name == name and isinstance(part, Shortcut) == at_once:
            return part.at_once if isinstance(part, Shortcut) else part
    raise ValueError(f"{step.use} has no step {name!r}")


def runs_of(context: Context, inputs: tuple[RoundInput, ...]) -> list[Run]:
    """The runs that a round reads. Rows that left homes get the number of their home."""
    runs: list[Run] = []
    for given in inputs:
        for number, receipt in enumerate(receipt for name in given.seals for receipt in context.seal(name)["units"]):
            files = [output for output in receipt["outputs"] if output["role"] == given.role]
            if given.is_ordered:
                runs.extend([Run(tuple(files))] if files else [])
            else:
                home = number if given.from_homes else None
                runs.extend(Run((file,), home) for file in files)
    return runs


def reply(context: Context, unit: Unit, step: Step, part: Reply) -> Result:
    """Answer the mail of one home."""
    function = context.opened(f"{step.name}.{part.name}", part)
    order = order_of(step, part.name)
    rows = SortedRuns(rows_role(step, part.name), rows_schema(part.columns), order, context.storage)
    num_letters = 0
    kept = None if part.reads else read_kept(context, unit, step)
    for mail in mail_pieces(context, unit, step, part.mail):
        num_letters += mail.num_rows
        for about, letters in read_documents(context, unit, part.reads, mail) if kept is None else [(kept, mail)]:
            given = named(step, part.name, lambda about=about, letters=letters: function(about, letters))
            rows.add(given.select(rows.schema.names))
    return Result(artifacts=rows.finish(), facts={"mail": num_letters})


def combine(context: Context, unit: Unit, step: Step, name: str) -> Result:
    """Merge some runs into one, so that later reads are long."""
    runs = runs_of(context, unit.inputs)[unit.spec["first"] : unit.spec["stop"]]
    order = tuple(unit.spec["order"])
    files = Files(rows_role(step, name), context.storage, is_sorted=True)
    for rows in merge(context.storage, runs, order, 0, 1 << 64, context.limit_bytes):
        files.add(rows)
    return Result(artifacts=files.finish())


def reduce(context: Context, unit: Unit, step: Step, part: Reduce) -> Result:
    """Reduce one range of keys."""
    low, high = range_of(unit.spec["part"], unit.spec["parts"])
    address = "key" if part.to == "keys" else "home"
    schema = rows_schema(part.columns, address)
    order = HOME_ORDER if part.to == "homes" else order_of(step, part.name)
    out = SortedRuns(rows_role(step, part.name), schema, order, context.storage)
    reducer: Reducer = part.open()
    num_in = num_out = 0
    runs = runs_of(context, unit.inputs)
    for rows in merge(context.storage, runs, part.order, low, high, context.limit_bytes):
        crash_point("exchange.within-round")
        num_in += rows.num_rows
        for first in range(0, rows.num_rows, REDUCED_ROWS):
            some = rows.slice(first, REDUCED_ROWS)
            num_out += _give(step, part, out, lambda some=some: reducer.reduce(some))
    num_out += _give(step, part, out, reducer.finish)
    return Result(artifacts=out.finish(), facts={"in": num_in, "out": num_out, "changed": reducer.num_changed})


def _give(step: Step, part: Reduce, out: SortedRuns, call: Any) -> int:
    table: pa.Table | None = named(step, part.name, call)
    if table is None:
        return 0
    table = table.select(out.schema.names).cast(out.schema)
    for first in range(0, table.num_rows, REDUCED_ROWS):  # a reducer may give all that it held at once
        out.add(table.slice(first, REDUCED_ROWS))
    return int(table.num_rows)


def named(step: Step, name: str, call: Any) -> Any:
    """Call a part of an exchange; what it raises by mistake becomes a StageError that names it."""
    try:
        return call()
    except CurateError:
        raise
    except Exception as error:
        raise StageError(f"step {step.name!r} ({step.use}), round {name!r}: {type(error).__name__}: {error}") from error
