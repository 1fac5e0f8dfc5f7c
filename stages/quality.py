"""Rules of thumb that tell prose from the rest of the web."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from curate.core.stage import Filter, first_reason


@dataclass(frozen=True, kw_only=True)
class GopherQuality(Filter):
    """Drops documents that do not look like prose, by the first rule they break.

    Reads: the columns of `stages.statistics.TextStatistics`.
    Drops: too_few_words, too_many_words, short_words, long_words, hashes, ellipses, bullet_lines,
    ellipsis_lines, few_alphabetic_words, few_stop_words.
    A value at its limit is kept, and a limit reads the stored value, rounded to 4 decimals.
    Source: Rae et al. 2021 (Gopher), appendix A1.1. It does not say what a word is; for the
    definitions see `TextStatistics`. The stop words make it a filter for English.
    """

    version: ClassVar[int] = 1
    reads: ClassVar[tuple[str, ...]] = (
        "num_words",
        "mean_word_length",
        "hash_word_ratio",
        "ellipsis_word_ratio",
        "bullet_line_share",
        "ellipsis_line_share",
        "alphabetic_word_share",
        "num_stop_words",
    )
    reasons: ClassVar[tuple[str, ...]] = (
        "too_few_words",
        "too_many_words",
        "short_words",
        "long_words",
        "hashes",
        "ellipses",
        "bullet_lines",
        "ellipsis_lines",
        "few_alphabetic_words",
        "few_stop_words",
    )

    min_words: int = 50
    max_words: int = 100_000
    min_mean_word_length: float = 3.0  # code points
    max_mean_word_length: float = 10.0
    max_hash_word_ratio: float = 0.1
    max_ellipsis_word_ratio: float = 0.1
    max_bullet_line_share: float = 0.9
    max_ellipsis_line_share: float = 0.3
    min_alphabetic_word_share: float = 0.8
    min_stop_words: int = 2  # different ones

    def open(self) -> Callable[[pa.RecordBatch], pa.Array]:
        """The function that judges a batch."""
        return self._judge

    def _judge(self, batch: pa.RecordBatch) -> pa.Array:
        column = batch.column
        return first_reason(
            {
                "too_few_words": pc.less(column("num_words"), self.min_words),
                "too_many_words": pc.greater(column("num_words"), self.max_words),
                "short_words": pc.less(column("mean_word_length"), self.min_mean_word_length),
                "long_words": pc.greater(column("mean_word_length"), self.max_mean_word_length),
                "hashes": pc.greater(column("hash_word_ratio"), self.max_hash_word_ratio),
                "ellipses": pc.greater(column("ellipsis_word_ratio"), self.max_ellipsis_word_ratio),
                "bullet_lines": pc.greater(column("bullet_line_share"), self.max_bullet_line_share),
                "ellipsis_lines": pc.greater(column("ellipsis_line_share"), self.max_ellipsis_line_share),
                "few_alphabetic_words": pc.less(column("alphabetic_word_share"), self.min_alphabetic_word_share),
                "few_stop_words": pc.less(column("num_stop_words"), self.min_stop_words),
            }
        )
