"""Recounting one shard from its three files, without believing what the manifest says of it."""

import hashlib
from collections import Counter
from dataclasses import dataclass, field, fields

import numpy as np

from curate.core.storage import NotFound, ObjectFile
from manifests.layout import (
    Ints,
    decode_cu,
    decode_rows,
    docs_schema,
    logical_digest,
    shard_name,
)
from manifests.manifest import Dataset
from manifests.pieces import NEVER_NULL, Int64, Pieces, check_tiling, pieces_of
from manifests.problems import Problems, read_file, read_table
from manifests.shape import Json

BLOCK_BYTES = 8 << 20


@dataclass(kw_only=True)
class Counts:
    """What a shard, or a split, holds; the names are those of the manifest's shards."""

    num_rows: int = 0
    tokens: int = 0
    pieces: int = 0
    documents: int = 0  # pieces that begin one
    bos: int = 0
    eos: int = 0
    max_id: int = 0
    rows_by_group: Counter[str] = field(default_factory=Counter)
    tokens_by_source: Counter[str] = field(default_factory=Counter)
    tokens_by_license: Counter[str] = field(default_factory=Counter)

    def add(self, other: "Counts") -> None:
        """Include another shard."""
        for item in fields(self):
            mine, theirs = getattr(self, item.name), getattr(other, item.name)
            setattr(self, item.name, max(mine, theirs) if item.name == "max_id" else mine + theirs)


@dataclass(frozen=True, kw_only=True)
class Recount:
    """What was found in the files of a shard; None where a file could not be read."""

    counts: Counts
    rows_sha256: str | None
    docs_logical: bytes | None
    pieces: Pieces | None


def recount_shard(dataset: Dataset, split: str, index: int, problems: Problems) -> Recount:
    """Read shard `index` of `split` and add to `problems` all that is wrong with it."""
    shard = dataset.manifest["splits"][split]["shards"][index]
    for kind in ("rows", "docs", "cu"):
        name = f"{split}/{shard_name(kind, index, shard[kind]['sha256'])}"
        problems.expect("manifest.json", f"splits.{split}.shards[{index}].{kind}.key", name, shard[kind]["key"])
    counts = Counts()
    logical, pieces = _read_docs(dataset, shard["docs"], problems)
    rows_sha256 = _read_rows(dataset, shard["rows"], pieces, counts, problems)
    if pieces is not None:
        _count_pieces(pieces, counts)
        if rows_sha256 is not None:
            check_tiling(shard["docs"]["key"], pieces, counts.num_rows, _row_length(dataset), problems)
            _check_control_ids(dataset, shard["rows"]["key"], pieces, counts, problems)
    _read_cu(dataset, shard["cu"], pieces, shard["num_rows"], problems)
    if pieces is not None and rows_sha256 is not None:
        for item in fields(counts):
            problems.expect(shard["rows"]["key"], item.name, shard[item.name], getattr(counts, item.name))
    return Recount(counts=counts, rows_sha256=rows_sha256, docs_logical=logical, pieces=pieces)


def _row_length(dataset: Dataset) -> int:
    return int(dataset.manifest["format"]["row_length"])


def _read_docs(dataset: Dataset, file: Json, problems: Problems) -> tuple[bytes | None, Pieces | None]:
    table = read_table(dataset, file, docs_schema(), NEVER_NULL, problems)
    if table is None:
        return None, None
    logical = logical_digest(table)
    problems.expect(file["key"], "logical digest", file["logical"], logical.hex())
    return logical, pieces_of(table)


def _read_rows(dataset: Dataset, file: Json, pieces: Pieces | None, counts: Counts, problems: Problems) -> str | None:
    try:
        rows = dataset.storage.open(dataset.key(file["key"]))
    except NotFound:
        problems.add(file["key"], f"expected {file['bytes']} bytes, found no such file")
        return None
    with rows:
        problems.expect(file["key"], "bytes", file["bytes"], rows.size)
        sha256 = _scan(dataset, file["key"], rows, pieces, counts, problems)
    problems.expect(file["key"], "sha256", file["sha256"], sha256)
    vocab_size = dataset.manifest["tokenizer"]["vocab_size"]
    if counts.max_id >= vocab_size:
        problems.add(file["key"], f"ids: expected all below {vocab_size}, found {counts.max_id}")
    return sha256


def _scan(
    dataset: Dataset, key: str, rows: ObjectFile, pieces: Pieces | None, counts: Counts, problems: Problems
) -> str:
    """Count the tokens of a shard a few MB at a time; the SHA-256 of all its bytes."""
    manifest, length = dataset.manifest, _row_length(dataset)
    dtype, tokenizer = manifest["format"]["dtype"], manifest["tokenizer"]
    row_bytes = length * np.dtype(dtype).itemsize
    counts.num_rows, rest = divmod(rows.size, row_bytes)
    counts.tokens = counts.num_rows * length
    problems.expect(key, f"bytes after the last whole row of {row_bytes} bytes", 0, rest)
    digest = hashlib.sha256()
    step = max(1, BLOCK_BYTES // row_bytes)
    for first in range(0, counts.num_rows, step):
        data = rows.read_range(first * row_bytes, min(step, counts.num_rows - first) * row_bytes)
        digest.update(data)
        block = decode_rows(data, dtype, length)
        counts.max_id = max(counts.max_id, int(block.max()))
        counts.bos += int(np.count_nonzero(block == tokenizer["bos_id"]))
        counts.eos += int(np.count_nonzero(block == tokenizer["eos_id"]))
        if pieces is not None:
            _check_boundaries(dataset, key, block, first, pieces, problems)
    digest.update(rows.read_range(counts.num_rows * row_bytes, rest))
    return digest.hexdigest()


def _check_boundaries(dataset: Dataset, key: str, block: Ints, first: int, pieces: Pieces, problems: Problems) -> None:
    """Every piece that begins (ends) a document has BOS (EOS) there, where the format adds one."""
    last = pieces.start + pieces.length - 1
    inside = (pieces.row >= first) & (pieces.row < first + len(block))
    inside &= (pieces.start <= last) & (last < block.shape[1])
    for name, these, at in (("bos", pieces.begins & inside, pieces.start), ("eos", pieces.ends & inside, last)):
        if dataset.manifest["format"][name] == "document":
            wanted = dataset.manifest["tokenizer"][f"{name}_id"]
            _check_control_id(key, name.upper(), block, first, pieces.row[these], at[these], wanted, problems)


def _check_control_id(
    key: str, name: str, block: Ints, first: int, row: Int64, at: Int64, wanted: int, problems: Problems
) -> None:
    found = block[row - first, at]
    problems.first(
        key,
        f"{name} of documents",
        found != wanted,
        lambda i: f"row {row[i]}, token {at[i]}: expected {wanted}, found {found[i]}",
    )


def _count_pieces(pieces: Pieces, counts: Counts) -> None:
    counts.pieces = len(pieces.row)
    counts.documents = int(np.count_nonzero(pieces.begins))
    first_of_row = np.flatnonzero(np.diff(pieces.row, prepend=-1))
    counts.rows_by_group = _sum_by(pieces.group, first_of_row, np.ones_like(first_of_row))
    everything = np.arange(len(pieces.row))
    counts.tokens_by_source = _sum_by(pieces.source, everything, pieces.length)
    counts.tokens_by_license = _sum_by(pieces.license, everything, pieces.length)


def _sum_by(coded: tuple[Int64, list[str]], chosen: Int64, values: Int64) -> Counter[str]:
    codes, names = coded
    sums = np.zeros(len(names), dtype=np.int64)
    np.add.at(sums, codes[chosen], values)
    return Counter({name: int(total) for name, total in zip(names, sums, strict=True) if total})


def _check_control_ids(dataset: Dataset, key: str, pieces: Pieces, counts: Counts, problems: Problems) -> None:
    """Control ids come from the packer alone: as many as documents begin or end here, none elsewhere."""
    chosen, tokenizer = dataset.manifest["format"], dataset.manifest["tokenizer"]
    begun = counts.documents if chosen["bos"] == "document" else 0
    ended = int(np.count_nonzero(pieces.ends)) if chosen["eos"] == "document" else 0
    same = tokenizer["bos_id"] == tokenizer["eos_id"]
    problems.expect(key, "BOS ids against documents that begin", begun + (ended if same else 0), counts.bos)
    problems.expect(key, "EOS ids against documents that end", ended + (begun if same else 0), counts.eos)


def _read_cu(dataset: Dataset, file: Json, pieces: Pieces | None, num_rows: int, problems: Problems) -> None:
    key = file["key"]
    data = read_file(dataset, file, problems)
    if data is None:
        return
    try:
        row_ptr, starts = decode_cu(data, num_rows, _row_length(dataset))
    except ValueError as error:
        problems.add(key, f"expected piece starts of {num_rows} rows, found {error}")
        return
    if pieces is None or not problems.expect(key, "pieces", len(pieces.row), len(starts)):
        return
    expected = np.searchsorted(pieces.row, np.arange(num_rows + 1))
    problems.first(
        key,
        "row_ptr",
        row_ptr != expected,
        lambda i: f"row {i}: expected {expected[i]} by docs, found {row_ptr[i]}",
    )
    problems.first(
        key,
        "piece starts",
        starts != pieces.start,
        lambda i: f"piece {i}: expected {pieces.start[i]} by docs, found {starts[i]}",
    )
