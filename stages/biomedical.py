"""Rules of thumb for science and medicine, where those for the web drop what is wanted."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa

from curate.core.stage import Filter, first_reason
from stages.limits import broken

LIMITS: Mapping[str, tuple[str, str]] = {
    "too_few_words": ("num_words", "min_words"),
    "too_many_words": ("num_words", "max_words"),
    "short_words": ("mean_word_length", "min_mean_word_length"),
    "long_words": ("mean_word_length", "max_mean_word_length"),
    "ellipses": ("ellipsis_word_ratio", "max_ellipsis_word_ratio"),
    "ellipsis_lines": ("ellipsis_line_share", "max_ellipsis_line_share"),
    "few_alphabetic_words": ("alphabetic_word_share", "min_alphabetic_word_share"),
}


@dataclass(frozen=True, kw_only=True)
class BiomedicalQuality(Filter):
    """Drops documents that do not look like the text of a paper, a letter or an abstract, by the first rule they break.

    Reads: the columns of `stages.statistics.TextStatistics`.
    Drops: too_few_words, too_many_words, short_words, long_words, ellipses, ellipsis_lines,
    few_alphabetic_words. A value at its limit is kept.
    Of Gopher's rules (`stages.quality.GopherQuality`) it has not: hashes, as headings are written with them;
    bullet_lines, as criteria and doses come in lists; few_stop_words, which are English and which a
    short case or a table of doses lacks: languages are the business of `stages.language`. It has no
    list of bad words: such lists drop medicine first (Dodge et al. 2021, section 5.3).
    Source: limits outside of what 2,400 real articles and 3,300 abstracts have, docs/pubmed.md.
    """

    version: ClassVar[int] = 1
    reads: ClassVar[tuple[str, ...]] = tuple(dict.fromkeys(column for column, _ in LIMITS.values()))
    reasons: ClassVar[tuple[str, ...]] = tuple(LIMITS)
    limits: ClassVar[Mapping[str, tuple[str, str]]] = LIMITS

    min_words: int = 25  # 1 abstract in 1,000 has fewer than 29
    max_words: int = 100_000  # the longest article has 25,073
    min_mean_word_length: float = 3.5  # code points; 4.5 to 8.1 are real, letters with spaces between have 1
    max_mean_word_length: float = 10.0
    max_ellipsis_word_ratio: float = 0.1
    max_ellipsis_line_share: float = 0.3
    min_alphabetic_word_share: float = 0.65  # 0.74 is the least of an abstract; tables of numbers have less

    def open(self) -> Callable[[pa.RecordBatch], pa.Array]:
        """The function that judges a batch."""
        return lambda batch: first_reason(broken(self, batch))
