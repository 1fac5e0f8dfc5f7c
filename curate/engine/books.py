"""The books of one document unit: records and bytes, each side counted where it happens."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from curate.core.errors import BalanceError, StageError
from curate.core.stage import Records, Slice

BYTE_KINDS = ("record", "framing", "skipped", "lost")


@dataclass
class SliceBook:
    """Bytes and records of one slice, as the reader gives them."""

    piece: Slice
    first: int | None = None
    end: int = 0
    records: int = 0
    content: int = 0
    kinds: Counter[str] = field(default_factory=Counter)

    def read(self, reader: str, records: Records) -> None:
        """Enter one stretch. Raises StageError where it does not follow the last, or does not add up."""
        if self.first is None:
            self.first = records.first
        elif records.first != self.end:
            raise StageError(
                f"{reader}: {self.piece.input.key}: a stretch begins at {records.first}, the last ended at {self.end}"
            )
        kinds = {kind: getattr(records, f"{kind}_bytes") for kind in BYTE_KINDS}
        if sum(kinds.values()) != records.content_bytes:
            raise StageError(
                f"{reader}: {self.piece.input.key}: {kinds} do not add up to {records.content_bytes} bytes read"
            )
        self.end = records.end
        self.records += records.num_records
        self.content += records.content_bytes
        self.kinds.update(kinds)

    def facts(self) -> dict[str, Any]:
        """For the receipt."""
        return {
            "key": self.piece.input.key,
            "start": self.piece.start,
            "stop": self.piece.stop,
            "first": self.piece.stop if self.first is None else self.first,
            "end": self.piece.stop if self.first is None else self.end,
            "records": self.records,
            "content": self.content,
            **{kind: self.kinds[kind] for kind in BYTE_KINDS},
        }


class Books:
    """What came in and what became of it, by stage and reason."""

    def __init__(self) -> None:
        self.slices: list[SliceBook] = []
        self.drops: dict[str, Counter[str]] = {}
        self.quarantined: dict[str, Counter[str]] = {}
        self.merged: dict[str, Counter[str]] = {}
        self.counted_only = 0
        self.received = 0  # documents that a later pass found at home
        self.sent = 0

    def open_slice(self, piece: Slice) -> SliceBook:
        """Begin a slice."""
        self.slices.append(SliceBook(piece))
        return self.slices[-1]

    def drop(self, stage: str, reasons: Mapping[str, int]) -> None:
        """Enter dropped records."""
        if reasons:
            self.drops.setdefault(stage, Counter()).update(reasons)

    def merge(self, stage: str, reasons: Mapping[str, int]) -> None:
        """Enter records merged into others."""
        self.merged.setdefault(stage, Counter()).update(reasons)

    def quarantine(self, stage: str, reason: str, num_records: int = 1) -> None:
        """Enter quarantined records."""
        self.quarantined.setdefault(stage, Counter())[reason] += num_records

    def close(self, phase: str) -> dict[str, Any]:
        """The facts, once the records balance. Raises BalanceError."""
        num_in = self.received + sum(book.records for book in self.slices)
        gone = {name: getattr(self, name) for name in ("drops", "merged", "quarantined")}
        counts = {name: sum(reasons.total() for reasons in stages.values()) for name, stages in gone.items()}
        if num_in != self.sent + sum(counts.values()):
            raise BalanceError(f"{phase}: {num_in} records in, but {self.sent} passed on and {counts}")
        facts = {name: {stage: dict(reasons) for stage, reasons in stages.items()} for name, stages in gone.items()}
        slices = [book.facts() for book in self.slices]
        return {"slices": slices, "in": num_in, "sent": self.sent, "counted_only": self.counted_only, **facts}
