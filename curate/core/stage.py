"""The families of stages. A stage is a frozen value whose fields are its YAML options.

`open()` loads what is costly, once a worker, and returns a pure function: no clock, no global
random state, no environment. Chance is `curate.core.hashing.order_key(seed, id)`.

    Reader   slice -> documents, counted drops, quarantined records, accounted bytes
    Map      batch -> batch: rows kept in order, declared columns added or removed
    Filter   batch -> one declared reason or null a row; the engine drops, counts and records
    Summary  all documents -> one small table, handed to the stage that names it: see curate.core.summary
    Exchange documents of all units meet by key, and verdicts go home: see curate.core.exchange

A stage that meets a bad record raises `DataError(reason)`: the engine runs the rows of that batch
alone, quarantines the bad ones and keeps their neighbors. Any other exception is a bug and stops
the run, naming the stage.
"""

import abc
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Protocol

import pyarrow as pa
import pyarrow.compute as pc

Columns = Mapping[str, pa.DataType]


@dataclass(frozen=True)
class Asset:
    """A file that a stage loads: a model or a list.

    In YAML a path relative to the file, or `package:file` for a file inside an installed package.
    The plan resolves it; its SHA-256, not its place, enters the key.
    """

    location: str
    sha256: str = ""


@dataclass(frozen=True)
class Input:
    """One stored object of a source: key below the source's root, bytes, ETag or mtime_ns."""

    key: str
    size: int
    tag: str


@dataclass(frozen=True)
class Slice:
    """A byte range of one input. It owns the records whose first byte lies in [start, stop).

    `proven`: a record (or the input) is known to begin at `start`, so read from there; else
    search for the first entry point at or after `start`, and before `stop`.
    """

    input: Input
    start: int
    stop: int
    proven: bool


class InputFile(Protocol):
    """Random access to one input, pinned to the version that the plan saw.

    It is also a seekable binary file (an `io.RawIOBase`), so that pyarrow.parquet, gzip, tarfile,
    zstandard and io.BufferedReader can read it. `read_range` neither uses nor moves the position.
    """

    @property
    def size(self) -> int:
        """Bytes."""

    def read_range(self, offset: int, length: int) -> bytes:
        """The bytes [offset, offset + length), fewer only at the end of the input."""

    def read(self, size: int = -1, /) -> bytes:
        """The next `size` bytes, fewer only at the end of the input; all that is left if negative."""

    # The rest is as in io.RawIOBase.
    def seek(self, offset: int, whence: int = 0, /) -> int: ...
    def tell(self) -> int: ...
    def readinto(self, buffer: memoryview, /) -> int | None: ...
    def readable(self) -> bool: ...
    def seekable(self) -> bool: ...
    def truncate(self, size: int, /) -> int: ...
    def flush(self) -> object: ...
    def close(self) -> object: ...
    @property
    def closed(self) -> bool: ...


@dataclass(frozen=True, kw_only=True)
class Quarantined:
    """A record that could not be read: where it lies and why."""

    id: bytes
    name: str
    origin: dict[str, Any]  # as schema.ORIGIN, without `source`
    reason: str
    detail: str = ""


@dataclass(frozen=True, kw_only=True)
class Records:
    """What a reader made of one stretch [first, end) of an input.

    Stretches follow each other without gaps. An input that is read as one compressed stream gives
    (0, 0) until its last stretch, (0, size). `content_bytes` counts the bytes that were looked at,
    by position (stored bytes) or as the decompressor gave them (a stream); the four kinds of bytes
    must add up to it. `num_records` counts records as framed, apart from what became of them.
    """

    batch: pa.RecordBatch
    num_records: int
    drops: Mapping[str, int]  # reason -> records; such records are counted only
    quarantined: tuple[Quarantined, ...]
    first: int
    end: int
    content_bytes: int
    record_bytes: int
    framing_bytes: int
    skipped_bytes: int  # read and deliberately not used (other record types, other archive members)
    lost_bytes: int  # damage


class Stage(abc.ABC):  # noqa: B024 - each family has its own method
    """Base of all families. Subclasses are frozen keyword-only dataclasses."""

    version: ClassVar[int] = 1  # raise it when the output changes: it enters the key
    libraries: ClassVar[tuple[str, ...]] = ()  # distributions whose versions enter the key

    def options(self) -> dict[str, Any]:
        """The fields, by name, in order of declaration."""
        return {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]

    def check_columns(self, columns: Columns) -> None:  # noqa: B027 - most have nothing to check
        """Raises ValueError where it cannot use one of the columns that it finds: another type."""


class Reader(Stage):
    """Inputs to documents. Every reader has a field `paths`."""

    paths: tuple[str, ...]
    bytes_per_second: ClassVar[int] = 20_000_000  # stored bytes one core reads, to size units

    @property
    @abc.abstractmethod
    def adds(self) -> Columns:
        """The columns of its batches."""

    @abc.abstractmethod
    def has_entry_points(self, key: str) -> bool:
        """Whether reading can start inside an input of this name."""

    @abc.abstractmethod
    def open(self) -> Callable[[Slice, InputFile], Iterator[Records]]:
        """The function that reads a slice. Batches hold at most a few MB."""


class Map(Stage):
    """Batch to batch: the same rows in the same order, `adds` set, `removes` gone."""

    reads: ClassVar[tuple[str, ...]] = ()
    removes: ClassVar[tuple[str, ...]] = ()

    @property
    @abc.abstractmethod
    def adds(self) -> Columns:
        """Columns that are new or replaced, with their types."""

    def columns_read(self) -> tuple[str, ...]:
        """The columns that must exist; depends on options where a stage overrides it."""
        return self.reads

    @abc.abstractmethod
    def open(self) -> Callable[[pa.RecordBatch], pa.RecordBatch]:
        """The function that maps a batch."""


class Filter(Stage):
    """Batch to one declared reason or null a row.

    What `open` gives may have a method `details`: rows that it dropped to a text each, for the ledger.
    """

    reads: ClassVar[tuple[str, ...]] = ()
    reasons: ClassVar[tuple[str, ...]] = ()
    # Reason -> (column, option) where the reason holds a stored number against an option: `curate why` shows both.
    limits: ClassVar[Mapping[str, tuple[str, str]]] = {}

    def columns_read(self) -> tuple[str, ...]:
        """The columns that must exist; depends on options where a stage overrides it."""
        return self.reads

    @abc.abstractmethod
    def open(self) -> Callable[[pa.RecordBatch], pa.Array]:
        """The function that judges a batch: an array of strings, null keeps the row."""


def with_columns(batch: pa.RecordBatch, added: Mapping[str, pa.Array], removed: tuple[str, ...] = ()) -> pa.RecordBatch:
    """`batch` with columns set (in place where the name exists, else appended) and removed."""
    columns = {name: batch.column(name) for name in batch.schema.names if name not in removed}
    columns.update(added)
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def first_reason(failed: Mapping[str, pa.Array]) -> pa.Array:
    """What a Filter returns: for each row the first reason whose mask holds, else null. A null in a mask is false."""
    reasons = [pa.scalar(reason, pa.string()) for reason in failed]
    return pc.case_when(pc.make_struct(*failed.values(), field_names=list(failed)), *reasons)
