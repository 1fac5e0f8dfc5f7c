"""What happens to one document unit: read, each step in turn, sorted tokens out, books closed.

slice -> Reader -> batch -> Map -> Filter -> ... -> Tokenize -> sorted files
              |                |        |
              +----------------+--------+--> ledger rows: dropped (reason), quarantined (reason)
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from curate.core.errors import CurateError, DataError, StageError
from curate.core.schema import ORIGIN
from curate.core.stage import Map, Records, with_columns
from curate.engine.books import Books
from curate.engine.context import Context
from curate.engine.contract import OpenStep, call
from curate.engine.crash import crash_point
from curate.engine.exchange import SortedRuns
from curate.engine.homes import open_sink, read_home
from curate.engine.ledger import SPILL, SPILL_ORDER, id_bytes, rows_from_batch, rows_from_reader
from curate.engine.names import NAMES, ORDER, ROLE, names_of
from curate.engine.passes import Pass
from curate.engine.receipt import Result
from curate.engine.units import Unit, slices_of
from curate.engine.watch import Watch
from curate.plan.plan import step_name

MAX_DETAIL = 200  # characters of a quarantined record's detail that the ledger keeps


class DocumentTask:
    """One attempt at one unit of a pass."""

    def __init__(self, context: Context, this: Pass, tables: Sequence[pa.Table] = ()) -> None:
        """`tables`: of the summary that the pass begins with."""
        self._context = context
        self._pass = this
        self._source = this.source
        opened = [
            context.opened(step.name, step.stage, *(tables if step is this.before else ())) for step in this.steps
        ]
        self._steps = list(map(OpenStep, this.steps, this.columns, opened))
        self._sink = open_sink(context, this)
        self._ledger = SortedRuns("ledger", SPILL, SPILL_ORDER, context.storage)
        self._names = SortedRuns(ROLE, NAMES, ORDER, context.storage)
        self._books = Books()
        self._record_sum = 0  # of the records' hashes: depends on what was read, not on how it was cut

    def read(self, unit: Unit) -> Result:
        """The first pass: read the unit's slices and take their records through the steps."""
        read = self._context.opened(f"{self._source.name} reader", self._source.reader)
        for piece in slices_of(unit):
            book = self._books.open_slice(piece)
            with self._context.open_input(self._source, piece.input) as file:
                for records in self._located(read(piece, file), piece.input.key):
                    book.read(self._source.use, records)
                    self._take(records)
        return self._finish(unit)

    def go_on(self, unit: Unit) -> Result:
        """A later pass: what the pass before left at home, verdicts applied, through the next steps."""
        step = self._pass.before
        if step is None:
            raise ValueError(f"{unit.phase} is a first pass")
        for batch, verdicts in read_home(self._context, unit, step):
            crash_point("exchange.within-pass")
            self._books.received += batch.num_rows
            self._feed(batch if verdicts is None else self._apply_verdicts(step.name, batch, verdicts), step.name)
        return self._finish(unit)

    def _finish(self, unit: Unit) -> Result:
        files, facts = self._sink.finish()
        facts |= self._books.close(unit.phase) | {"record_sum": self._record_sum}
        facts["steps"] = self._step_facts()
        return Result(artifacts=files + self._ledger.finish() + self._names.finish(), facts=facts)

    def _located(self, stretches: Any, key: str) -> Any:
        """The reader's stretches; a bug in the reader is named with its input."""
        try:
            yield from stretches
        except CurateError:
            raise
        except Exception as error:
            raise StageError(f"{self._source.use}: {key}: {type(error).__name__}: {error}") from error

    def _take(self, records: Records) -> None:
        reader = step_name(self._source.use)
        self._names.add(names_of(records))
        self._books.drop(reader, records.drops)
        self._books.counted_only += sum(records.drops.values())
        for item in records.quarantined:
            self._books.quarantine(reader, item.reason)
            self._record_sum += int.from_bytes(item.id[:8], "little")
        if records.quarantined:
            self._ledger.add(rows_from_reader(records.quarantined, self._source.name, reader))
        self._record_sum += int(id_bytes(records.batch.column("record_hash"))[:, :8].copy().view("<u8").sum(dtype="u8"))
        batch = with_source(records.batch, self._source.name)
        self._feed(batch, reader)

    def _feed(self, batch: pa.RecordBatch, stage: str) -> None:
        """Documents into the steps: together, or one by one where one of them is known to kill its process."""
        watch = self._context.watch
        for part in [batch] if watch is None else self._alone(batch, watch, stage):
            self._through_steps(part)

    def _alone(self, batch: pa.RecordBatch, watch: Watch, stage: str) -> Iterator[pa.RecordBatch]:
        """The records one by one, each named before it is touched; those that killed their process are quarantined."""
        for index in range(batch.num_rows):
            row = batch.slice(index, 1)
            if watch.may_run(row):
                yield row
            else:
                self._quarantine(stage, row, DataError("killed", "its worker process died, also when it ran alone"))

    def _through_steps(self, batch: pa.RecordBatch) -> None:
        for step in self._steps:
            if batch.num_rows == 0:
                return
            batch = self._apply(step, batch)
        self._books.sent += batch.num_rows
        if batch.num_rows:
            self._sink.add(batch)

    def _apply_verdicts(self, stage: str, batch: pa.RecordBatch, verdicts: pa.RecordBatch) -> pa.RecordBatch:
        """The documents that stay, with the cluster that they belong to. `verdicts`: a row a document, mostly null."""
        known = batch.column("cluster" if "cluster" in batch.schema.names else "id")
        batch = with_columns(batch, {"cluster": pc.coalesce(verdicts.column("cluster"), known)})  # in every batch alike
        fates = verdicts.column("fate")
        for fate, enter in (("dropped", self._books.drop), ("merged", self._books.merge)):
            self._enter(fate, enter, stage, batch, verdicts)
        self._enter("quarantined", self._quarantine_all, stage, batch, verdicts)
        return batch.filter(fates.is_null())

    def _enter(self, fate: str, enter: Any, stage: str, batch: pa.RecordBatch, verdicts: pa.RecordBatch) -> None:
        mask = pc.fill_null(pc.equal(verdicts.column("fate"), fate), False)
        gone, why = batch.filter(mask), verdicts.filter(mask)
        if gone.num_rows:
            enter(stage, Counter(why.column("reason").to_pylist()))
            rows = {"stage": stage, "reason": why.column("reason"), "kept_id": why.column("kept_id")}
            self._ledger.add(rows_from_batch(gone, fate, **rows))

    def _quarantine_all(self, stage: str, reasons: Counter[str]) -> None:
        for reason, count in reasons.items():
            self._books.quarantine(stage, reason, count)

    def _apply(self, step: OpenStep, batch: pa.RecordBatch) -> pa.RecordBatch:
        """One step: the rows that go on. Dropped and quarantined rows are entered in the books."""
        step.num_in += batch.num_rows
        batch, answer = self._answer(step, batch)
        if isinstance(step.step.stage, Map):
            step.digest.update(answer.select(list(step.step.stage.adds)))
            kept = answer.select([name for name in answer.schema.names if name in (*step.columns, "cluster")])
        else:
            step.digest.update(pa.RecordBatch.from_arrays([answer], names=["reason"]))
            kept = self._drop(step, batch, answer)
        step.num_out += kept.num_rows
        return kept

    def _answer(self, step: OpenStep, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, Any]:
        """The step's answer for the rows that it can answer for, and these rows.

        A batch with a bad record is halved until the record stands alone, so its neighbors are kept.
        """
        try:
            answer = call(step, batch)
        except DataError as error:
            if batch.num_rows == 1:
                self._quarantine(step.step.name, batch, error)
                empty = batch.slice(0, 0)
                return empty, call(step, empty)
            middle = batch.num_rows // 2
            halves = [self._answer(step, half) for half in (batch.slice(0, middle), batch.slice(middle))]
            join = pa.concat_batches if isinstance(step.step.stage, Map) else pa.concat_arrays
            return pa.concat_batches([half[0] for half in halves]), join([half[1] for half in halves])
        return batch, answer

    def _quarantine(self, stage: str, row: pa.RecordBatch, error: DataError) -> None:
        self._books.quarantine(stage, error.reason)
        detail = error.detail[:MAX_DETAIL] if error.detail else None
        self._ledger.add(rows_from_batch(row, "quarantined", stage=stage, reason=error.reason, detail=detail))

    def _drop(self, step: OpenStep, batch: pa.RecordBatch, reasons: pa.Array) -> pa.RecordBatch:
        stage, dropped = step.step.name, reasons.is_valid()
        if reasons.null_count == len(reasons):
            return batch
        gone = reasons.filter(dropped)
        self._books.drop(stage, Counter(gone.to_pylist()))
        rows = batch.filter(dropped)
        told = {"detail": step.function.details(rows)} if hasattr(step.function, "details") else {}
        self._ledger.add(rows_from_batch(rows, "dropped", stage=stage, reason=gone, **told))
        return batch.filter(pc.invert(dropped))

    def _step_facts(self) -> list[dict[str, Any]]:
        return [
            {
                "name": one.step.name,
                "use": one.step.use,
                "in": one.num_in,
                "out": one.num_out,
                "digest": one.digest.digest().hex(),
            }
            for one in self._steps
        ]


def with_source(batch: pa.RecordBatch, source: str) -> pa.RecordBatch:
    """`batch` with the source's name in `source` and `origin.source`."""
    name = pa.repeat(pa.scalar(source), batch.num_rows)
    origin = batch.column("origin")
    fields = [name if field.name == "source" else origin.field(field.name) for field in ORIGIN]
    return with_columns(batch, {"source": name, "origin": pa.StructArray.from_arrays(fields, fields=list(ORIGIN))})
