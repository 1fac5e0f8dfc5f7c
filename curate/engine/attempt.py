"""One attempt at one unit: the task of its phase, then the commit."""

from collections.abc import Callable

from curate.core.summary import NeedsSummary
from curate.engine.context import Context
from curate.engine.exports import run_hf
from curate.engine.keepers import run_keepers
from curate.engine.ledger_parts import run_ledger
from curate.engine.names import run_names
from curate.engine.pack import run_pack, run_tails
from curate.engine.receipt import Receipt, Result, commit
from curate.engine.rounds import run_round
from curate.engine.shards import run_shard, run_unused
from curate.engine.summaries import answers_of, run_summary
from curate.engine.task import DocumentTask
from curate.engine.units import Unit


def run_documents(context: Context, unit: Unit) -> Result:
    """A unit of a pass of a source."""
    this = context.passes(context.source(unit.spec["source"]))[unit.spec.get("pass", 0)]
    if this.before is None:
        return DocumentTask(context, this).read(unit)
    has_summary = isinstance(this.before.stage, NeedsSummary)
    return DocumentTask(context, this, answers_of(context, unit, this.before) if has_summary else ()).go_on(unit)


TASKS: dict[str, Callable[[Context, Unit], Result]] = {
    "documents": run_documents,
    "exchange": run_round,
    "summary": run_summary,
    "pack": run_pack,
    "tails": run_tails,
    "shards": run_shard,
    "unused": run_unused,
    "hf": run_hf,
    "keepers": run_keepers,
    "ledger": run_ledger,
    "names": run_names,
}


def attempt(context: Context, unit: Unit) -> Receipt:
    """Do a unit and commit what it made. Equal for equal units, wherever and however often it runs."""
    return commit(context.storage, unit, TASKS[unit.phase.partition(".")[0]](context, unit))
