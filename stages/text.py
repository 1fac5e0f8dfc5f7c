"""Stages about the text itself, apart from what it says."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from curate.core.stage import Filter, first_reason


@dataclass(frozen=True, kw_only=True)
class DropEmpty(Filter):
    """Drops documents without text.

    Reads: text; kind where there is one.
    Drops: no_text (null, empty, or nothing but Unicode white space); deletion_not_applied (the same, of kind
    `deletion`: PubMed withdrew a citation, and the pipeline has no `stages.pubmed.OneDocumentPerPmid`).
    """

    version: ClassVar[int] = 2
    reads: ClassVar[tuple[str, ...]] = ("text",)
    reasons: ClassVar[tuple[str, ...]] = ("no_text", "deletion_not_applied")

    def open(self) -> Callable[[pa.RecordBatch], pa.Array]:
        """The function that judges a batch."""
        return _judge


def _judge(batch: pa.RecordBatch) -> pa.Array:
    text = batch.column("text")
    empty = pc.equal(pc.binary_length(text), 0)
    no_text = pc.fill_null(pc.or_(empty, pc.utf8_is_space(text)), True)
    if "kind" not in batch.schema.names:
        return first_reason({"no_text": no_text})
    is_deletion = pc.and_(no_text, pc.equal(batch.column("kind"), "deletion"))
    return first_reason({"deletion_not_applied": is_deletion, "no_text": no_text})
