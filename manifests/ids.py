"""Comparing the documents in the rows with the kept records of the ledger, id by id, in bounded memory.

What the shards say of each piece is spilled to 256 temporary files by the first byte of its id; the
ledger is sorted by id, so it is read once more, one such byte after the other. All comparisons are
exact. Memory holds 1/256 of the pieces and a part of the ledger; the disk 50 bytes a piece.
"""

import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from manifests.layout import id_array
from manifests.ledger import hex_id, ledger_columns
from manifests.manifest import Dataset
from manifests.pieces import Pieces
from manifests.problems import Problems

Records = NDArray[np.void]

NUM_BUCKETS = 256
IN_MEMORY_BYTES = 1 << 18  # of a bucket, before it goes to disk
PIECE = np.dtype(
    [("id", "S16"), *((name, "<i8") for name in ("token_offset", "length", "document_tokens", "split", "row"))]
)
ENTRY = np.dtype([("id", "S16"), ("kept", "?"), ("anchor", "?"), ("split", "<i8"), ("row", "<i8")])
TARGET = np.dtype([("id", "S16")])


class Buckets:
    """Fixed-width records by the first byte of their id, in memory while few, else in temporary files.

    A context: the files go away with it.
    """

    def __init__(self, dtype: np.dtype[np.void]) -> None:
        self._dtype = dtype
        self._files = [tempfile.SpooledTemporaryFile(IN_MEMORY_BYTES) for _ in range(NUM_BUCKETS)]  # noqa: SIM115

    def __enter__(self) -> "Buckets":
        return self

    def __exit__(self, *_: object) -> None:
        for file in self._files:
            file.close()

    def add(self, records: Records) -> None:
        """Append records to their buckets."""
        keys = first_bytes(records["id"])
        order = np.argsort(keys, kind="stable")
        bounds = np.searchsorted(keys[order], np.arange(NUM_BUCKETS + 1))
        for bucket in np.flatnonzero(np.diff(bounds)):
            self._files[bucket].write(records[order[bounds[bucket] : bounds[bucket + 1]]].tobytes())

    def read(self, bucket: int) -> Records:
        """The records of a bucket."""
        file = self._files[bucket]
        file.seek(0)
        return np.frombuffer(file.read(), dtype=self._dtype)


def piece_records(pieces: Pieces, split: int, first_row: int) -> Records:
    """The pieces of one shard of the split of this number, whose first row is `first_row` of the split."""
    records = np.zeros(len(pieces.row), dtype=PIECE)
    for name in ("id", "token_offset", "length", "document_tokens"):
        records[name] = getattr(pieces, name)
    records["split"] = split
    records["row"] = first_row + pieces.row
    return records


@dataclass(kw_only=True)
class Tokens:
    """Tokens of the documents in rows: those that stand there, again in later epochs, and not at all."""

    distinct: int = 0
    repeated: int = 0
    absent: int = 0
    documents: Counter[str] = field(default_factory=Counter)  # by split


def compare_ids(dataset: Dataset, splits: list[str], pieces: Buckets, problems: Problems) -> Tokens:
    """Add to `problems` where documents and ledger differ, and count tokens and documents.

    `pieces` are those of all shards, splits numbered as in `splits`. The ledger is readable and sorted.
    """
    tokens = Tokens()
    whole = dataset.manifest["tokens"]["not_needed"] == 0  # a mix may leave out rows, and so parts of documents
    with Buckets(TARGET) as targets:
        for _, named in _entries(dataset, splits):
            targets.add(named)
        for bucket, entries in _by_first_byte(dataset, splits):
            found, wanted = pieces.read(bucket), targets.read(bucket)["id"]
            if not (len(found) or len(wanted) or len(entries)):
                continue
            documents = _documents(found, whole, tokens, problems)
            tokens.documents.update(splits[document["split"]] for document in documents)
            _check_kept(documents, entries[entries["kept"]], splits, problems)
            _check_targets(wanted, entries, problems)
    return tokens


def first_bytes(ids: NDArray[np.bytes_]) -> NDArray[np.uint8]:
    """The first byte of each id."""
    return np.ascontiguousarray(ids).view(np.uint8).reshape(-1, 16)[:, 0]


def _changes(values: NDArray[np.generic]) -> NDArray[np.bool_]:
    """Where a value differs from the one before it, the first of all included."""
    return np.append(True, values[1:] != values[:-1])[: len(values)]


def _documents(pieces: Records, whole: bool, tokens: Tokens, problems: Problems) -> Records:
    """The first piece of each document; repeated ones are counted apart."""
    pieces = pieces[np.lexsort((pieces["row"], pieces["split"], pieces["token_offset"], pieces["id"]))]
    again = ~(_changes(pieces["id"]) | _changes(pieces["token_offset"]) | _changes(pieces["length"]))
    for name in ("document_tokens", "split"):
        _check_same(name, pieces, _changes(pieces["id"]), problems)
    tokens.repeated += int(pieces["length"][again].sum())
    pieces = pieces[~again]
    first = _changes(pieces["id"])
    _check_continuity(pieces, first, whole, problems)
    tokens.distinct += int(pieces["length"].sum())
    tokens.absent += int(pieces["document_tokens"][first].sum() - pieces["length"].sum())
    return pieces[first]


def _check_continuity(pieces: Records, first: NDArray[np.bool_], whole: bool, problems: Problems) -> None:
    """The pieces of a document do not overlap and, where nothing was left out, lie end to end."""
    ids, offset, stop = pieces["id"], pieces["token_offset"], pieces["token_offset"] + pieces["length"]
    expected = np.where(first, 0, np.roll(stop, 1))
    problems.first(
        "docs",
        "pieces of a document",
        offset != expected if whole else offset < expected,
        lambda i: f"{hex_id(ids[i])}: expected one at its token {expected[i]}, found {offset[i]}",
    )


def _check_same(name: str, pieces: Records, first: NDArray[np.bool_], problems: Problems) -> None:
    values = pieces[name]
    problems.first(
        "docs",
        f"{name} of a document",
        ~first & (values != np.roll(values, 1)),
        lambda i: f"{hex_id(pieces['id'][i])}: expected {values[i - 1]}, found {values[i]}",
    )


def _check_kept(docs: Records, kept: Records, splits: list[str], problems: Problems) -> None:
    """The ledger keeps the documents that stand in rows, each once, and knows where the first piece is."""

    def place(record: Records) -> str:
        name = splits[record["split"]] if record["split"] >= 0 else "of no split"
        return f"{name} row {record['row']}"

    problems.first(
        "ledger",
        "kept twice",
        ~_changes(kept["id"]),
        lambda i: f"{hex_id(kept['id'][i])}: expected once, found again",
    )
    problems.first(
        "docs",
        "kept records",
        ~np.isin(kept["id"], docs["id"]),
        lambda i: f"{hex_id(kept['id'][i])}: expected in {place(kept[i])} by the ledger, found nowhere",
    )
    problems.first(
        "ledger",
        "documents in rows",
        ~np.isin(docs["id"], kept["id"]),
        lambda i: f"{hex_id(docs['id'][i])} in {place(docs[i])}: expected kept, found no such record",
    )
    _, in_docs, in_kept = np.intersect1d(docs["id"], kept["id"], return_indices=True)
    there, said = docs[in_docs], kept[in_kept]
    problems.first(
        "ledger",
        "row of a kept record",
        (there["split"] != said["split"]) | (there["row"] != said["row"]),
        lambda i: f"{hex_id(said['id'][i])}: expected {place(there[i])} by docs, found {place(said[i])}",
    )


def _check_targets(targets: NDArray[np.bytes_], entries: Records, problems: Problems) -> None:
    """A merged record names one that the ledger has, and not only as merged into itself."""
    problems.first(
        "ledger",
        "kept_id",
        ~np.isin(targets, entries["id"][entries["anchor"]]),
        lambda i: f"expected a record {hex_id(targets[i])}, found none",
    )


def _entries(dataset: Dataset, splits: list[str]) -> Iterator[tuple[Records, Records]]:
    """Each part of the ledger as entries, and the ids that its merged records name."""
    codes = {name: i for i, name in enumerate(splits)}
    for part in dataset.manifest["ledger"]["parts"]:
        table = ledger_columns(dataset, part, ["id", "fate", "kept_id", "split", "row"])
        fates = np.array(table.column("fate").to_pylist(), dtype=np.str_)
        kept_ids = id_array(table.column("kept_id"))
        entries = np.zeros(table.num_rows, dtype=ENTRY)
        entries["id"] = id_array(table.column("id"))
        entries["kept"] = fates == "kept"
        entries["anchor"] = (fates != "merged") | (entries["id"] != kept_ids)
        entries["split"] = [codes.get(name, -1) for name in table.column("split").to_pylist()]
        entries["row"] = table.column("row").fill_null(0).to_numpy()
        targets = np.zeros(int(np.count_nonzero(fates == "merged")), dtype=TARGET)
        targets["id"] = kept_ids[fates == "merged"]
        yield entries, targets


def _by_first_byte(dataset: Dataset, splits: list[str]) -> Iterator[tuple[int, Records]]:
    """The entries of a sorted ledger by the first byte of their ids, all 256 of them."""
    nothing = np.zeros(0, dtype=ENTRY)
    pending, bucket = nothing, 0
    for entries, _ in _entries(dataset, splits):
        bounds = np.searchsorted(first_bytes(entries["id"]), np.arange(NUM_BUCKETS + 1))
        while bucket < NUM_BUCKETS and bounds[bucket + 1] < len(entries):
            yield bucket, np.concatenate([pending, entries[bounds[bucket] : bounds[bucket + 1]]])
            pending, bucket = nothing, bucket + 1
        pending = np.concatenate([pending, entries[bounds[bucket] :]])
    for left in range(bucket, NUM_BUCKETS):
        yield left, pending
        pending = nothing
