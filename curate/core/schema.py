"""The document table: the columns that travel between stages, their Arrow types and meaning."""

import pyarrow as pa

ORIGIN = pa.struct(
    [
        pa.field("source", pa.string()),  # name of the reading node
        pa.field("key", pa.string()),  # key of the input below the source's root
        pa.field("offset", pa.int64()),  # first stored byte to read
        pa.field("length", pa.int64()),  # stored bytes to read (and decompress)
        pa.field("inner", pa.int64()),  # where the record begins in what these bytes decompress to
    ]
)

# Every reader gives these; `text` where it has text already, else raw bytes in `content`.
IDENTITY: dict[str, pa.DataType] = {
    "id": pa.binary(16),  # see curate.core.hashing.record_id
    "name": pa.string(),  # the record's own id, for people
    "record_hash": pa.binary(16),  # xxh3_128 of the raw record: same id and other hash is a conflict
    "source": pa.string(),  # filled in by the engine
    "origin": ORIGIN,  # `source` filled in by the engine
}

OPTIONAL: dict[str, pa.DataType] = {
    "text": pa.large_string(),
    "content": pa.large_binary(),  # the record's payload before extraction
    "url": pa.string(),
    "title": pa.string(),
    "language": pa.string(),
    "language_score": pa.float32(),
    "license": pa.string(),
    "date": pa.string(),  # ISO 8601, as exact as the source states it
    "kind": pa.string(),  # media type, or article type
    "charset": pa.string(),  # of `content`, as its transport declared it
}

DOCUMENT: dict[str, pa.DataType] = IDENTITY | OPTIONAL

# What is kept of a document once its text has become tokens.
SIDECAR: tuple[str, ...] = ("name", "url", "title", "language", "license", "date", "kind")


def schema_of(columns: dict[str, pa.DataType]) -> pa.Schema:
    """An Arrow schema of `columns`, in their order."""
    return pa.schema(list(columns.items()))
