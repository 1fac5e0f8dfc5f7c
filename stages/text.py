"""Stages about the text itself, apart from what it says."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from curate.core.stage import Filter


@dataclass(frozen=True, kw_only=True)
class DropEmpty(Filter):
    """Drops documents without text.

    Reads: text.
    Drops: no_text (null, empty, or nothing but Unicode white space).
    """

    reads: ClassVar[tuple[str, ...]] = ("text",)
    reasons: ClassVar[tuple[str, ...]] = ("no_text",)

    def open(self) -> Callable[[pa.RecordBatch], pa.Array]:
        """The function that judges a batch."""
        return _judge


def _judge(batch: pa.RecordBatch) -> pa.Array:
    text = batch.column("text")
    empty = pc.equal(pc.binary_length(text), 0)
    no_text = pc.fill_null(pc.or_(empty, pc.utf8_is_space(text)), True)
    return pc.if_else(no_text, pa.scalar("no_text"), pa.scalar(None, pa.string()))
