"""Driving an exchange: the phases of its program, one after the other, each sealed like any other."""

from collections.abc import Callable
from typing import Any

from curate.core.errors import StageError
from curate.core.exchange import Loop, Reduce, Reply, Send
from curate.core.hashing import digest
from curate.engine.context import Context, Seal, outputs_of
from curate.engine.crash import crash_point
from curate.engine.exchange import FAN_IN, Run
from curate.engine.phases import total
from curate.engine.rounds import runs_of
from curate.engine.sinks import exchange_of, rows_role
from curate.engine.units import RoundInput, Unit, later_unit
from curate.plan.plan import Step

PART_BYTES = 64 << 20  # stored bytes that one unit reduces
MAX_TURNS = 100  # of a Loop; each at least halves what is left to do in any input that was met

PhaseRunner = Callable[[str, list[Unit]], Seal]


class Program:
    """One exchange over the homes of the sources that take part."""

    def __init__(self, context: Context, run_phase: PhaseRunner, step: Step, homes: list[Seal]) -> None:
        self._context = context
        self._run_phase = run_phase
        self._step = step
        self._homes = homes
        self._home_names = tuple(seal["name"] for seal in homes)
        self._given: dict[str, tuple[RoundInput, ...]] = {}  # step name -> where its rows are

    def finish(self) -> Seal:
        """Run the program; the seal of its last Reduce holds the verdicts."""
        seal = None
        for part in exchange_of(self._step).program():
            if isinstance(part, Send):
                self._keep(part.name, self._home_names, from_homes=True)
            elif isinstance(part, Reply):
                seal = self._reply(part)
            elif isinstance(part, Reduce):
                seal = self._reduce(part, [given for name in part.inputs for given in self._given[name]], "")
                self._keep(part.name, (seal["name"],))
            else:
                seal = self._loop(part)
        if seal is None:
            raise StageError(f"{self._step.use}: the last step of an exchange must be a Reduce to homes")
        return seal

    def _run(self, phase: str, units: list[Unit]) -> Seal:
        crash_point("exchange.before-round")
        seal = self._run_phase(phase, units)
        crash_point("exchange.after-round")
        return seal

    def _keep(self, name: str, seals: tuple[str, ...], *, from_homes: bool = False) -> None:
        given = RoundInput(seals=seals, role=rows_role(self._step, name), from_homes=from_homes)
        self._given[name] = (given,)

    def _loop(self, part: Loop) -> Seal:
        inputs = list(self._given[part.start])
        for turn in range(MAX_TURNS):
            changed = 0
            for reduce in part.steps:
                seal = self._reduce(reduce, inputs, f".{turn}")
                inputs = [RoundInput(seals=(seal["name"],), role=rows_role(self._step, reduce.name))]
                changed += total([seal], "changed")
            if not changed:
                self._given[part.name] = tuple(inputs)
                return seal
        raise StageError(
            f"step {self._step.name!r} ({self._step.use}): {part.name} did not settle in {MAX_TURNS} turns"
        )

    def _reply(self, part: Reply) -> Seal:
        """A unit a home."""
        mail = self._given[part.mail]
        names = tuple(name for given in mail for name in given.seals)
        reads = self._reads(list(mail))
        units: list[Unit] = []
        for seal in self._homes:
            for receipt in seal["units"]:
                spec = self._spec(part.name, "reply") | {"home": receipt["unit"], "ordinal": len(units)}
                kept = digest([output["sha256"] for output in receipt["outputs"]])
                unit = later_unit(
                    self._phase(part.name), self._step.key, kept + reads, spec, seals=(seal["name"], *names)
                )
                units.append(unit)
        seal = self._run(self._phase(part.name), units)
        self._keep(part.name, (seal["name"],), from_homes=True)
        return seal

    def _reduce(self, part: Reduce, inputs: list[RoundInput], turn: str) -> Seal:
        """A unit a range of keys; before it, small runs are merged into fewer."""
        phase = self._phase(part.name) + turn
        inputs = self._combined(part, inputs, phase)
        num_bytes = sum(file["bytes"] for run in self._runs(inputs) for file in run.files)
        num_parts = max(1, -(-num_bytes // PART_BYTES))
        reads = self._reads(inputs)
        specs = [self._spec(part.name, "reduce") | {"part": one, "parts": num_parts} for one in range(num_parts)]
        given = tuple(inputs)
        return self._run(phase, [later_unit(phase, self._step.key, reads, spec, inputs=given) for spec in specs])

    def _combined(self, part: Reduce, inputs: list[RoundInput], phase: str) -> list[RoundInput]:
        level = 0
        while len(runs := self._runs(inputs)) > FAN_IN:
            level += 1
            name = f"{phase}.combine{level}"
            reads, given = self._reads(inputs), tuple(inputs)
            specs = [
                self._spec(part.name, "combine")
                | {"first": first, "stop": min(first + FAN_IN, len(runs)), "order": list(part.order)}
                for first in range(0, len(runs), FAN_IN)
            ]
            units = [later_unit(name, self._step.key, reads, spec, inputs=given) for spec in specs]
            seal = self._run(name, units)
            role = rows_role(self._step, part.name)
            inputs = [RoundInput(seals=(seal["name"],), role=role, is_ordered=True)]
        return inputs

    def _runs(self, inputs: list[RoundInput]) -> list[Run]:
        return runs_of(self._context, tuple(inputs))

    def _reads(self, inputs: list[RoundInput]) -> str:
        seals = [(given.role, self._context.seal(name)) for given in inputs for name in given.seals]
        return digest([output["sha256"] for role, seal in seals for output in outputs_of(seal["units"], role)])

    def _spec(self, name: str, does: str) -> dict[str, Any]:
        return {"exchange": self._step.name, "step": name, "does": does}

    def _phase(self, name: str) -> str:
        return f"exchange.{self._step.name}.{name}"
