"""Rules of thumb that tell prose from the rest of the web."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa

from curate.core.stage import Filter, first_reason
from stages.biomedical import BiomedicalQuality
from stages.limits import broken

__all__ = ["BiomedicalQuality", "GopherQuality"]

# Reason -> the column that is held against the option; in the order in which rules are tried.
LIMITS: Mapping[str, tuple[str, str]] = {
    "too_few_words": ("num_words", "min_words"),
    "too_many_words": ("num_words", "max_words"),
    "short_words": ("mean_word_length", "min_mean_word_length"),
    "long_words": ("mean_word_length", "max_mean_word_length"),
    "hashes": ("hash_word_ratio", "max_hash_word_ratio"),
    "ellipses": ("ellipsis_word_ratio", "max_ellipsis_word_ratio"),
    "bullet_lines": ("bullet_line_share", "max_bullet_line_share"),
    "ellipsis_lines": ("ellipsis_line_share", "max_ellipsis_line_share"),
    "few_alphabetic_words": ("alphabetic_word_share", "min_alphabetic_word_share"),
    "few_stop_words": ("num_stop_words", "min_stop_words"),
}


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
    reads: ClassVar[tuple[str, ...]] = tuple(dict.fromkeys(column for column, _ in LIMITS.values()))
    reasons: ClassVar[tuple[str, ...]] = tuple(LIMITS)
    limits: ClassVar[Mapping[str, tuple[str, str]]] = LIMITS

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
        return lambda batch: first_reason(broken(self, batch))
