"""The homes of documents between two passes: opening what takes them in, and reading them back with their mail."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from curate.core.errors import StageError
from curate.core.exchange import VERDICT, Reduce, walk
from curate.core.summary import NeedsSummary
from curate.engine.context import Context
from curate.engine.merge import Run, StoredTable, merge
from curate.engine.passes import Pass
from curate.engine.receipt import Receipt
from curate.engine.sinks import (
    HOME_ORDER,
    HomeSink,
    Sink,
    SummarySink,
    TokenSink,
    exchange_of,
    kept_role,
    rows_role,
    send_of,
)
from curate.engine.units import Unit
from curate.plan.plan import Step

BATCH_BYTES = 4 << 20  # of documents read back at once
MAIL_BYTES = 64 << 20  # of mail that a Reply is given at once


def open_sink(context: Context, this: Pass) -> Sink:
    """What takes the documents of a pass."""
    if this.after is None:
        return TokenSink(context.plan, this.source, context.storage)
    if isinstance(this.after.stage, NeedsSummary):
        return SummarySink(this.after, context.storage)
    first = send_of(this.after)
    send = context.opened(f"{this.after.name}.{first.name}", first)
    return HomeSink(context.plan, this.source, this.after, send, context.storage)


def receipt_of_home(context: Context, unit: Unit) -> Receipt:
    """What the pass before made of the documents that `unit` goes on with."""
    receipts: list[Receipt] = context.seal(unit.seals[0])["units"]
    return next(receipt for receipt in receipts if receipt["unit"] == unit.spec["home"])


def read_home(context: Context, unit: Unit, step: Step) -> Iterator[tuple[pa.RecordBatch, pa.RecordBatch | None]]:
    """The documents of a home, in order, each batch with the verdicts of an exchange: a row a document, or null."""
    outputs = [output for output in receipt_of_home(context, unit)["outputs"] if output["role"] == "home"]
    batches = (batch for output in outputs for batch in _batches(StoredTable(context.storage, output)))
    if isinstance(step.stage, NeedsSummary):
        yield from ((batch, None) for batch in batches)
        return
    last = exchange_of(step).program()[-1]
    mail = read_mail(context, unit, step, last.name)
    rows = mail.column("row").to_numpy()
    if (rows[1:] == rows[:-1]).any():
        raise StageError(f"step {step.name!r} ({step.use}) gave two verdicts about one document")
    position = 0
    for batch in batches:
        index = np.searchsorted(rows, np.arange(position, position + batch.num_rows))
        yield batch, _verdicts(mail, rows, index, position)
        position += batch.num_rows


def _batches(file: StoredTable) -> Iterator[pa.RecordBatch]:
    """The rows of a file in batches of about BATCH_BYTES."""
    tables: list[pa.Table] = []
    while file.has_more:
        tables.append(file.read_group())
        if not file.has_more or sum(table.nbytes for table in tables) >= BATCH_BYTES:
            yield pa.concat_tables(tables).combine_chunks().to_batches()[0]
            tables = []


def _verdicts(mail: pa.Table, rows: Any, index: Any, position: int) -> pa.RecordBatch:
    """For each document the line of the mail that is addressed to it, or nulls."""
    numbers = np.arange(position, position + len(index))
    found = np.zeros(len(index), bool)
    inside = index < len(rows)
    found[inside] = rows[index[inside]] == numbers[inside]
    lines = mail.select(list(VERDICT)).take(pa.array(np.where(found, index, 0), mask=~found))
    return lines.combine_chunks().to_batches()[0]


def read_mail(context: Context, unit: Unit, step: Step, name: str) -> pa.Table:
    """The rows of a Reduce that are addressed to this home, sorted by `row`."""
    parts = list(mail_pieces(context, unit, step, name))
    return pa.concat_tables(parts).combine_chunks() if parts else _opened(mail_schema(step, name).empty_table())


def mail_pieces(context: Context, unit: Unit, step: Step, name: str) -> Iterator[pa.Table]:
    """The same in pieces of about MAIL_BYTES, each with all the mail of its documents."""
    first = unit.spec["ordinal"] << 32
    outputs = context.outputs(unit.seals[1:], rows_role(step, name))
    runs = [Run((output,)) for output in outputs]
    held: list[pa.Table] = []
    for rows in merge(context.storage, runs, HOME_ORDER, first, first + (1 << 32), context.limit_bytes):
        held.append(_opened(rows))
        if sum(table.nbytes for table in held) >= MAIL_BYTES:
            table = pa.concat_tables(held).combine_chunks()
            numbers = table.column("row").to_numpy()
            end = int(np.searchsorted(numbers, numbers[-1]))  # the last document may have more
            if end:
                yield table.slice(0, end).combine_chunks()
            held = [table.slice(end)]
    if held:
        yield pa.concat_tables(held).combine_chunks()


def _opened(mail: pa.Table) -> pa.Table:
    """`home` becomes `row`."""
    row = pa.array(mail.column("home").to_numpy().astype(np.uint64) & np.uint64(0xFFFFFFFF))
    return mail.drop_columns(["home"]).add_column(0, "row", row.cast(pa.uint32())).combine_chunks()


def mail_schema(step: Step, name: str) -> pa.Schema:
    """The rows of a Reduce to homes."""
    columns = next(
        one.columns for one in walk(exchange_of(step).program()) if one.name == name and isinstance(one, Reduce)
    )
    return pa.schema([("home", pa.uint64()), ("id", pa.binary(16)), *columns.items()])


def read_documents(
    context: Context, unit: Unit, columns: Sequence[str], mail: pa.Table
) -> Iterator[tuple[pa.Table, pa.Table]]:
    """The documents of a home that have mail, with `row`, and this mail; row groups without mail are left out."""
    rows = mail.column("row").to_numpy()
    position = 0
    for output in receipt_of_home(context, unit)["outputs"]:
        file = StoredTable(context.storage, output) if output["role"] == "home" else None
        while file is not None and file.has_more:
            stop = position + file.next_rows
            first, last = np.searchsorted(rows, [position, stop]).tolist()
            if first == last:
                file.skip_group()
            else:
                wanted = np.unique(rows[first:last])
                documents = file.read_group(columns).take(pa.array(wanted - position))
                yield documents.append_column("row", pa.array(wanted)), mail.slice(first, last - first)
            position = stop


def read_kept(context: Context, unit: Unit, step: Step) -> pa.Table:
    """What the exchange kept of the documents of a home."""
    role = kept_role(step)
    outputs = [output for output in receipt_of_home(context, unit)["outputs"] if output["role"] == role]
    tables = []
    for output in outputs:
        with context.storage.open(output["key"]) as raw:
            tables.append(pq.read_table(raw, pre_buffer=True))
    return pa.concat_tables(tables).combine_chunks() if tables else pa.table({})
