"""Which of several documents is kept, as a number that travels with each of them; and among which one is sought."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import xxhash
from numpy.typing import NDArray

Preference = Literal["source_order", "longest", "newest", "highest"]
Scope = Literal["global", "source", "dump", "group"]

# Of the 64 bits of a preference. A text of 256 MiB or more is as long as any other such text.
BITS: dict[str, int] = {"source_order": 16, "longest": 28, "newest": 20, "highest": 32}
MAX_BITS = 64
DAYS_PER_MONTH, DAYS_PER_YEAR = 32, 13 * 32  # of a calendar that only orders; 20 bits of it are 2,520 years


@dataclass(frozen=True)
class Order:
    """Documents in the order in which they are kept; ties by id."""

    keep: tuple[Preference, ...]
    score: str | None = None  # the column of `highest`

    def check(self) -> None:
        """Raises ValueError for orders that contradict each other."""
        if len(set(self.keep)) != len(self.keep):
            raise ValueError(f"keep names one order twice: {', '.join(self.keep)}")
        if ("highest" in self.keep) != (self.score is not None):
            raise ValueError("keep: highest and score, the column that it compares, are given together")
        num_bits = sum(BITS[name] for name in self.keep)
        if num_bits > MAX_BITS:
            raise ValueError(f"keep: {', '.join(self.keep)} take {num_bits} bits of {MAX_BITS}; leave one out")

    def columns(self) -> tuple[str, ...]:
        """The columns that must exist."""
        return (("date",) if "newest" in self.keep else ()) + ((self.score,) if self.score else ())

    def numbers(self, batch: pa.RecordBatch) -> NDArray[np.uint64]:
        """A number a document, smaller for those that are kept first. Shape: (documents,)."""
        preference = np.zeros(batch.num_rows, np.uint64)
        for name in self.keep:
            most = np.uint64((1 << BITS[name]) - 1)
            preference = preference << np.uint64(BITS[name]) | np.minimum(self._number(name, batch, most), most)
        return preference

    def _number(self, name: str, batch: pa.RecordBatch, most: np.uint64) -> NDArray[np.uint64]:
        if name == "source_order":
            return _numbers(batch.column("rank"))
        if name == "longest":
            return most - np.minimum(_numbers(pc.fill_null(pc.binary_length(batch.column("text")), 0)), most)
        if name == "newest":
            return most - np.minimum(_day_numbers(batch.column("date")), most)
        return most - _score_numbers(batch.column(str(self.score)))


def _numbers(column: pa.Array) -> NDArray[np.uint64]:
    return np.asarray(column.to_numpy(zero_copy_only=False)).astype(np.uint64)


def _day_numbers(dates: pa.Array) -> NDArray[np.uint64]:
    """A number that ascends with ISO dates, however exact these are; 0 without one."""
    dates = pc.fill_null(dates, "")
    found = pc.extract_regex(dates, r"^(?P<year>[0-9]{4})(?:-(?P<month>[0-9]{2})(?:-(?P<day>[0-9]{2}))?)?")
    number = np.zeros(len(dates), np.uint64)
    for name, days in (("year", DAYS_PER_YEAR), ("month", DAYS_PER_MONTH), ("day", 1)):
        part = pc.fill_null(pc.struct_field(found, name), "")
        number += _numbers(pc.if_else(pc.equal(part, ""), "0", part).cast(pa.int64())) * np.uint64(days)
    return number


def _score_numbers(scores: pa.Array) -> NDArray[np.uint64]:
    """A number of 32 bits that ascends with scores; 0 without one."""
    values = np.asarray(pc.fill_null(scores.cast(pa.float32()), float("nan")).to_numpy(zero_copy_only=False)) + 0.0
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    ordered = np.where(bits >> 31, ~bits, bits | np.uint32(1 << 31)).astype(np.uint64)
    return np.where(np.isnan(values), np.uint64(0), ordered)


def scope_numbers(scope: Scope, num_groups: int, batch: pa.RecordBatch) -> NDArray[np.uint64]:
    """A number a document, equal within one scope: of the source, of the input's first folder, or of a group."""
    if scope == "global":
        return np.zeros(batch.num_rows, np.uint64)
    keys = pc.struct_field(batch.column("origin"), "key") if scope != "source" else pa.nulls(batch.num_rows)
    places = zip(batch.column("rank").to_pylist(), keys.to_pylist(), strict=True)
    hashes = [xxhash.xxh3_64_intdigest(_scope_name(scope, num_groups, *place).encode()) for place in places]
    return np.array(hashes, np.uint64)


def _scope_name(scope: Scope, num_groups: int, rank: int, key: Any) -> str:
    if scope == "source":
        return str(rank)
    if scope == "dump":
        return f"{rank}/{key.partition('/')[0] if '/' in key else ''}"
    return str(xxhash.xxh3_64_intdigest(f"{rank}/{key}".encode()) % num_groups)
