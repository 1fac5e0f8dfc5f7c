"""Stages as small as they can be, for pipelines that are planned and never run."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar, Literal

import pyarrow as pa

from curate.core.exchange import Exchange, Loop, Reduce, Reply, Send
from curate.core.schema import IDENTITY
from curate.core.stage import Asset, Columns, Filter, InputFile, Map, Reader, Records, Slice

NUMBER = 7


class Order(StrEnum):
    FIRST = "first"
    LONGEST = "longest"


@dataclass(frozen=True)
class Weights:
    title: float = 1.0
    body: int = 2


@dataclass(frozen=True, kw_only=True)
class ReadLines(Reader):
    paths: tuple[str, ...]
    max_record_bytes: int = 1 << 20

    @property
    def adds(self) -> Columns:
        return IDENTITY | {"content": pa.large_binary()}

    def has_entry_points(self, key: str) -> bool:
        return False

    def open(self) -> Callable[[Slice, InputFile], Iterator[Records]]:
        raise NotImplementedError


class TinyMap(Map):
    def open(self) -> Callable[[pa.RecordBatch], pa.RecordBatch]:
        raise NotImplementedError


class TinyFilter(Filter):
    def open(self) -> Callable[[pa.RecordBatch], pa.Array]:
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class Extract(TinyMap):
    reads: ClassVar[tuple[str, ...]] = ("content",)
    removes: ClassVar[tuple[str, ...]] = ("content",)

    tables: Literal["small", "drop"] = "small"

    @property
    def adds(self) -> Columns:
        return {"text": pa.large_string(), "title": pa.string()}


@dataclass(frozen=True, kw_only=True)
class Repair(TinyMap):
    reads: ClassVar[tuple[str, ...]] = ("text",)

    @property
    def adds(self) -> Columns:
        return {"text": pa.large_string(), "num_repairs": pa.int64()}


@dataclass(frozen=True, kw_only=True)
class AddCluster(TinyMap):
    @property
    def adds(self) -> Columns:
        return {"cluster": pa.string(), "text": pa.large_string()}


@dataclass(frozen=True, kw_only=True)
class ReadRow(ReadLines):
    @property
    def adds(self) -> Columns:
        return IDENTITY | {"row": pa.int64()}


@dataclass(frozen=True, kw_only=True)
class Language(TinyMap):
    version: ClassVar[int] = 3
    libraries: ClassVar[tuple[str, ...]] = ("pyarrow",)
    reads: ClassVar[tuple[str, ...]] = ("text",)

    model: Asset | None = None

    @property
    def adds(self) -> Columns:
        return {"language": pa.string()}


@dataclass(frozen=True, kw_only=True)
class Keep(TinyFilter):
    reads: ClassVar[tuple[str, ...]] = ("text",)
    reasons: ClassVar[tuple[str, ...]] = ("short",)

    min_words: int = 50
    min_score: float = 0.5
    is_strict: bool = False
    languages: tuple[str, ...] = ("en",)
    order: Order = Order.FIRST
    weights: Weights = Weights()
    label: str | None = None
    timeout_seconds: float = 60.0

    def __post_init__(self) -> None:
        if self.min_words < 0:
            raise ValueError(f"min_words must not be negative, not {self.min_words}")


@dataclass(frozen=True, kw_only=True)
class KeepColumn(TinyFilter):
    column: str

    def columns_read(self) -> tuple[str, ...]:
        return (self.column,)


@dataclass(frozen=True, kw_only=True)
class NeedsLibrary(TinyFilter):
    libraries: ClassVar[tuple[str, ...]] = ("no-such-library",)


class Unfinished(Map):
    pass


@dataclass(frozen=True, kw_only=True)
class Meet(Exchange):
    def program(self) -> tuple[Send | Reply | Reduce | Loop, ...]:
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class MeetBy(Meet):
    column: str

    def columns_read(self) -> tuple[str, ...]:
        return (self.column,)


@dataclass(frozen=True, kw_only=True)
class Buggy(TinyFilter):
    def __post_init__(self) -> None:
        raise RuntimeError("a bug")
