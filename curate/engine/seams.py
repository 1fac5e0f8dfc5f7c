"""Seams between slices: the records of an input do not depend on how it was cut.

Each slice says where its first record began and where reading stopped. Where the end of one is not
the beginning of the next (a WARC inside a WARC, a gzip magic number inside a body), reading in
sequence from byte 0 is right, and the next slice is read again from that end.
"""

from collections.abc import Iterable
from typing import Any

from curate.core.errors import BalanceError
from curate.core.stage import Slice
from curate.engine.receipt import Receipt
from curate.engine.units import Unit, document_unit, slices_of
from curate.plan.plan import Plan, Source


def close_seams(
    plan: Plan, source: Source, units: Iterable[Unit], receipts: dict[str, Receipt]
) -> tuple[list[Unit], list[Unit]]:
    """The units that count, in order, and those that must still be read (again).

    Call it until nothing is missing. A unit that would own nothing is left out.
    """
    chosen: list[Unit] = []
    missing: list[Unit] = []
    position: dict[str, int] = {}  # input key -> where its next record begins; absent: not known yet
    for unit in units:
        slices = slices_of(unit)
        if len(slices) > 1 or slices[0].stop - slices[0].start == slices[0].input.size:
            (chosen if unit.key in receipts else missing).append(unit)
            continue
        _follow(plan, source, unit, slices[0], receipts, position, chosen, missing)
    return chosen, missing


def _follow(
    plan: Plan,
    source: Source,
    unit: Unit,
    piece: Slice,
    receipts: dict[str, Receipt],
    position: dict[str, int],
    chosen: list[Unit],
    missing: list[Unit],
) -> None:
    name = piece.input.key
    if piece.start == 0:
        position[name] = 0
    if unit.key not in receipts:
        missing.append(unit)
        position.pop(name, None)
        return
    if name not in position:
        return  # an earlier slice is still missing: judged once it is there
    here = position[name]
    if here >= piece.stop:
        return  # an earlier record reaches past this slice: it owns nothing
    fact = slice_fact(receipts[unit.key])
    if fact["first"] != here:
        unit = document_unit(plan, source, [Slice(piece.input, here, piece.stop, proven=True)])
        if unit.key not in receipts:
            missing.append(unit)
            position.pop(name, None)
            return
        fact = slice_fact(receipts[unit.key])
    chosen.append(unit)
    position[name] = fact["end"]


def slice_fact(receipt: Receipt) -> dict[str, Any]:
    """What a receipt of a unit of one slice says of it."""
    fact: dict[str, Any] = receipt["facts"]["slices"][0]
    return fact


def check_coverage(source: Source, units: list[Unit], receipts: dict[str, Receipt]) -> None:
    """Raise BalanceError unless the slices of each input, in order, cover it from 0 to its size."""
    position: dict[str, int] = {}
    for unit in units:
        for fact in receipts[unit.key]["facts"]["slices"]:
            here = position.get(fact["key"], 0)
            if fact["first"] != here:
                raise BalanceError(f"{source.name}: {fact['key']}: bytes {here} to {fact['first']} were read by nobody")
            position[fact["key"]] = fact["end"]
    for item in source.inputs:
        if position.get(item.key, 0) != item.size:
            raise BalanceError(f"{source.name}: {item.key}: read to byte {position.get(item.key, 0)} of {item.size}")
