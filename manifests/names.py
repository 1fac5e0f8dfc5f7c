"""Recounting the index of names: sorted, each line once, of records of the ledger, and all of their own names in it."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from curate.core.hashing import name_key
from manifests.ids import NUM_BUCKETS, Buckets
from manifests.layout import id_array, names_schema
from manifests.ledger import hex_id, ledger_columns
from manifests.manifest import Dataset
from manifests.problems import Problems, read_table
from manifests.shape import Json

LINE = np.dtype([("id", "S16"), ("key", "<u8")])

Lines = NDArray[np.void]


def verify_names(dataset: Dataset, problems: Problems) -> None:
    """Add to `problems` what is wrong with the index. The ledger is readable."""
    with Buckets(LINE) as named, Buckets(LINE) as recorded:
        whole, before = True, None
        for part in dataset.manifest["names"]["parts"]:
            table = read_table(dataset, part, names_schema(), ("key", "id"), problems)
            whole &= table is not None
            if table is not None:
                lines = _lines(table.column("key").to_numpy(), id_array(table.column("id")))
                before = _check_part(part, lines, before, problems)
                named.add(lines)
        if whole:
            for part in dataset.manifest["ledger"]["parts"]:
                recorded.add(_own_names(ledger_columns(dataset, part, ["id", "name"])))
            _compare(named, recorded, problems)


def _lines(keys: NDArray[Any], ids: NDArray[np.bytes_]) -> Lines:
    lines = np.zeros(len(ids), dtype=LINE)
    lines["key"], lines["id"] = keys, ids
    return lines


def _own_names(table: Any) -> Lines:
    """One line a record: its id, and the key of its name, 0 where it has none."""
    keys = [name_key(name) if name else 0 for name in table.column("name").to_pylist()]
    return _lines(np.array(keys, dtype=np.uint64), id_array(table.column("id")))


def _check_part(part: Json, lines: Lines, before: Lines | None, problems: Problems) -> Lines | None:
    """Rows, bounds and order of a part; returns its last line."""
    key = part["key"]
    problems.expect(key, "rows", part["rows"], len(lines))
    for name, at in (("first_key", 0), ("last_key", -1)):
        problems.expect(key, name, part[name], f"{lines['key'][at]:016x}" if len(lines) else None)
    if not len(lines):
        return before
    whole = lines if before is None else np.concatenate([before, lines])
    keys, ids = whole["key"], whole["id"]
    back = (keys[1:] < keys[:-1]) | ((keys[1:] == keys[:-1]) & (ids[1:] <= ids[:-1]))
    problems.first(
        key, "order by (key, id)", back, lambda i: f"expected {keys[i]:016x} or later, found {keys[i + 1]:016x}"
    )
    return lines[-1:]


def _compare(named: Buckets, recorded: Buckets, problems: Problems) -> None:
    for bucket in range(NUM_BUCKETS):
        index, records = named.read(bucket), recorded.read(bucket)
        unknown = index["id"][~np.isin(index["id"], records["id"])]
        if len(unknown):
            problems.tally("names", "ids", f"expected a record {hex_id(unknown[0])}, found none", len(unknown))
        own = records[records["key"] != 0]
        absent = own["id"][~np.isin(_as_bytes(own), _as_bytes(index))]
        if len(absent):
            found = f"expected the name of {hex_id(absent[0])}, found none"
            problems.tally("names", "names of records", found, len(absent))


def _as_bytes(lines: Lines) -> NDArray[np.void]:
    """Each line as one value that compares whole."""
    pairs = np.empty((len(lines), 3), dtype="<u8")
    pairs[:, :2] = np.ascontiguousarray(lines["id"]).view("<u8").reshape(-1, 2)
    pairs[:, 2] = lines["key"]
    return np.ascontiguousarray(pairs).view("V24").ravel()
