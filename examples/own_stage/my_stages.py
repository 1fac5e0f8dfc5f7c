"""A stage of one's own: copy this file, rename the class, change what it measures; see docs/own-stage.md."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from curate.core.stage import Filter, first_reason


@dataclass(frozen=True, kw_only=True)
class DropShouting(Filter):
    """Drops documents in which too many letters are capitals.

    Reads: text.
    Drops: shouting.
    Source: the limit is a choice; in 21 English speeches and stories the share is 0.01 to 0.02 (measured).
    """

    version: ClassVar[int] = 1  # raise it when the same text gets another answer
    reads: ClassVar[tuple[str, ...]] = ("text",)  # columns that must be there
    reasons: ClassVar[tuple[str, ...]] = ("shouting",)  # all that it may answer

    max_capital_share: float = 0.3  # of the letters; every field is an option in YAML

    def open(self) -> Callable[[pa.RecordBatch], pa.Array]:
        """The function that judges a batch; what is costly to load is loaded here, once a worker."""
        return self._judge

    def _judge(self, batch: pa.RecordBatch) -> pa.Array:
        """A reason or null a row."""
        text = batch.column("text")
        letters = pc.count_substring_regex(text, r"\p{L}")
        capitals = pc.count_substring_regex(text, r"\p{Lu}")
        share = pc.round(pc.divide(capitals.cast(pa.float64()), pc.max_element_wise(letters, 1)), 4)
        return first_reason({"shouting": pc.greater(share, self.max_capital_share)})
