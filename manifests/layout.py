"""The bytes of a dataset: names, rows, piece starts, document tables, and what their digests cover.

Imports with the standard library and numpy; pyarrow is loaded by the functions that touch tables.
"""

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from curate.core.hashing import canonical_json
from manifests.table_digest import TableDigest

Ints = NDArray[np.integer[Any]]

MAX_U16_LENGTH = 1 << 16  # rows up to this long have starts that fit 16 bits
MAX_U16_VOCAB = 1 << 16
UNKNOWN_LICENSE = "unknown"  # how tokens of documents that state none are counted


def token_dtype(vocab_size: int) -> str:
    """The narrowest little-endian type that holds every id below `vocab_size`."""
    return "<u2" if vocab_size <= MAX_U16_VOCAB else "<u4"


def shard_name(kind: str, index: int, sha256: str) -> str:
    """File name of a shard's `rows`, `docs` or `cu`."""
    return f"{kind}-{index:05d}.{sha256}"


def ledger_name(index: int, sha256: str) -> str:
    """File name of a part of the ledger."""
    return f"part-{index:05d}.{sha256}.parquet"


def names_name(index: int, sha256: str) -> str:
    """File name of a part of the index of names."""
    return f"names-{index:05d}.{sha256}.parquet"


def encode_rows(rows: Ints, dtype: str) -> memoryview:
    """Rows (num_rows, length) as headerless little-endian tokens; not copied where they have this dtype already.

    Raises: ValueError where a token does not fit `dtype`.
    """
    if rows.size and not 0 <= int(rows.min()) <= int(rows.max()) <= np.iinfo(dtype).max:
        raise ValueError(f"tokens {rows.min()}..{rows.max()} do not fit {dtype}")
    return np.ascontiguousarray(rows, dtype=dtype).reshape(-1).view(np.uint8).data


def decode_rows(data: bytes | memoryview, dtype: str, length: int) -> Ints:
    """The rows in `data`, (num_rows, length), as a view that cannot be written to.

    Raises: ValueError where `data` is not whole rows.
    """
    if len(data) % (row_bytes := length * np.dtype(dtype).itemsize):
        raise ValueError(f"{len(data)} bytes are not whole rows of {row_bytes} bytes")
    return np.frombuffer(data, dtype=dtype).reshape(-1, length)


def encode_cu(row: Ints, start: Ints, num_rows: int, row_length: int) -> bytes:
    """Where the pieces of each row start, for pieces sorted by (row, start).

    u32 row_ptr[num_rows + 1], then the starts as u16 (u32 in rows longer than 65,536): the pieces of
    row r start at starts[row_ptr[r]:row_ptr[r + 1]].
    """
    row_ptr = np.searchsorted(row, np.arange(num_rows + 1)).astype("<u4")
    return row_ptr.tobytes() + start.astype(_start_dtype(row_length)).tobytes()


def decode_cu(data: bytes, num_rows: int, row_length: int) -> tuple[NDArray[np.uint32], Ints]:
    """(row_ptr, starts) as `encode_cu` wrote them.

    Raises: ValueError where the size does not fit, or row_ptr is not a non-decreasing list from 0.
    """
    head = 4 * (num_rows + 1)
    if num_rows < 0 or len(data) < head:
        raise ValueError(f"{len(data)} bytes are too few for {num_rows} rows")
    row_ptr = np.frombuffer(data[:head], dtype="<u4")
    if row_ptr[0] != 0 or (row_ptr[1:] < row_ptr[:-1]).any():
        raise ValueError("row_ptr does not begin at 0 or decreases")
    size = head + int(row_ptr[-1]) * np.dtype(_start_dtype(row_length)).itemsize
    if len(data) != size:
        raise ValueError(f"{len(data)} bytes, {size} by row_ptr")
    return row_ptr, np.frombuffer(data[head:], dtype=_start_dtype(row_length))


def _start_dtype(row_length: int) -> str:
    return "<u2" if row_length <= MAX_U16_LENGTH else "<u4"


def docs_schema() -> Any:
    """Arrow schema of a shard's document table: one line a piece, sorted by (row, start)."""
    import pyarrow as pa

    from curate.core.schema import ORIGIN

    numbers = [("row", pa.uint32()), ("start", pa.uint32()), ("length", pa.uint32())]
    numbers += [("token_offset", pa.uint64()), ("document_tokens", pa.uint64())]
    names = ("source", "name", "url", "title", "language", "license", "date", "kind")
    group = [("group", pa.string()), ("id", pa.binary(16))]
    return pa.schema([*numbers, *group, *((name, pa.string()) for name in names), ("origin", ORIGIN)])


def ledger_schema() -> Any:
    """Arrow schema of the ledger: one line a record, sorted by (id, fate)."""
    import pyarrow as pa

    from curate.core.schema import ORIGIN

    fates = [(name, pa.string()) for name in ("fate", "stage", "reason", "detail")]
    where = [("split", pa.string()), ("row", pa.uint64())]
    record = [("id", pa.binary(16)), ("name", pa.string()), ("source", pa.string()), ("origin", ORIGIN)]
    return pa.schema(
        [*record, *fates, ("kept_id", pa.binary(16)), ("numbers", pa.map_(pa.string(), pa.float64())), *where]
    )


def names_schema() -> Any:
    """Arrow schema of the index of names: one line a (name, record), sorted by (key, id).

    `key` is `curate.core.hashing.name_key` of a form that `curate.core.names` gives of the name.
    """
    import pyarrow as pa

    return pa.schema([("key", pa.uint64()), ("id", pa.binary(16))])


REPETITIVE = ["row", "length", "document_tokens", "group", "source", "language", "license", "date", "kind"]
REPETITIVE += ["fate", "stage", "reason", "split"]


def encode_parquet(table: Any) -> bytes:
    """A sidecar table as Parquet with zstd, read back and compared.

    Raises: OSError where what was written does not read back as it was (apache/arrow#47973).
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    sink = pa.BufferOutputStream()
    dictionary = [name for name in table.schema.names if name in REPETITIVE]
    pq.write_table(table, sink, compression="zstd", use_dictionary=dictionary, row_group_size=1 << 16)
    data = sink.getvalue()
    if not pq.read_table(pa.BufferReader(data)).equals(table):
        raise OSError(f"Parquet of {table.num_rows} lines does not read back as it was written")
    return bytes(data)


def decode_parquet(data: bytes, columns: list[str] | None = None) -> Any:
    """The table in a Parquet file, checked in full (strings must be UTF-8).

    Raises: ValueError, of one line, where there is none.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(pa.BufferReader(data), columns=columns)
        table.validate(full=True)
    except (pa.ArrowException, OSError) as error:
        raise ValueError(" ".join(str(error).split())) from error
    return table


def id_array(column: Any) -> NDArray[np.bytes_]:
    """A chunked column of 16-byte ids as `S16`, which compares as bytes do; null is all zeros."""
    if not len(column):
        return np.empty(0, dtype="S16")
    array = column.fill_null(bytes(16)).combine_chunks()
    return np.frombuffer(array.buffers()[1], dtype="S16")[array.offset : array.offset + len(array)]


def split_digest(
    format: Mapping[str, Any], tokenizer_sha256: str, rows_sha256: Iterable[str], docs_logical: Iterable[bytes]
) -> str:
    """Digest of a split: what a trainer reads of it, and which documents it is made of.

    `rows_sha256` and `docs_logical` are those of its shards, in order.
    """
    docs = hashlib.sha256(b"".join(docs_logical)).hexdigest()
    return hashlib.sha256(canonical_json([dict(format), tokenizer_sha256, list(rows_sha256), docs])).hexdigest()


def logical_digest(table: Any) -> bytes:
    """SHA-256 of what a table says, whatever its chunks, slices, dictionaries or pyarrow's version."""
    digest = TableDigest()
    digest.update(table)
    return digest.digest()
