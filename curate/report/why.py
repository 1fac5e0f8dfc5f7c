"""What became of one record, looked up in the ledger and, where it was kept, in the rows."""

import re
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from curate.core.errors import PlanError, StorageError, one_line
from manifests.layout import ledger_schema
from manifests.manifest import Dataset, open_dataset
from manifests.shape import Json

HEX_ID = re.compile(r"[0-9a-fA-F]{32}")


def why(url: str, id: str) -> Json:
    """Each fate of a record: `{"id", "found_by", "records": [...]}`.

    `id` is the record's id (32 hex digits: only the part of the ledger that can hold it is read) or its
    own name, such as a PMCID (all parts are read, as `found_by` then says). A kept record comes with its
    shard and pieces. Raises: PlanError where no record has this id or name, or no dataset is finished
    there; StorageError where a file is missing or damaged.
    """
    dataset = open_dataset(url)
    parts = dataset.manifest["ledger"]["parts"]
    found_by, found = "id", []
    if HEX_ID.fullmatch(id):
        holding = [part for part in parts if part["rows"] and part["first_id"] <= id.lower() <= part["last_id"]]
        found = _matching(dataset, holding, "id", bytes.fromhex(id))
    if not found:
        found_by, found = "name, after reading all of the ledger", _matching(dataset, parts, "name", id)
    if not found:
        raise PlanError(f"{url}: no record has the id or name {id!r}; records dropped by type are counted, not listed")
    return {"id": id, "found_by": found_by, "records": [_explained(dataset, record) for record in found]}


def _matching(dataset: Dataset, parts: list[Json], column: str, value: bytes | str) -> list[Json]:
    wanted = pc.field(column) == pa.scalar(value, ledger_schema().field(column).type)
    return [record for part in parts for record in _lines(dataset, part, wanted)]


def _lines(dataset: Dataset, file: Json, wanted: pc.Expression) -> list[Json]:
    """The wanted lines of a sidecar; row groups that cannot hold them are not read."""
    with dataset.storage.open(dataset.key(file["key"])) as stored:
        try:
            # In this thread: one that still read ahead when the process ended has aborted it.
            table = pq.read_table(stored, filters=wanted, use_threads=False, pre_buffer=False)
            lines: list[Json] = table.to_pylist()
        except (ValueError, OSError) as error:
            raise StorageError(f"{file['key']}: cannot be read as Parquet: {one_line(str(error))}") from error
    return lines


def _explained(dataset: Dataset, line: Json) -> Json:
    """A ledger line as JSON, without what is null; with shard and pieces where it was kept."""
    record = {name: _plain(value) for name, value in line.items() if value is not None}
    record["numbers"] = {name: value for name, value in line["numbers"] or [] if value is not None}
    if line["fate"] == "kept":
        record |= _place(dataset, line["id"], line["split"], line["row"])
    return record


def _plain(value: Any) -> Any:
    return value.hex() if isinstance(value, bytes) else value


def _place(dataset: Dataset, id: bytes, split: str, row: int) -> Json:
    """Where a kept document stands: the shard of its first piece, and all pieces in order."""
    shards = dataset.manifest["splits"][split]["shards"]
    rows_per_shard = dataset.manifest["format"]["rows_per_shard"]
    home = row // rows_per_shard
    wanted = pc.field("id") == pa.scalar(id, pa.binary(16))
    pieces: list[Json] = []
    document_tokens = None
    # Its other pieces are in the rows of its bucket, hence near, or among the tails at the end.
    for i in sorted(range(len(shards)), key=lambda i: (min(abs(i - home), len(shards) - 1 - i + 2), i)):
        for line in _lines(dataset, shards[i]["docs"], wanted):
            document_tokens = line["document_tokens"]
            place = {"row": i * rows_per_shard + line["row"], "shard": dataset.key(shards[i]["rows"]["key"])}
            pieces.append(place | {name: line[name] for name in ("start", "length", "token_offset")})
        covered = {piece["token_offset"]: piece["length"] for piece in pieces}  # later epochs repeat pieces
        if document_tokens == sum(covered.values()):
            break
    pieces.sort(key=lambda piece: (piece["token_offset"], piece["row"]))
    return {"shard": dataset.key(shards[home]["rows"]["key"]), "document_tokens": document_tokens, "pieces": pieces}
