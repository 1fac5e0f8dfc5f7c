"""The passes of a source: its steps, cut where all documents are needed. Between two passes documents stay at home.

A pass begins with reading, or with what the pass before left at home and what came for it: verdicts of
an exchange, or the tables of a summary, which its first step is opened with. It ends with what leaves
for the next exchange or summary, or with tokens for the shuffle.
"""

from dataclasses import dataclass

from curate.core.exchange import Exchange
from curate.core.hashing import digest
from curate.core.summary import NeedsSummary
from curate.engine.identity import Identity
from curate.plan.plan import Plan, Source, Step

IDENTITY = Step(name="identity", use="curate.engine.identity.Identity", stage=Identity(), key="identity/1")


@dataclass(frozen=True, kw_only=True)
class Pass:
    """Steps of a source that need one document at a time."""

    source: Source
    number: int
    before: (
        Step | None
    )  # the exchange whose verdicts are applied first, or the step that has its summary; None: it reads
    steps: tuple[Step, ...]  # Maps and Filters
    columns: tuple[tuple[str, ...], ...]  # after each step; a Map may leave behind what was made from older text
    after: Step | None  # the exchange or the summary's step that it sends to; None: tokens go to the shuffle
    key: str  # digest of all that was done to its documents, up to its end

    @property
    def phase(self) -> str:
        """`documents.SOURCE`, and behind it the step that it begins with."""
        return f"documents.{self.source.name}" + (f".{self.before.name}" if self.before else "")


def passes(source: Source) -> list[Pass]:
    """The passes of a source, in order."""
    cut: list[Pass] = []
    after = {id(step): tuple(columns) for step, columns in zip(source.steps, source.columns[1:], strict=True)}
    steps: list[Step] = []
    done: list[list[str]] = []
    before: Step | None = None
    for step in [*with_identity(source.steps), None]:
        if step is not None:
            done.append([step.name, step.key])
        if step is None or needs_all(step):
            key = digest([source.reader_key, done])
            columns = tuple(after[id(one)] for one in steps)
            cut.append(
                Pass(
                    source=source,
                    number=len(cut),
                    before=before,
                    steps=tuple(steps),
                    columns=columns,
                    after=step,
                    key=key,
                )
            )
            before, steps = step, [] if step is None or isinstance(step.stage, Exchange) else [step]
        else:
            steps.append(step)
    return cut


def needs_all(step: Step) -> bool:
    """Whether a step needs documents of all units: an exchange, or a summary before it."""
    return isinstance(step.stage, Exchange | NeedsSummary)


def with_identity(steps: tuple[Step, ...]) -> list[Step]:
    """The steps, with the exchange that leaves one record of each id before the first that needs all documents."""
    first = next((index for index, step in enumerate(steps) if needs_all(step)), None)
    return list(steps) if first is None else [*steps[:first], IDENTITY, *steps[first:]]


def meetings(plan: Plan) -> list[tuple[Step, list[Source]]]:
    """The exchanges and summaries in an order in which they can run, each with the sources that take part.

    One can run once all its sources are at it; earlier ones of the file come first.
    """
    waiting = {source.name: [one.after for one in passes(source) if one.after] for source in plan.sources}
    order: list[tuple[Step, list[Source]]] = []
    while any(waiting.values()):
        for steps in waiting.values():
            if steps and all(step not in others[1:] for step in steps[:1] for others in waiting.values()):
                step = steps[0]
                taking = [source for source in plan.sources if waiting[source.name][:1] == [step]]
                order.append((step, taking))
                for source in taking:
                    waiting[source.name].pop(0)
                break
        else:
            raise ValueError("steps in two orders: the chains of a tree cannot give this")
    return order
