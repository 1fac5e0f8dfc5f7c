"""Looking records up: ids in the ledger, names in their index. Only the row groups that can hold them are read."""

import re
from collections.abc import Iterable

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from curate.core.errors import PlanError, StorageError, one_line
from curate.core.hashing import name_key
from curate.core.names import meanings_of, similar_to
from manifests.manifest import Dataset
from manifests.shape import Json

HEX_ID = re.compile(r"[0-9a-fA-F]{32}")
BEGINNING_OF_ID = re.compile(r"[0-9a-fA-F]{6,31}")
MAX_RECORDS = 1000  # that one name may mean; a URL is fetched often, but not so often


def find(dataset: Dataset, text: str) -> tuple[str, list[Json]]:
    """("id" or "name", ledger lines) of what `text` means: an id, or a name of any kind.

    Raises PlanError, with what is near, where no record is meant.
    """
    if not text.strip():
        raise PlanError("which record? want an id, a name, a URL, a PMID, PMCID or DOI, or a place such as a.jsonl@120")
    if HEX_ID.fullmatch(text):
        found = lines_of(dataset, [bytes.fromhex(text)])
        if found:
            return "id", found
    found = lines_of(dataset, ids_of(dataset, meanings_of(text)))
    if not found:
        counted = dataset.manifest["counted_only"]
        listed = f"; {counted} records dropped by type are counted, not listed" if counted else ""
        raise PlanError(f"{dataset.storage.url}: no record has the id or name {text!r}{_near(dataset, text)}{listed}")
    return "name", found


def lines_of(dataset: Dataset, ids: Iterable[bytes]) -> list[Json]:
    """The ledger's lines of these ids, in order."""
    ids = sorted(set(ids))
    found: list[Json] = []
    for part in dataset.manifest["ledger"]["parts"]:
        inside = [id for id in ids if part["rows"] and part["first_id"] <= id.hex() <= part["last_id"]]
        if inside:
            wanted = pc.field("id").isin(pa.array(inside, pa.binary(16)))
            found += table_of(dataset, part, wanted).to_pylist()
    return found


def ids_of(dataset: Dataset, forms: Iterable[str]) -> list[bytes]:
    """The ids of the records that have one of these names. Raises PlanError where they are too many."""
    keys = sorted({name_key(form) for form in forms})
    found: list[bytes] = []
    for part in dataset.manifest["names"]["parts"]:
        inside = [key for key in keys if part["rows"] and part["first_key"] <= f"{key:016x}" <= part["last_key"]]
        if inside:
            wanted = pc.field("key").isin(pa.array(inside, pa.uint64()))
            found += table_of(dataset, part, wanted).column("id").to_pylist()
    if len(found) > MAX_RECORDS:
        raise PlanError(f"{len(found)} records have this name; ask for one of them by its id")
    return found


def table_of(dataset: Dataset, file: Json, wanted: pc.Expression, columns: list[str] | None = None) -> pa.Table:
    """The wanted lines of a sidecar. Raises StorageError where it is missing or damaged."""
    with dataset.storage.open(dataset.key(file["key"])) as stored:
        try:
            # In this thread: one that still read ahead when the process ended has aborted it.
            return pq.read_table(stored, columns=columns, filters=wanted, use_threads=False, pre_buffer=False)
        except (ValueError, OSError) as error:
            raise StorageError(f"{file['key']}: cannot be read as Parquet: {one_line(str(error))}") from error


def _near(dataset: Dataset, text: str) -> str:
    """What the person may have meant, in words."""
    if BEGINNING_OF_ID.fullmatch(text):
        lowest, highest = (bytes.fromhex(text.lower().ljust(32, digit)) for digit in "0f")
        return _ids_between(dataset, lowest, highest)
    for name in similar_to(text):
        if ids_of(dataset, [name]):
            return f"; did you mean {name!r}?"
    return ""


def _ids_between(dataset: Dataset, low: bytes, high: bytes) -> str:
    for part in dataset.manifest["ledger"]["parts"]:
        if part["rows"] and part["first_id"] <= high.hex() and part["last_id"] >= low.hex():
            bounds = [pa.scalar(id, pa.binary(16)) for id in (low, high)]
            wanted = (pc.field("id") >= bounds[0]) & (pc.field("id") <= bounds[1])
            found = table_of(dataset, part, wanted, ["id"]).column("id").to_pylist()
            if found:
                return f"; did you mean {found[0].hex()!r}?"
    return ""
