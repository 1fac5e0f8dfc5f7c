"""The phase `ledger`: all ledger rows, sorted by id, each document with one fate."""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from curate.engine.context import Context
from curate.engine.exchange import range_of, sort
from curate.engine.keepers import POINTER, name_keepers
from curate.engine.ledger import LEDGER, SPILL, SPILL_ORDER, id_bytes
from curate.engine.merge import read_keys
from curate.engine.receipt import Artifact, Result
from curate.engine.units import Unit
from manifests import layout

# What packing says of a document, best first: a token in a row; a row that the mix did not need; the last tail.
CLAIMS = (("kept", None), ("dropped", ("mix", "not_needed")), ("dropped", ("pack", "tail")))


def run_ledger(context: Context, unit: Unit) -> Result:
    """Write one part of the ledger: all rows of a range of ids."""
    spec = unit.spec
    low, high = range_of(spec["part"], spec["parts"])
    spilled = read_keys(context.storage, context.outputs(unit.seals, "ledger"), SPILL, low, high)
    settled = read_keys(context.storage, context.outputs(unit.seals, "settled"), POINTER, low, high)
    table = one_claim(sort(name_keepers(spilled, settled), SPILL_ORDER)).drop_columns(["key", "position"]).cast(LEDGER)
    ids = id_bytes(table.column("id"))
    place = f"{spec['dataset'][:12]}/ledger/part-{spec['part']:05d}."
    data = layout.encode_parquet(table)
    artifact = Artifact(role="ledger", data=data, rows=table.num_rows, suffix=".parquet", place=place)
    bounds = {"first_id": ids[0].tobytes().hex(), "last_id": ids[-1].tobytes().hex()} if len(ids) else {}
    facts = {"rows": table.num_rows, "fates": _fates(table), "kept": _kept(table), "drops": _packing_drops(table)}
    return Result(artifacts=[artifact], facts=facts | bounds)


def one_claim(table: pa.Table) -> pa.Table:
    """The table, sorted by id, with the best claim of each document and everything that is no claim."""
    rank = _claim_ranks(table)
    ids = id_bytes(table.column("id"))
    is_new = np.ones(len(ids), bool)
    is_new[1:] = (ids[1:] != ids[:-1]).any(axis=1)
    document = np.cumsum(is_new) - 1
    claims = np.flatnonzero(rank >= 0)
    claims = claims[np.lexsort((claims, rank[claims], document[claims]))]  # ties: the first piece stands first
    best = np.ones(len(claims), bool)
    best[1:] = document[claims][1:] != document[claims][:-1]
    stays = rank < 0
    stays[claims[best]] = True
    return table.filter(pa.array(stays)).combine_chunks()


def _claim_ranks(table: pa.Table) -> Any:
    """For each row its place in CLAIMS, or -1."""
    rank = np.full(table.num_rows, -1, np.int64)
    for number, (fate, why) in enumerate(CLAIMS):
        mask = pc.equal(table.column("fate"), fate)
        if why is not None:
            for name, word in zip(("stage", "reason"), why, strict=True):
                mask = pc.and_(mask, pc.equal(table.column(name), word))
        rank[pc.fill_null(mask, False).to_numpy()] = number
    return rank


def _fates(table: pa.Table) -> dict[str, dict[str, int]]:
    """Rows by source and fate."""
    counts: dict[str, dict[str, int]] = {}
    for item in table.group_by(["source", "fate"]).aggregate([("id", "count")]).to_pylist():
        counts.setdefault(item["source"], {})[item["fate"]] = item["id_count"]
    return counts


def _kept(table: pa.Table) -> dict[str, int]:
    """Kept documents by split."""
    kept = table.filter(pc.equal(table.column("fate"), "kept"))
    return {item["values"]: item["counts"] for item in pc.value_counts(kept.column("split")).to_pylist()}


def _packing_drops(table: pa.Table) -> dict[str, dict[str, int]]:
    """Documents dropped by packing and mixing, known only here, as {stage: {reason: count}}."""
    drops: dict[str, dict[str, int]] = {}
    ranks = _claim_ranks(table)
    for number, (_, why) in enumerate(CLAIMS):
        count = int((ranks == number).sum())
        if why is not None and count:
            drops.setdefault(why[0], {})[why[1]] = count
    return drops
