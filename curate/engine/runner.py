"""Running a plan: phase after phase, the units whose receipt is missing, then the manifest.

    documents (a phase a source) -> for each exchange: its rounds, then the next pass over the documents
        -> pack (a unit a bucket) -> tails -> shards -> exports -> ledger, names -> manifest

A finished phase is sealed by one object, and later phases read only that. Everything that counts
lies in storage, so a run that was killed anywhere goes on where its receipts end.
"""

from curate.core.errors import BalanceError
from curate.core.hashing import canonical_json
from curate.engine import phases
from curate.engine.context import Context, Seal, outputs_of, seal_key
from curate.engine.crash import check_crash_setting, crash_point
from curate.engine.exports import hf_units
from curate.engine.keepers import keeper_units
from curate.engine.ledger import first_quarantined
from curate.engine.local import Executor
from curate.engine.names import name_units
from curate.engine.output import claim
from curate.engine.passes import exchanges, passes
from curate.engine.phase_list import record_phase
from curate.engine.places import Place, open_place
from curate.engine.programs import Program
from curate.engine.progress import Progress
from curate.engine.publish import Sealed, finished_manifest, publish
from curate.engine.receipt import Receipt, load_receipts, outputs_exist
from curate.engine.seams import check_coverage, close_seams
from curate.engine.units import Unit, record_units
from curate.plan.plan import Plan, Source


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
        self._executor = executor
        self._progress = progress
        self._num_phases = 0

    def finish(self, units: dict[str, list[Unit]]) -> None:
        """All phases, then the manifest."""
        plan, context = self._plan, self._context
        done = self._documents(units)
        self._check_quarantine(done, [])
        for step, sources in exchanges(plan):
            homes = [done[source.name][-1] for source in sources]
            verdicts = Program(context, self._phase, step, homes).finish()
            self._go_on(done, sources, verdicts)
        pack = self._phase("pack", phases.pack_units(plan, [seals[-1] for seals in done.values()]))
        self._check_quarantine(done, [pack])
        tails = self._phase("tails", phases.tail_units(plan, pack))
        packed = [pack, tails]
        dataset = phases.dataset_id(plan, done, packed)
        shards = self._phase("shards", phases.shard_units(plan, dataset, packed))
        hf = self._phase("hf", hf_units(plan, dataset, shards))
        unused = self._phase("unused", phases.unused_units(plan, packed))
        passes = [seal for seals in done.values() for seal in seals]
        seals = [*passes, *packed, shards, unused, *self._keepers(passes)]
        ledger = self._phase("ledger", phases.ledger_units(dataset, seals))
        names = self._phase("names", name_units(dataset, [seals[0] for seals in done.values()]))
        sealed = Sealed(passes=done, pack=pack, tails=tails, shards=shards, hf=hf, ledger=ledger, names=names)
        self._progress.published(publish(context, dataset, sealed))

    def _keepers(self, passes: list[Seal]) -> list[Seal]:
        """Turns that lead each merged record to a keeper that was not merged itself; none without exchanges."""
        turns: list[Seal] = []
        while len(passes) > len(self._plan.sources) and (not turns or phases.total(turns[-1:], "changed")):
            units = keeper_units(len(turns), passes, turns[-1] if turns else None)
            turns.append(self._phase(f"keepers.{len(turns)}", units))
        return turns

    def _documents(self, units: dict[str, list[Unit]]) -> dict[str, list[Seal]]:
        """Read all sources, close the seams between their slices, and seal each: its passes, so far one."""
        sources = {source.name: source for source in self._plan.sources}
        first = {name: passes(source)[0].phase for name, source in sources.items()}
        for name in sources:
            self._record(first[name], units[name])
        sealed = {name: self._sealed(first[name], units[name]) for name in sources}
        unsealed = [source for name, source in sources.items() if sealed[name] is None]
        receipts = self._receipts([unit for source in unsealed for unit in units[source.name]])
        while True:
            closed = {source.name: close_seams(self._plan, source, units[source.name], receipts) for source in unsealed}
            missing = [unit for _, open_units in closed.values() for unit in open_units]
            if not missing:
                break
            receipts |= self._receipts(missing)
        for source in unsealed:
            chosen, _ = closed[source.name]
            check_coverage(source, chosen, receipts)
            made = [receipts[unit.key] for unit in chosen]
            sealed[source.name] = self._seal(first[source.name], units[source.name], made)
        return {name: [seal] for name, seal in sealed.items() if seal is not None}

    def _go_on(self, done: dict[str, list[Seal]], sources: list[Source], verdicts: Seal) -> None:
        """The next pass of each source that took part in an exchange, all at once."""
        crash_point("exchange.before-pass")
        units = phases.pass_units(self._plan, sources, done, verdicts)
        for phase, mine in units.values():
            self._record(phase, mine)
        receipts = self._receipts([unit for name in units if not self._sealed(*units[name]) for unit in units[name][1]])
        for name, (phase, mine) in units.items():
            sealed = self._sealed(phase, mine)
            done[name].append(sealed or self._seal(phase, mine, [receipts[unit.key] for unit in mine]))

    def _phase(self, phase: str, units: list[Unit]) -> Seal:
        """Do the units of a later phase and seal it."""
        self._record(phase, units)
        sealed = self._sealed(phase, units)
        if sealed is not None:
            return sealed
        receipts = self._receipts(units)
        return self._seal(phase, units, [receipts[unit.key] for unit in units])

    def _record(self, phase: str, units: list[Unit]) -> None:
        self._num_phases += 1
        keys = [unit.key for unit in units]
        record_phase(self._context.storage, self._plan.plan_id, self._num_phases, phase, keys)

    def _receipts(self, units: list[Unit]) -> dict[str, Receipt]:
        """The receipts of these units: those that are there, and those made now."""
        receipts = load_receipts(self._context.storage, units)
        missing = [unit for unit in units if unit.key not in receipts]
        self._progress.begin(units, missing)
        for receipt in self._executor.execute(missing):
            receipts[receipt["unit"]] = receipt
            self._progress.advance(receipt)
        return receipts

    def _sealed(self, phase: str, units: list[Unit]) -> Seal | None:
        """The seal of a phase whose outputs are all there, or None."""
        name = phases.seal_name(phase, units)
        if self._context.storage.stat(seal_key(name)) is None:
            return None
        seal = self._context.seal(name)
        return seal if outputs_exist(self._context.storage, seal["units"]) else None

    def _seal(self, phase: str, units: list[Unit], receipts: list[Receipt]) -> Seal:
        name = phases.seal_name(phase, units)
        seal = {"name": name, "phase": phase, "units": receipts}
        crash_point("seal.before-seal")
        self._context.storage.put(seal_key(name), canonical_json(seal))
        crash_point("seal.after-seal")
        return self._context.seal(name)

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
