"""A plain interpreter of an exchange's program, in memory and in one process.

It cuts the work as it is told: documents into homes and batches, keys into ranges, sorted rows into
tables, homes in any order. Whatever the cuts, the verdicts must be the same.
"""

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from curate.core.exchange import VERDICT, Exchange, Loop, Part, Reduce, Reply, Send, Shortcut
from curate.core.stage import Columns
from curate.core.summary import Summary

MAX_TURNS = 50
ROW_BITS = 32


@dataclass(frozen=True)
class Cuts:
    """How the work is cut: everything in one piece, or by chance."""

    num_homes: int = 1
    num_parts: int = 1  # ranges of keys
    seed: int | None = None  # of the cuts into batches and of all that may come in any order; None: no cuts

    def pieces(self, number: int, rng: random.Random) -> list[tuple[int, int]]:
        """[start, stop) of the pieces of a list, some of them empty."""
        inner = [] if self.seed is None else sorted(rng.randint(0, number) for _ in range(rng.randint(0, 4)))
        bounds = [0, *inner, number]
        return list(pairwise(bounds))


@dataclass
class Outcome:
    """The verdicts, one line a document that got one, and how many rows each step gave."""

    verdicts: dict[int, dict[str, Any]] = field(default_factory=dict)  # by position of the document
    num_rows: dict[str, int] = field(default_factory=dict)
    num_bytes: dict[str, int] = field(default_factory=dict)

    def removed(self) -> set[int]:
        """Positions of the documents that do not stay."""
        return {number for number, verdict in self.verdicts.items() if verdict["fate"] is not None}


def run_exchange(exchange: Exchange, documents: pa.RecordBatch, cuts: Cuts | None = None) -> Outcome:
    """The verdicts about documents (with `rank`, and the columns that the exchange reads)."""
    return _Interpreter(exchange, documents, cuts or Cuts()).run()


def summarize(summary: Summary, documents: pa.RecordBatch, cuts: Cuts | None = None) -> list[pa.Table]:
    """The answers of a Summary, one a round: documents in any order, cut as told, tables combined in any grouping."""
    cuts = cuts or Cuts()
    rng = random.Random(cuts.seed)
    answers: list[pa.Table] = []
    while not answers or not summary.is_enough(*answers):
        assert len(answers) < 200, "the rounds do not end"
        answers.append(_one_table(summary, summary.open(*answers), documents, cuts, rng))
    return answers


def _one_table(
    summary: Summary,
    count: Callable[[pa.RecordBatch], pa.Table],
    documents: pa.RecordBatch,
    cuts: Cuts,
    rng: random.Random,
) -> pa.Table:
    positions = list(range(documents.num_rows))
    if cuts.seed is not None:
        rng.shuffle(positions)
    pieces = cuts.pieces(len(positions), rng)
    tables = [count(documents.take(pa.array(positions[start:stop], pa.int64()))) for start, stop in pieces]
    while len(tables) > 1 or cuts.seed is None:
        chosen = [tables.pop(rng.randrange(len(tables))) for _ in range(min(len(tables), rng.randint(1, 3)))]
        tables.append(summary.combine(chosen))
        assert tables[-1].num_rows <= summary.max_rows
        if len(tables) == 1:
            break
    (table,) = tables
    assert dict(zip(table.schema.names, table.schema.types, strict=True)) == dict(summary.columns)
    return table


class _Interpreter:
    def __init__(self, exchange: Exchange, documents: pa.RecordBatch, cuts: Cuts) -> None:
        self._exchange = exchange
        self._cuts = cuts
        self._rng = random.Random(cuts.seed)
        self._documents = documents
        self._homes = self._deal(documents.num_rows)
        self._rows: dict[str, pa.Table] = {}
        self._kept: list[pa.Table | None] = []
        self.outcome = Outcome()

    def run(self) -> Outcome:
        program = self._exchange.program()
        assert isinstance(program[0], Send), "a Send comes first"
        last = program[-1]
        assert isinstance(last, Reduce | Shortcut)
        final = last.at_once if isinstance(last, Shortcut) else last
        assert final.to == "homes" and dict(final.columns) == dict(VERDICT)
        self._run_steps(program)
        self._apply(self._rows[last.name])
        return self.outcome

    def _run_steps(self, steps: Iterable[Part]) -> None:
        for step in steps:
            if isinstance(step, Send):
                self._send(step)
            elif isinstance(step, Reply):
                self._reply(step)
            elif isinstance(step, Reduce):
                self._store(step.name, self._reduce(step, [self._rows[name] for name in step.inputs])[0])
            elif isinstance(step, Loop):
                self._loop(step)
            else:
                self._shortcut(step)

    def _shortcut(self, step: Shortcut) -> None:
        """Both ways, which must give the same rows."""
        self._run_steps(step.steps)
        in_rounds = self._rows[step.name]
        one_range = replace(self._cuts, num_parts=1)
        cuts, self._cuts = self._cuts, one_range
        at_once, _ = self._reduce(step.at_once, [self._rows[name] for name in step.at_once.inputs])
        self._cuts = cuts
        order = [("home", "ascending")]
        assert at_once.select(in_rounds.column_names).sort_by(order).equals(in_rounds.sort_by(order))

    def _deal(self, number: int) -> list[list[int]]:
        """The documents of each home, by position; homes are numbered in any order."""
        if self._cuts.seed is None and self._cuts.num_homes == 1:
            return [list(range(number))]
        homes: list[list[int]] = [[] for _ in range(self._cuts.num_homes)]
        for position in range(number):
            homes[self._rng.randrange(len(homes))].append(position)
        for home in homes:
            self._rng.shuffle(home)
        return homes

    def _send(self, step: Send) -> None:
        function = step.open()
        tables = []
        for home, positions in enumerate(self._homes):
            kept = []
            for start, stop in self._cuts.pieces(len(positions), self._rng):
                batch = self._documents.take(pa.array(positions[start:stop], pa.int64()))
                batch = batch.append_column("row", pa.array(range(start, stop), pa.uint32()))
                sent = function(batch)
                tables.append(at_home(check_rows(sent.rows, step.columns, "key"), home))
                kept += [] if sent.kept is None else [pa.Table.from_batches([sent.kept])]
            self._kept.append(pa.concat_tables(kept).combine_chunks() if kept else None)
        self._store(step.name, pa.concat_tables(tables))

    def _reply(self, step: Reply) -> None:
        mail = self._rows[step.mail]
        tables = []
        order = list(range(len(self._homes)))
        self._rng.shuffle(order)
        for home in order:
            address = mail.column("home").to_numpy()
            mine = mail.filter(pa.array(address >> np.uint64(ROW_BITS) == home))
            row = pa.array((mine.column("home").to_numpy() & np.uint64((1 << ROW_BITS) - 1)).astype(np.uint32))
            mine = self._sorted(mine.drop_columns(["home"]).append_column("row", row), ("row",))
            for about, letters in self._read(step, home, mine):
                tables.append(at_home(check_rows(step.open()(about, letters), step.columns, "key"), home))
        empty = schema_of("key", replace_row(step.columns)).empty_table()
        self._store(step.name, pa.concat_tables([empty, *tables]))

    def _read(self, step: Reply, home: int, mail: pa.Table) -> list[tuple[pa.Table, pa.Table]]:
        """What a Reply is given: mail in pieces, each with what was kept, or with the documents that it is about."""
        kept = self._kept[home]
        row = mail.column("row").to_numpy()
        found = []
        for start, stop in self._cuts.pieces(len(self._homes[home]), self._rng):
            letters = mail.filter(pa.array((row >= start) & (row < stop)))
            if not step.reads:
                found += [(kept, letters)] if kept is not None and letters.num_rows else []
                continue
            wanted = np.unique(letters.column("row").to_numpy())
            documents = self._documents.take(pa.array([self._homes[home][number] for number in wanted], pa.int64()))
            table = pa.Table.from_batches([documents.select(step.reads)]).append_column("row", pa.array(wanted))
            found += [(table, letters)] if letters.num_rows else []
        return found

    def _reduce(self, step: Reduce, inputs: Sequence[pa.Table]) -> tuple[pa.Table, int]:
        rows = self._sorted(pa.concat_tables(inputs), step.order)
        keys = rows.column("key").to_numpy()
        address = "key" if step.to == "keys" else "home"
        tables, num_changed = [schema_of(address, step.columns).empty_table()], 0
        for part in range(self._cuts.num_parts):
            in_part = [int(key) * self._cuts.num_parts >> 64 == part for key in keys.tolist()]
            mine = rows.filter(pa.array(in_part, pa.bool_()))
            reducer = step.open()
            for start, stop in self._cuts.pieces(mine.num_rows, self._rng):
                if stop > start:  # no engine gives an empty table
                    tables.append(check_rows(reducer.reduce(mine.slice(start, stop - start)), step.columns, address))
            rest = reducer.finish()
            tables += [] if rest is None else [check_rows(rest, step.columns, address)]
            num_changed += reducer.num_changed
        return pa.concat_tables(tables), num_changed

    def _loop(self, loop: Loop) -> None:
        rows = self._rows[loop.start]
        for _ in range(MAX_TURNS):
            num_changed = 0
            for step in loop.steps:
                rows, changed = self._reduce(step, [rows])
                self._store(step.name, rows)
                num_changed += changed
            if not num_changed:
                self._store(loop.name, rows)
                return
        raise AssertionError(f"{loop.name} did not settle in {MAX_TURNS} turns")

    def _sorted(self, rows: pa.Table, order: Sequence[str]) -> pa.Table:
        """In order; rows that are equal in it come in any order."""
        if self._cuts.seed is not None:
            shuffled = list(range(rows.num_rows))
            self._rng.shuffle(shuffled)
            rows = rows.take(pa.array(shuffled, pa.int64()))
        assert "home" not in order, "nothing that decides may depend on how the work was cut"
        keys = [(name, "ascending") for name in order]
        return rows.take(pc.sort_indices(rows.select(order), sort_keys=keys)).combine_chunks()

    def _store(self, name: str, rows: pa.Table) -> None:
        self._rows[name] = rows
        self.outcome.num_rows[name] = self.outcome.num_rows.get(name, 0) + rows.num_rows
        self.outcome.num_bytes[name] = self.outcome.num_bytes.get(name, 0) + rows.nbytes

    def _apply(self, rows: pa.Table) -> None:
        ids = self._documents.column("id").to_pylist()
        for line in rows.to_pylist():
            address = line.pop("home")
            position = self._homes[address >> ROW_BITS][address & ((1 << ROW_BITS) - 1)]
            assert line["id"] == ids[position], "the address is the one of the document with this id"
            assert position not in self.outcome.verdicts, "one verdict a document"
            self.outcome.verdicts[position] = line


def schema_of(address: str, columns: Columns) -> pa.Schema:
    return pa.schema([(address, pa.uint64()), ("id", pa.binary(16)), *columns.items()])


def replace_row(columns: Columns) -> Columns:
    """The columns of a Send or Reply once they have arrived."""
    assert columns["row"] == pa.uint32(), "each row that leaves home says which document it is about"
    return {name: kind for name, kind in columns.items() if name != "row"} | {"home": pa.uint64()}


def check_rows(rows: pa.RecordBatch | pa.Table, columns: Columns, address: str) -> pa.Table:
    """The rows with just the columns that their step declared, in types that are equal."""
    schema = schema_of(address, columns)
    assert sorted(rows.schema.names) == sorted(schema.names)
    table = pa.Table.from_batches([rows]) if isinstance(rows, pa.RecordBatch) else rows
    table = table.select(schema.names)
    assert table.schema.types == schema.types, f"{table.schema.types}, declared {schema.types}"
    assert table.column(address).null_count == table.column("id").null_count == 0
    return table.cast(schema)


def at_home(rows: pa.Table, home: int) -> pa.Table:
    """`row` becomes the address of one document."""
    address = rows.column("row").to_numpy().astype(np.uint64) | np.uint64(home << ROW_BITS)
    return rows.drop_columns(["row"]).append_column("home", pa.array(address))


def documents_of(
    texts: Iterable[str | None], rank: Callable[[int], int] = lambda _: 0, make_id: Callable[[int], bytes] | None = None
) -> pa.RecordBatch:
    """Documents of texts: position n has the id `make_id(n)` (n, big-endian) and the source of number `rank(n)`."""
    texts = list(texts)
    numbers = range(len(texts))
    make = make_id or (lambda number: number.to_bytes(16, "big"))
    columns = {
        "id": pa.array([make(number) for number in numbers], pa.binary(16)),
        "text": pa.array(texts, pa.large_string()),
        "rank": pa.array([rank(number) for number in numbers], pa.uint16()),
    }
    return pa.RecordBatch.from_pydict(columns)
