"""What a run would do, found out without writing anything."""

from dataclasses import dataclass

from curate.core.exchange import Exchange
from curate.core.storage import Storage, open_storage
from curate.engine.output import explain_change, previous_plan
from curate.engine.passes import meetings, passes
from curate.engine.publish import finished_manifest
from curate.engine.receipt import load_receipts
from curate.engine.units import document_unit, plan_units, read_units, unit_list_key
from curate.plan.plan import Plan, Source

LATER_PHASES = ("pack", "tails", "shards")  # then the exports and the ledger


@dataclass(frozen=True)
class PhaseSurvey:
    """What a phase would do: units in all (None: known once earlier phases end), units done, in words."""

    phase: str
    units: int | None
    done: int
    why: str


def survey(plan: Plan) -> list[PhaseSurvey]:
    """Each phase in order."""
    storage = open_storage(plan.output)
    previous = previous_plan(storage)
    if previous is not None and previous["plan_id"] != plan.plan_id:
        why = f"the output belongs to another plan ({explain_change(previous, plan)}): needs --replace"
        previous_id = previous["plan_id"]
    else:
        why, previous_id = "", None
    finished = finished_manifest(storage, plan) is not None
    phases = [_survey_source(storage, plan, source, previous_id, why) for source in plan.sources]
    for step, _ in meetings(plan):
        family = "exchange" if isinstance(step.stage, Exchange) else "summary"
        phases.append(PhaseSurvey(f"{family}.{step.name}", None, 0, "waits for its sources"))
    later = "done: the dataset of this plan is there" if finished else why or "waits for the phases before it"
    return phases + [PhaseSurvey(phase, None, 0, later) for phase in (*LATER_PHASES, *plan.exports, "ledger")]


def _survey_source(storage: Storage, plan: Plan, source: Source, previous_id: str | None, why: str) -> PhaseSurvey:
    recorded = read_units(storage, unit_list_key(plan.plan_id, source.name))
    slices = plan_units(storage, plan, source, previous_id) if recorded is None else recorded
    units = [document_unit(plan, source, one) for one in slices]
    done = len(load_receipts(storage, units))
    missing = len(units) - done
    words = "all receipts are there" if not missing else f"{missing} receipts missing" if done else "no receipt yet"
    return PhaseSurvey(passes(source)[0].phase, len(units), done, why or words)
