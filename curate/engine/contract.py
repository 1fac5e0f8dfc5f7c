"""A step and the contract of its family: what it is given, what it may answer, what happens if it does otherwise."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from curate.core.errors import CurateError, StageError
from curate.core.stage import Map
from curate.plan.plan import Step
from manifests.table_digest import TableDigest

PROBE_ROWS = 8  # rows of a unit that go through each step twice, to catch one that is not a pure function

StepFunction = Callable[[pa.RecordBatch], Any]


@dataclass
class OpenStep:
    """A step with its opened function, its row counts in this unit and the digest of what it gave."""

    step: Step
    columns: tuple[str, ...]  # that there are after it
    function: StepFunction
    num_in: int = 0
    num_out: int = 0
    probed: bool = False
    digest: TableDigest = field(default_factory=TableDigest)


def call(step: OpenStep, batch: pa.RecordBatch) -> Any:
    """The step's function on `batch`, its answer held against the contract of its family.

    The first rows of a unit are asked for twice, the second time alone: another answer means
    that the step is not a pure function of the row.
    """
    answer = checked(step.step, batch, guarded(step.step, step.function, batch))
    if not step.probed and batch.num_rows:
        step.probed = True
        rows = batch.slice(0, PROBE_ROWS)
        again = checked(step.step, rows, guarded(step.step, step.function, rows))
        if digest_of(again) != digest_of(answer.slice(0, PROBE_ROWS)):
            where = f"step {step.step.name!r} ({step.step.use})"
            raise StageError(f"{where} is not deterministic: the same {rows.num_rows} rows gave two answers")
    return answer


def guarded(step: Step, function: Callable[[Any], Any], batch: Any) -> Any:
    """Call a stage; what it raises by mistake becomes a StageError that names it."""
    try:
        return function(batch)
    except CurateError:
        raise
    except (Exception, SystemExit) as error:
        if isinstance(error, SystemExit) and type(error) is not SystemExit:
            raise  # a signal that ends this process, not the stage's own word
        raise StageError(f"step {step.name!r} ({step.use}): {type(error).__name__}: {error}") from error


def checked(step: Step, batch: pa.RecordBatch, answer: Any) -> Any:
    """The answer, if it keeps the contract: Maps keep rows and order, Filters give declared reasons."""
    where = f"step {step.name!r} ({step.use})"
    wanted = pa.RecordBatch if isinstance(step.stage, Map) else pa.Array
    if not isinstance(answer, wanted):
        raise StageError(f"{where} must return a {wanted.__name__}, not {type(answer).__name__}")
    num_rows = len(answer) if isinstance(answer, pa.Array) else answer.num_rows
    if num_rows != batch.num_rows:
        given = f"was given {batch.num_rows} rows and returned {num_rows}"
        raise StageError(f"{where} {given}: a stage may not lose or add rows")
    return (
        _checked_map(step, where, batch, answer) if wanted is pa.RecordBatch else _checked_reasons(step, where, answer)
    )


def _checked_map(step: Step, where: str, batch: pa.RecordBatch, answer: pa.RecordBatch) -> pa.RecordBatch:
    if "id" not in answer.schema.names or not answer.column("id").equals(batch.column("id")):
        raise StageError(f"{where} changed the order of the rows, or their ids")
    for name, kind in getattr(step.stage, "adds", {}).items():
        if name not in answer.schema.names or answer.schema.field(name).type != kind:
            raise StageError(f"{where} declares the column {name!r} of type {kind}, but did not return it so")
    return answer


def _checked_reasons(step: Step, where: str, answer: pa.Array) -> pa.Array:
    if pa.types.is_null(answer.type):
        return answer.cast(pa.string())
    if not (pa.types.is_string(answer.type) or pa.types.is_large_string(answer.type)):
        raise StageError(f"{where} must give its reasons as strings, not {answer.type}")
    undeclared = set(pc.unique(answer).to_pylist()) - {None, *getattr(step.stage, "reasons", ())}
    if undeclared:
        raise StageError(f"{where} gave the reason {sorted(undeclared)[0]!r}, which it does not declare")
    return answer


def digest_of(answer: Any) -> bytes:
    """Digest of a step's answer, by value."""
    digest = TableDigest()
    digest.update(pa.RecordBatch.from_arrays([answer], names=["reason"]) if isinstance(answer, pa.Array) else answer)
    return digest.digest()
