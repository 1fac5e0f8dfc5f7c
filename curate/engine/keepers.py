"""Whom a merged record names: one that was not merged itself.

An exchange names the keeper that it saw, and a later exchange may merge that one, too. Turn after
turn, each pointer from a record to its keeper moves on to the keeper's own keeper, where the ids of
the keepers lie sorted; a turn that moves none is the last. There are as many as exchanges, and one.
"""

import pyarrow as pa
import pyarrow.compute as pc

from curate.engine.context import Context, Seal, outputs_of
from curate.engine.exchange import SortedRuns, range_of
from curate.engine.ledger import SPILL, id_keys
from curate.engine.merge import read_keys
from curate.engine.phases import LEDGER_PART_ROWS, units_of
from curate.engine.receipt import Result
from curate.engine.units import Unit

# `key` is the beginning of `at`: the keeper of a pointer, the record itself of a settled one.
POINTER = pa.schema([("key", pa.uint64()), ("at", pa.binary(16)), ("other", pa.binary(16))])
ORDER = ("key", "at", "other")


def keeper_units(turn: int, seals: list[Seal], last: Seal | None) -> list[Unit]:
    """A unit a range of ids. `seals` hold the ledger rows of exchanges, `last` is the turn before."""
    num_rows = sum(output["rows"] for seal in seals for output in outputs_of(seal["units"], "ledger"))
    num_parts = max(1, -(-num_rows // LEDGER_PART_ROWS))
    specs = [{"turn": turn, "part": part, "parts": num_parts} for part in range(num_parts)]
    reads = [*seals, last] if last else seals
    return list(units_of(f"keepers.{turn}", None, reads, ["ledger", f"pointers:{turn - 1}"], specs))


def run_keepers(context: Context, unit: Unit) -> Result:
    """Move the pointers at one range of keepers; those that stay are settled, and go to the records that point."""
    turn = unit.spec["turn"]
    low, high = range_of(unit.spec["part"], unit.spec["parts"])
    moves = read_moves(context, unit, low, high)
    moving = SortedRuns(f"pointers:{turn}", POINTER, ORDER)
    settled = SortedRuns("settled", POINTER, ORDER)
    if turn == 0:
        moving.add(pointers(moves["kept_id"], moves["id"]))
        return Result(artifacts=moving.finish(), facts={"changed": moves.num_rows})
    found = read_keys(context.storage, context.outputs(unit.seals, f"pointers:{turn - 1}"), POINTER, low, high)
    place = pc.index_in(found["at"], value_set=moves["id"])
    going, staying = found.filter(place.is_valid()), found.filter(place.is_null())
    moving.add(pointers(moves["kept_id"].take(place.drop_null()), going["other"]))
    settled.add(pointers(staying["other"], staying["at"]))
    return Result(artifacts=moving.finish() + settled.finish(), facts={"changed": going.num_rows})


def read_moves(context: Context, unit: Unit, low: int, high: int) -> pa.Table:
    """Records that exchanges merged into others: `id` and `kept_id`, without copies of the same record."""
    rows = read_keys(context.storage, context.outputs(unit.seals, "ledger"), SPILL, low, high)
    is_move = pc.and_(pc.equal(rows["fate"], "merged"), pc.not_equal(rows["id"], rows["kept_id"]))
    return rows.filter(pc.fill_null(is_move, False)).select(["id", "kept_id"]).combine_chunks()


def pointers(at: pa.ChunkedArray, other: pa.ChunkedArray) -> pa.Table:
    """Rows of POINTER."""
    at, other = (column.combine_chunks() if len(column) else pa.array([], pa.binary(16)) for column in (at, other))
    return pa.table([id_keys(at), at, other], schema=POINTER)


def name_keepers(table: pa.Table, settled: pa.Table) -> pa.Table:
    """Ledger rows with the last keeper of each merged record in `kept_id`."""
    place = pc.index_in(table["id"], value_set=settled["at"])
    named = settled["other"].take(place)
    is_merged = pc.equal(table["fate"], "merged")
    kept_id = pc.if_else(pc.and_(is_merged, named.is_valid()), named, table["kept_id"])
    return table.set_column(table.schema.get_field_index("kept_id"), table.schema.field("kept_id"), kept_id)
