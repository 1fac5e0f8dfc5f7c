"""Scores of extracted texts: token F1 against whole texts, accuracy on strings that must and must not be there."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.main_text.pages import ARTICLES, NEWSPAPER, READABILITY, SEGMENTS, GoldPage

# Characters that are tokens of their own: kana, ideographs, hangul, Thai, Burmese.
_ALONE = r"\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\u0e00-\u0e7f\u1000-\u109f"
_TOKEN = re.compile(rf"[{_ALONE}]|[^\W{_ALONE}]+")
NUM_DRAWS = 2000


def tokens(text: str) -> list[str]:
    """Runs of letters and digits; characters of scripts without spaces one by one."""
    return _TOKEN.findall(text)


def precision_recall_f1(text: str, gold: str) -> tuple[float, float, float]:
    """Of bags of tokens."""
    mine, wanted = Counter(tokens(text)), Counter(tokens(gold))
    common = (mine & wanted).total()
    if not mine and not wanted:
        return 1.0, 1.0, 1.0
    if not common:
        return 0.0, 0.0, 0.0
    return common / mine.total(), common / wanted.total(), 2 * common / (mine.total() + wanted.total())


def squeeze(text: str) -> str:
    """Runs of white space as one space."""
    return " ".join(text.split())


def right_segments(text: str, page: GoldPage) -> tuple[int, int]:
    """How many strings are there or not, as they should, and how many there are."""
    squeezed = squeeze(text)
    right = sum(squeeze(segment) in squeezed for segment in page.present)
    right += sum(squeeze(segment) not in squeezed for segment in page.absent)
    return right, len(page.present) + len(page.absent)


@dataclass(frozen=True)
class Scores:
    """Per page: F1 by set; right segments and all segments."""

    f1: Mapping[str, NDArray[np.float64]]
    segments: NDArray[np.float64]  # (pages, 2)

    def mean_f1(self, name: str) -> float:
        """Mean F1 of a set."""
        return float(self.f1[name].mean())

    @property
    def accuracy(self) -> float:
        """Share of all segments that are right."""
        right, total = self.segments.sum(axis=0)
        return float(right / total)


def score(pages: Sequence[GoldPage], texts: Mapping[str, str]) -> Scores:
    """Scores of `texts` by id of page."""
    f1 = {
        name: np.array([precision_recall_f1(texts[page.id], page.text or "")[2] for page in pages if page.set == name])
        for name in (ARTICLES, READABILITY, NEWSPAPER)
    }
    segments = np.array([right_segments(texts[page.id], page) for page in pages if page.set == SEGMENTS], np.float64)
    return Scores({name: values for name, values in f1.items() if len(values)}, segments.reshape(-1, 2))


def f1_interval(values: NDArray[np.float64]) -> tuple[float, float]:
    """95 % interval of a mean over pages, by bootstrap."""
    means = values[_draws(len(values))].mean(axis=1)
    return _ends(means)


def accuracy_interval(segments: NDArray[np.float64]) -> tuple[float, float]:
    """95 % interval of the share of right segments, pages drawn anew."""
    sums = segments[_draws(len(segments))].sum(axis=1)
    return _ends(sums[:, 0] / sums[:, 1])


def _draws(num: int) -> NDArray[np.int64]:
    return np.random.default_rng(0).integers(0, num, (NUM_DRAWS, num))


def _ends(values: NDArray[np.float64]) -> tuple[float, float]:
    low, high = np.percentile(values, [2.5, 97.5])
    return round(float(low), 4), round(float(high), 4)
