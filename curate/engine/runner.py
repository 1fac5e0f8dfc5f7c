"""Running a plan: phase after phase, the units whose receipt is missing, then the manifest.

    documents (a phase a source) -> pack (a unit a bucket) -> tails -> shards -> ledger -> manifest

A finished phase is sealed by one object, and later phases read only that. Everything that counts
lies in storage, so a run that was killed anywhere goes on where its receipts end.
"""

from curate.core.errors import BalanceError
from curate.core.hashing import canonical_json
from curate.engine import phases
from curate.engine.context import Context, Seal, seal_key
from curate.engine.local import Executor, open_executor
from curate.engine.output import claim
from curate.engine.progress import Progress
from curate.engine.publish import finished_manifest, publish
from curate.engine.receipt import Receipt, load_receipts, outputs_exist
from curate.engine.seams import check_coverage, close_seams
from curate.engine.units import Unit, document_phase, record_units
from curate.plan.plan import Plan


def run(plan: Plan, workers: int, replace: bool) -> None:
    """Make the dataset of `plan`, or go on with it. Raises a CurateError; see its exit codes."""
    context = Context(plan)
    previous = claim(context.storage, plan, replace)
    with Progress(plan, context.storage) as progress:
        if finished_manifest(context.storage, plan) is not None:
            progress.say("nothing to do: the dataset of this plan is already there")
            return
        previous_id = previous["plan_id"] if previous else None
        units = {source.name: record_units(context.storage, plan, source, previous_id) for source in plan.sources}
        with open_executor(context, workers) as executor:
            Run(context, executor, progress).finish(units)


class Run:
    """One run over the phases of a plan."""

    def __init__(self, context: Context, executor: Executor, progress: Progress) -> None:
        self._context = context
        self._plan = context.plan
        self._executor = executor
        self._progress = progress

    def finish(self, units: dict[str, list[Unit]]) -> None:
        """All phases, then the manifest."""
        plan = self._plan
        documents = self._documents(units)
        self._check_quarantine(documents, [])
        pack = self._phase("pack", phases.pack_units(plan, documents))
        self._check_quarantine(documents, [pack])
        tails = self._phase("tails", phases.tail_units(plan, pack))
        dataset = phases.dataset_id(plan, documents, pack, tails)
        shards = self._phase("shards", phases.shard_units(plan, dataset, pack, tails))
        ledger = self._phase("ledger", phases.ledger_units(dataset, [*documents, pack, tails, shards]))
        manifest = publish(
            self._context, dataset, documents=documents, pack=pack, tails=tails, shards=shards, ledger=ledger
        )
        self._progress.published(manifest)

    def _documents(self, units: dict[str, list[Unit]]) -> list[Seal]:
        """Read all sources, close the seams between their slices, and seal each."""
        sources = self._plan.sources
        sealed = {source.name: self._sealed(document_phase(source), units[source.name]) for source in sources}
        unsealed = [source for source in sources if sealed[source.name] is None]
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
            sealed[source.name] = self._seal(document_phase(source), units[source.name], made)
        return [seal for source in sources if (seal := sealed[source.name]) is not None]

    def _phase(self, phase: str, units: list[Unit]) -> Seal:
        """Do the units of a later phase and seal it."""
        sealed = self._sealed(phase, units)
        if sealed is not None:
            return sealed
        receipts = self._receipts(units)
        return self._seal(phase, units, [receipts[unit.key] for unit in units])

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
        self._context.storage.put(seal_key(name), canonical_json(seal))
        return self._context.seal(name)

    def _check_quarantine(self, documents: list[Seal], packed: list[Seal]) -> None:
        """Raise BalanceError where a source has more quarantined records than the plan allows."""
        for source, seal in zip(self._plan.sources, documents, strict=True):
            num_records = phases.total([seal], "in")
            found = phases.quarantined_of(source.name, seal, packed)
            if sum(found.values()) > self._plan.max_quarantined * num_records:
                reasons = ", ".join(f"{count} {reason}" for reason, count in sorted(found.items()))
                raise BalanceError(
                    f"{source.name}: {sum(found.values())} of {num_records} records are quarantined ({reasons}); "
                    f"limits.max_quarantined allows a share of {self._plan.max_quarantined}"
                )
