"""Driving an exchange: the phases of its program, one after the other, each sealed like any other."""

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from typing import Any

from curate.core.errors import StageError
from curate.core.exchange import Loop, Part, Reduce, Reply, Send, Shortcut
from curate.core.hashing import digest
from curate.engine.context import Context, Seal, outputs_of
from curate.engine.crash import crash_point
from curate.engine.merge import Run
from curate.engine.phases import total
from curate.engine.rounds import runs_of
from curate.engine.sinks import HOME_ORDER, exchange_of, rows_role
from curate.engine.units import RoundInput, Unit, later_unit
from curate.plan.plan import Step

PART_BYTES = 512 << 20  # stored bytes that one unit reduces: 8 MB of each of FAN_IN runs
FAN_IN = 64  # runs merged at once: a worker's limit of 512 MB is then 8 MB a run, or 125 requests a GB
MAX_RUNS = 512  # merged at once after one combine round: 1 MB a run, rather than to write all rows a third time
MAX_MAIL = 4  # runs of rows for homes; more are merged first, as every home reads in every run
MAX_TURNS = 100  # of a Loop; each at least halves what is left to do in any input that was met

PhaseRunner = Callable[[str, list[Unit]], Awaitable[Seal]]


class Program:
    """One exchange over the homes of the sources that take part."""

    def __init__(self, context: Context, run_phase: PhaseRunner, step: Step, homes: list[Seal]) -> None:
        self._context = context
        self._run_phase = run_phase
        self._step = step
        self._homes = homes
        self._home_names = tuple(seal["name"] for seal in homes)
        self._given: dict[str, tuple[RoundInput, ...]] = {}  # step name -> where its rows are

    async def finish(self) -> list[Seal]:
        """Run the program; the seal of its last Reduce, the only one given, holds the verdicts."""
        seal = await self._run_parts(exchange_of(self._step).program())
        if seal is None:
            raise StageError(f"{self._step.use}: the last step of an exchange must be a Reduce to homes")
        return [seal]

    async def _run_parts(self, parts: Iterable[Part]) -> Seal | None:
        seal = None
        for part in parts:
            if isinstance(part, Send):
                self._keep(part.name, self._home_names, from_homes=True)
            elif isinstance(part, Reply):
                seal = await self._reply(part)
            elif isinstance(part, Reduce):
                seal = await self._reduce_once(part)
            elif isinstance(part, Loop):
                seal = await self._loop(part)
            else:
                seal = await self._shortcut(part)
        return seal

    async def _reduce_once(self, part: Reduce, *, does: str = "reduce") -> Seal:
        seal = await self._reduce(part, self._inputs(part), "" if does == "reduce" else f".{does}", does)
        seal = seal if part.to == "keys" else await self._mail(part, seal)
        self._keep(part.name, (seal["name"],))
        return seal

    def _inputs(self, part: Reduce) -> list[RoundInput]:
        return [given for name in part.inputs for given in self._given[name]]

    async def _shortcut(self, part: Shortcut) -> Seal | None:
        """All at once or in rounds: the rows decide, and both give the same."""
        num_rows = sum(file["rows"] for run in self._runs(self._inputs(part.at_once)) for file in run.files)
        if num_rows <= part.max_rows:
            return await self._reduce_once(part.at_once, does="at_once")
        return await self._run_parts(part.steps)

    async def _run(self, phase: str, units: list[Unit]) -> Seal:
        crash_point("exchange.before-round")
        seal = await self._run_phase(phase, units)
        crash_point("exchange.after-round")
        return seal

    def _keep(self, name: str, seals: tuple[str, ...], *, from_homes: bool = False) -> None:
        given = RoundInput(seals=seals, role=rows_role(self._step, name), from_homes=from_homes)
        self._given[name] = (given,)

    async def _loop(self, part: Loop) -> Seal:
        inputs = list(self._given[part.start])
        for turn in range(MAX_TURNS):
            changed = 0
            for reduce in part.steps:
                seal = await self._reduce(reduce, inputs, f".{turn}")
                inputs = [RoundInput(seals=(seal["name"],), role=rows_role(self._step, reduce.name))]
                changed += total([seal], "changed")
            if not changed:
                self._given[part.name] = tuple(inputs)
                return seal
        raise StageError(
            f"step {self._step.name!r} ({self._step.use}): {part.name} did not settle in {MAX_TURNS} turns"
        )

    async def _reply(self, part: Reply) -> Seal:
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
        seal = await self._run(self._phase(part.name), units)
        self._keep(part.name, (seal["name"],), from_homes=True)
        return seal

    async def _reduce(self, part: Reduce, inputs: list[RoundInput], turn: str, does: str = "reduce") -> Seal:
        """A unit a range of keys; before it, small runs are merged into fewer."""
        phase = self._phase(part.name) + turn
        inputs = await self._combined(part, inputs, phase)
        num_bytes = sum(file["bytes"] for run in self._runs(inputs) for file in run.files)
        num_parts = max(1, -(-num_bytes // PART_BYTES)) if does == "reduce" else 1
        reads = self._reads(inputs)
        specs = [self._spec(part.name, does) | {"part": one, "parts": num_parts} for one in range(num_parts)]
        given = tuple(inputs)
        return await self._run(phase, [later_unit(phase, self._step.key, reads, spec, inputs=given) for spec in specs])

    async def _combined(self, part: Reduce, inputs: list[RoundInput], phase: str) -> list[RoundInput]:
        """Inputs in so few runs that they can be read in long stretches; small runs are merged into fewer before it."""
        most = FAN_IN
        level = 0
        while len(self._runs(inputs)) > most:
            level += 1
            seal = await self._combine(part.name, part.order, inputs, f"{phase}.combine{level}")
            inputs = [RoundInput(seals=(seal["name"],), role=rows_role(self._step, part.name), is_ordered=True)]
            most = MAX_RUNS
        return inputs

    async def _combine(self, name: str, order: tuple[str, ...], inputs: list[RoundInput], phase: str) -> Seal:
        """One round of merging, FAN_IN runs a unit."""
        num_runs, reads, given = len(self._runs(inputs)), self._reads(inputs), tuple(inputs)
        specs = [
            self._spec(name, "combine") | {"first": first, "stop": min(first + FAN_IN, num_runs), "order": list(order)}
            for first in range(0, num_runs, FAN_IN)
        ]
        return await self._run(phase, [later_unit(phase, self._step.key, reads, spec, inputs=given) for spec in specs])

    async def _mail(self, part: Reduce, seal: Seal) -> Seal:
        """Rows for homes in few runs, so that each home reads few."""
        level = 0
        inputs = [RoundInput(seals=(seal["name"],), role=rows_role(self._step, part.name))]
        while len(self._runs(inputs)) > MAX_MAIL:
            level += 1
            seal = await self._combine(part.name, HOME_ORDER, inputs, f"{self._phase(part.name)}.mail{level}")
            inputs = [replace(inputs[0], seals=(seal["name"],), is_ordered=True)]
        return seal

    def _runs(self, inputs: list[RoundInput]) -> list[Run]:
        return runs_of(self._context, tuple(inputs))

    def _reads(self, inputs: list[RoundInput]) -> str:
        seals = [(given.role, self._context.seal(name)) for given in inputs for name in given.seals]
        return digest([output["sha256"] for role, seal in seals for output in outputs_of(seal["units"], role)])

    def _spec(self, name: str, does: str) -> dict[str, Any]:
        return {"exchange": self._step.name, "step": name, "does": does}

    def _phase(self, name: str) -> str:
        return f"exchange.{self._step.name}.{name}"
