"""Statistics of a text, computed once and read by the filters behind."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from curate.core.stage import Columns, Map, with_columns
from stages.kernels.buffers import text_buffers
from stages.kernels.words import Count, count_words

DECIMALS = 4


@dataclass(frozen=True, kw_only=True)
class TextStatistics(Map):
    """Counts and shares of words and lines. All are 0 for a text without words.

    Words are what Python's str.split() gives: runs without Unicode white space, with the punctuation
    that adheres to them. Lines are what line feeds separate, where they hold a word.

    Reads: text.
    Adds (shares and ratios with 4 decimals):
      num_words              words
      mean_word_length       code points a word
      hash_word_ratio        `#` a word
      ellipsis_word_ratio    `...` and U+2026 a word
      bullet_line_share      of lines, those that begin with a bullet (`stages.kernels.words.BULLETS`)
      ellipsis_line_share    of lines, those that end in an ellipsis
      alphabetic_word_share  of words, those with at least one alphabetic character (str.isalpha)
      num_stop_words         different ones of the, be, to, of, and, that, have, with, in any case,
                             apart from ASCII punctuation around them
    Source: the measures of Rae et al. 2021 (Gopher), appendix A1.1.
    """

    version: ClassVar[int] = 1
    libraries: ClassVar[tuple[str, ...]] = ("numba",)
    reads: ClassVar[tuple[str, ...]] = ("text",)

    @property
    def adds(self) -> Columns:
        """Two counts, six shares and ratios."""
        return {
            "num_words": pa.int64(),
            "mean_word_length": pa.float64(),
            "hash_word_ratio": pa.float64(),
            "ellipsis_word_ratio": pa.float64(),
            "bullet_line_share": pa.float64(),
            "ellipsis_line_share": pa.float64(),
            "alphabetic_word_share": pa.float64(),
            "num_stop_words": pa.int64(),
        }

    def open(self) -> Callable[[pa.RecordBatch], pa.RecordBatch]:
        """The function that maps a batch."""
        return _add_statistics


def _add_statistics(batch: pa.RecordBatch) -> pa.RecordBatch:
    counts = count_words(*text_buffers(batch.column("text")))
    words, lines = counts[:, Count.WORDS], counts[:, Count.LINES]
    columns = {
        "num_words": words,
        "mean_word_length": _ratio(counts[:, Count.WORD_CHARS], words),
        "hash_word_ratio": _ratio(counts[:, Count.HASHES], words),
        "ellipsis_word_ratio": _ratio(counts[:, Count.ELLIPSES], words),
        "bullet_line_share": _ratio(counts[:, Count.BULLET_LINES], lines),
        "ellipsis_line_share": _ratio(counts[:, Count.ELLIPSIS_LINES], lines),
        "alphabetic_word_share": _ratio(counts[:, Count.ALPHABETIC_WORDS], words),
        "num_stop_words": counts[:, Count.STOP_WORDS],
    }
    return with_columns(batch, {name: pa.array(np.ascontiguousarray(values)) for name, values in columns.items()})


def _ratio(part: NDArray[np.int64], whole: NDArray[np.int64]) -> NDArray[np.float64]:
    """`part` by `whole`, rounded; 0 where there is nothing."""
    ratio: NDArray[np.float64] = np.round(part / np.maximum(whole, 1), DECIMALS)
    return ratio
