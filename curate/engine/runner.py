"""Running a plan: phases of units, each as soon as what it reads is sealed, then the manifest.

    documents (a phase a source) -> for each exchange or summary: its rounds, then the next pass over the documents
        -> pack (a unit a bucket) -> tails -> shards -> exports, ledger, names -> manifest

A finished phase is sealed by one object, and later phases read only that. Everything that counts
lies in storage, so a run that was killed anywhere goes on where its receipts end.
"""

from curate.core.errors import BalanceError
from curate.core.exchange import Exchange
from curate.engine import phases
from curate.engine.context import Context, Seal, outputs_of
from curate.engine.crash import check_crash_setting, crash_point
from curate.engine.exports import hf_units
from curate.engine.keepers import keeper_units
from curate.engine.ledger import first_quarantined
from curate.engine.local import Executor
from curate.engine.names import name_units
from curate.engine.output import claim
from curate.engine.passes import meetings, passes
from curate.engine.places import Place, open_place
from curate.engine.programs import Program
from curate.engine.progress import Progress
from curate.engine.publish import Sealed, finished_manifest, publish
from curate.engine.schedule import Flow, Schedule
from curate.engine.seams import check_coverage, close_seams
from curate.engine.summaries import SummaryRounds
from curate.engine.units import Unit, record_units
from curate.plan.plan import Plan, Source, Step


def run(plan: Plan, *, place: Place | None = None, replace: bool = False) -> None:
    """Make the dataset of `plan`, or go on with it. Raises a CurateError; see its exit codes."""
    check_crash_setting()
    context = Context(plan)
    previous = claim(context.storage, plan, replace)
    with Progress(plan, context.storage) as progress:
        if finished_manifest(context.storage, plan) is not None:
            progress.say("nothing to do: the dataset of this plan is already there")
            return
        previous_id = previous["plan_id"] if previous else None
        units = {source.name: record_units(context.storage, plan, source, previous_id) for source in plan.sources}
        with open_place(context, place or Place(), progress.say) as executor:
            Run(context, executor, progress).finish(units)


class Run:
    """One run over the phases of a plan."""

    def __init__(self, context: Context, executor: Executor, progress: Progress) -> None:
        self._context = context
        self._plan = context.plan
        self._progress = progress
        self._schedule = Schedule(context, executor, progress)

    def finish(self, units: dict[str, list[Unit]]) -> None:
        """All phases, then the manifest. `units`: of the first pass of each source."""
        self._schedule.run(self._dataset(units))

    async def _dataset(self, units: dict[str, list[Unit]]) -> None:
        """From documents to the manifest."""
        plan, phase, start = self._plan, self._schedule.phase, self._schedule.start
        done = {name: await documents for name, documents in self._documents(units).items()}
        passes = [seal for seals in done.values() for seal in seals]
        keepers = start(self._keepers(passes))
        pack = await phase("pack", phases.pack_units(plan, [seals[-1] for seals in done.values()]))
        self._check_quarantine(done, [pack])
        packed = [pack, await phase("tails", phases.tail_units(plan, pack))]
        dataset = phases.dataset_id(plan, done, packed)
        unused = start(phase("unused", phases.unused_units(plan, packed)))
        shards = await phase("shards", phases.shard_units(plan, dataset, packed))
        hf = start(phase("hf", hf_units(plan, dataset, shards)))
        names = start(phase("names", name_units(dataset, [seals[0] for seals in done.values()])))
        seals = [*passes, *packed, shards, await unused, *await keepers]
        ledger = await phase("ledger", phases.ledger_units(dataset, seals))
        last = {"shards": shards, "hf": await hf, "ledger": ledger, "names": await names}
        sealed = Sealed(passes=done, pack=packed[0], tails=packed[1], **last)
        self._progress.published(publish(self._context, dataset, sealed))

    def _documents(self, units: dict[str, list[Unit]]) -> dict[str, Flow[list[Seal]]]:
        """The seals of all passes, by source."""
        start = self._schedule.start
        flows = {source.name: start(self._read(source, units[source.name])) for source in self._plan.sources}
        for step, sources in meetings(self._plan):
            homes = {source.name: flows[source.name] for source in sources}
            following = start(self._meet(step, sources, homes))
            flows |= {name: start(self._go_on(name, done, following)) for name, done in homes.items()}
        return flows

    async def _read(self, source: Source, units: list[Unit]) -> list[Seal]:
        """The first pass of a source: its slices are read, and the seams between them closed."""
        phase = passes(source)[0].phase
        self._schedule.record(phase, units)
        sealed = self._schedule.sealed(phase, units)
        if sealed is None:
            receipts = await self._schedule.receipts(units)
            chosen, missing = close_seams(self._plan, source, units, receipts)
            while missing:
                receipts |= await self._schedule.receipts(missing)
                chosen, missing = close_seams(self._plan, source, units, receipts)
            check_coverage(source, chosen, receipts)
            sealed = self._schedule.seal(phase, units, [receipts[unit.key] for unit in chosen])
        self._check_quarantine({source.name: [sealed]}, [])
        return [sealed]

    async def _meet(self, step: Step, sources: list[Source], homes: dict[str, Flow[list[Seal]]]) -> phases.Passes:
        """The rounds of an exchange or summary; then what the next pass of each source is to do."""
        done = {name: await flow for name, flow in homes.items()}
        family = Program if isinstance(step.stage, Exchange) else SummaryRounds
        rounds = family(self._context, self._schedule.phase, step, [seals[-1] for seals in done.values()])
        answers = await rounds.finish()
        crash_point("exchange.before-pass")
        return phases.pass_units(self._plan, sources, done, answers)

    async def _go_on(self, source: str, done: Flow[list[Seal]], following: Flow[phases.Passes]) -> list[Seal]:
        """The next pass of a source that took part in an exchange."""
        return [*await done, await self._schedule.phase(*(await following)[source])]

    async def _keepers(self, passes: list[Seal]) -> list[Seal]:
        """Turns that lead each merged record to a keeper that was not merged itself; none without exchanges."""
        turns: list[Seal] = []
        while len(passes) > len(self._plan.sources) and (not turns or phases.total(turns[-1:], "changed")):
            units = keeper_units(len(turns), passes, turns[-1] if turns else None)
            turns.append(await self._schedule.phase(f"keepers.{len(turns)}", units))
        return turns

    def _check_quarantine(self, done: dict[str, list[Seal]], packed: list[Seal]) -> None:
        """Raise BalanceError where a source has more quarantined records than the plan allows."""
        for name, seals in done.items():
            num_records = phases.total(seals[:1], "in")
            found = phases.quarantined_of(name, seals, packed)
            if sum(found.values()) > self._plan.max_quarantined * num_records:
                reasons = ", ".join(f"{count} {reason}" for reason, count in sorted(found.items()))
                outputs = outputs_of([unit for seal in [*seals, *packed] for unit in seal["units"]], "ledger")
                if found["id_conflict"]:
                    reasons += "; where ids are unique within a source only, give the reader no `id`"
                example = first_quarantined(self._context.storage, outputs, name)
                raise BalanceError(
                    f"{name}: {sum(found.values())} of {num_records} records are quarantined ({reasons}), for example "
                    f"{example}; limits.max_quarantined allows a share of {self._plan.max_quarantined}"
                )
