"""Driving a Summary: tables of homes are combined to one; where it does not tell enough, another round follows.

The first table of a home is made while its documents are stored (see curate.engine.sinks), later ones
from what was kept of them. Tables are combined FAN_IN at a time, in storage, so that nothing that
anybody holds grows with the number of documents.
"""

from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from curate.core.hashing import digest
from curate.engine.context import Context, Seal, outputs_of
from curate.engine.crash import crash_point
from curate.engine.homes import read_kept
from curate.engine.programs import PhaseRunner
from curate.engine.receipt import Result
from curate.engine.rounds import steps_between
from curate.engine.sinks import Tally, summary_of, summary_role
from curate.engine.units import Unit, later_unit
from curate.plan.plan import Step

FAN_IN = 64  # tables that a unit combines


class SummaryRounds:
    """One Summary over the homes of the sources that come to its step."""

    def __init__(self, context: Context, run_phase: PhaseRunner, step: Step, homes: list[Seal]) -> None:
        self._context = context
        self._run_phase = run_phase
        self._step = step
        self._homes = homes
        self._role = summary_role(step)

    async def finish(self) -> list[Seal]:
        """The seals of the answers, one a round; each has one output."""
        summary = summary_of(self._step)
        answers = [await self._combined(self._homes, 0)]
        while not summary.is_enough(*(read_table(self._context, seal, self._role) for seal in answers)):
            answers.append(await self._combined([await self._round(answers)], len(answers)))
        return answers

    async def _round(self, answers: list[Seal]) -> Seal:
        """A unit a home, that makes its table anew, given the answers so far."""
        phase = self._phase(len(answers))
        names = [seal["name"] for seal in answers]
        before = digest([output["sha256"] for output in self._tables(answers)])
        units = []
        for home in self._homes:
            for receipt in home["units"]:
                spec = self._spec("count") | {"home": receipt["unit"]}
                reads = digest([before, [output["sha256"] for output in receipt["outputs"]]])
                units.append(later_unit(phase, self._step.key, reads, spec, seals=(home["name"], *names)))
        return await self._run(phase, units)

    async def _combined(self, seals: list[Seal], number: int) -> Seal:
        """The tables of sealed phases as one: the seal of the phase that made it."""
        level = 0
        while True:
            level += 1
            tables, names = self._tables(seals), tuple(seal["name"] for seal in seals)
            phase = f"{self._phase(number)}.combine{level}"
            units = []
            for first in range(0, len(tables), FAN_IN):
                stop = min(first + FAN_IN, len(tables))
                reads = digest([output["sha256"] for output in tables[first:stop]])
                spec = self._spec("combine") | {"first": first, "stop": stop}
                units.append(later_unit(phase, self._step.key, reads, spec, seals=names))
            seal = await self._run(phase, units)
            if len(units) == 1:
                return seal
            seals = [seal]

    async def _run(self, phase: str, units: list[Unit]) -> Seal:
        crash_point("summary.before-phase")
        seal = await self._run_phase(phase, units)
        crash_point("summary.after-phase")
        return seal

    def _tables(self, seals: Iterable[Seal]) -> list[dict[str, Any]]:
        return [output for seal in seals for output in outputs_of(seal["units"], self._role)]

    def _spec(self, does: str) -> dict[str, Any]:
        return {"summary": self._step.name, "does": does}

    def _phase(self, number: int) -> str:
        return f"summary.{self._step.name}.{number}"


def run_summary(context: Context, unit: Unit) -> Result:
    """One unit: the table of a home, or one table of several."""
    step = next(one for one in steps_between(context) if one.name == unit.spec["summary"])
    if unit.spec["does"] == "count":
        tally = Tally(step, answers_of(context, unit, step))
        for batch in read_kept(context, unit, step).to_batches():
            tally.count(batch)
    else:
        tally = Tally(step)
        for output in context.outputs(unit.seals, summary_role(step))[unit.spec["first"] : unit.spec["stop"]]:
            crash_point("summary.within-combine")
            tally.add(read_output(context, output))
    return Result(artifacts=tally.finish())


def answers_of(context: Context, unit: Unit, step: Step) -> list[pa.Table]:
    """The answers of the rounds that a unit is given; its first seal is that of its home."""
    role = summary_role(step)
    return [read_table(context, context.seal(name), role) for name in unit.seals[1:]]


def read_table(context: Context, seal: Seal, role: str) -> pa.Table:
    """The one table of a sealed phase."""
    (output,) = outputs_of(seal["units"], role)
    return read_output(context, output)


def read_output(context: Context, output: dict[str, Any]) -> pa.Table:
    """A table."""
    return pq.read_table(pa.BufferReader(context.storage.read(output["key"])), use_threads=False)
