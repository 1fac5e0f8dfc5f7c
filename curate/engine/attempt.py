"""One attempt at one unit: the task of its phase, then the commit."""

from collections.abc import Callable

from curate.engine.context import Context
from curate.engine.pack import run_pack, run_tails
from curate.engine.receipt import Receipt, Result, commit
from curate.engine.shards import run_ledger, run_shard
from curate.engine.task import DocumentTask
from curate.engine.units import Unit


def run_documents(context: Context, unit: Unit) -> Result:
    """Read one unit of a source and take its records through the source's steps."""
    source = context.source(unit.spec["source"])
    read, functions = context.chain(source)
    return DocumentTask(context.plan, source, functions, context.watch).run(unit, read, context.open_input)


TASKS: dict[str, Callable[[Context, Unit], Result]] = {
    "documents": run_documents,
    "pack": run_pack,
    "tails": run_tails,
    "shards": run_shard,
    "ledger": run_ledger,
}


def attempt(context: Context, unit: Unit) -> Receipt:
    """Do a unit and commit what it made. Equal for equal units, wherever and however often it runs."""
    return commit(context.storage, unit, TASKS[unit.phase.partition(".")[0]](context, unit))
