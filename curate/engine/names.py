"""The index of names: from a name, URL, PMID, PMCID, DOI or place to the ids of the records that it means.

Each unit that reads leaves (key of a name, id) of its records; the phase `names` sorts them into parts
of the dataset, so that a name is a look-up in one row group.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from curate.core.hashing import name_key
from curate.core.names import COLUMNS, forms_of, place_of
from curate.core.stage import Quarantined, Records
from curate.engine.context import Context, Seal, outputs_of
from curate.engine.exchange import range_of, sort
from curate.engine.ledger import id_bytes
from curate.engine.merge import read_keys
from curate.engine.phases import units_of
from curate.engine.receipt import Artifact, Result
from curate.engine.units import Unit
from manifests import layout

NAMES = layout.names_schema()
ORDER = ("key", "id")
ROLE = "names"
PART_ROWS = 1 << 22  # 100 MB


def names_of(records: Records) -> pa.RecordBatch:
    """(key, id) of all names of a stretch's records."""
    pairs = [*_names_of_documents(records.batch), *_names_of_quarantined(records.quarantined)]
    keys, ids = zip(*pairs, strict=True) if pairs else ((), ())
    return pa.RecordBatch.from_arrays([pa.array(keys, pa.uint64()), pa.array(ids, pa.binary(16))], schema=NAMES)


def name_units(dataset: str, first_passes: list[Seal]) -> list[Unit]:
    """A unit a part."""
    num_rows = sum(output["rows"] for seal in first_passes for output in outputs_of(seal["units"], ROLE))
    num_parts = max(1, -(-num_rows // PART_ROWS))
    specs = [{"dataset": dataset, "part": part, "parts": num_parts} for part in range(num_parts)]
    return list(units_of("names", None, first_passes, [ROLE], specs))


def run_names(context: Context, unit: Unit) -> Result:
    """Write one part of the index: a range of keys, each (key, id) once."""
    spec = unit.spec
    low, high = range_of(spec["part"], spec["parts"])
    table = sort(read_keys(context.storage, context.outputs(unit.seals, ROLE), NAMES, low, high), ORDER)
    keys, ids = table.column("key").to_numpy(), id_bytes(table.column("id"))
    is_new = np.ones(len(keys), bool)
    is_new[1:] = (keys[1:] != keys[:-1]) | (ids[1:] != ids[:-1]).any(axis=1)
    table = table.filter(pa.array(is_new)).combine_chunks()
    place = f"{spec['dataset'][:12]}/ledger/names-{spec['part']:05d}."
    data = layout.encode_parquet(table)
    artifact = Artifact(role="index", data=data, rows=table.num_rows, suffix=".parquet", place=place)
    bounds = {"first_key": f"{keys[0]:016x}", "last_key": f"{keys[-1]:016x}"} if len(keys) else {}
    return Result(artifacts=[artifact], facts={"rows": table.num_rows} | bounds)


def _names_of_documents(batch: pa.RecordBatch) -> Iterator[tuple[int, bytes]]:
    ids = batch.column("id").to_pylist()
    for column in (column for column in COLUMNS if column in batch.schema.names):
        for id, value in zip(ids, batch.column(column).to_pylist(), strict=True):
            if value:
                yield from ((name_key(form), id) for form in forms_of(column, value))
    for id, name, origin in zip(ids, batch.column("name").to_pylist(), batch.column("origin").to_pylist(), strict=True):
        if not name:
            yield _place(origin), id


def _names_of_quarantined(found: Iterable[Quarantined]) -> Iterator[tuple[int, bytes]]:
    for item in found:
        yield _place(item.origin), item.id
        if item.name:
            yield from ((name_key(form), item.id) for form in forms_of("name", item.name))


def _place(origin: dict[str, Any]) -> int:
    return name_key(place_of(origin["key"], origin["offset"], origin["inner"] or 0))
