"""Which blocks of a page are its main text, from whole texts, strings, and the output of a teacher.

Gold and page are aligned in order, so that a teaser that repeats a sentence of the article is not taken for it.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from html import unescape
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from benchmarks.main_text.pages import READABILITY, SEGMENTS, GoldPage
from benchmarks.main_text.score import squeeze, tokens
from stages.kernels.html_page import Page

MAX_CELLS = 150_000_000  # of an alignment
# Weight of a label by what it comes from; expected HTML is another program's answer, reviewed.
TEXT_WEIGHT, READABILITY_WEIGHT, TEACHER_WEIGHT, SEGMENT_WEIGHT = 1.0, 0.35, 0.4, 3.0


@dataclass(frozen=True)
class Labels:
    """For each block: 1 or 0, and how much it counts."""

    values: NDArray[np.int8]
    weights: NDArray[np.float64]


def block_texts(page: Page) -> list[str]:
    """The text of each block."""
    data, spans = page.data.tobytes(), page.spans.tolist()
    bounds = page.blocks[:, 0].tolist()
    return [
        unescape(
            b"".join(data[start:stop] if start >= 0 else b"\n" for start, stop, _ in spans[first:last]).decode(
                "utf-8", "replace"
            )
        )
        for first, last in itertools.pairwise(bounds)
    ]


def label(page: GoldPage, texts: Sequence[str], teacher: str) -> Labels:
    """Labels of the blocks of a page. `teacher` is what trafilatura makes of it, for pages without whole text."""
    bags = [tokens(text) for text in texts]
    sizes = np.array([len(bag) for bag in bags], np.float64)
    shares = _matched_shares(bags, tokens(page.text if page.text is not None else teacher))
    kind = TEACHER_WEIGHT if page.set == SEGMENTS else READABILITY_WEIGHT if page.set == READABILITY else TEXT_WEIGHT
    weights = kind * np.sqrt(np.minimum(sizes, 200) + 1)
    weights[(shares > 0.2) & (shares < 0.8)] *= 0.3
    values = (shares >= 0.5).astype(np.int8)
    for number, wanted in _by_segments(page, texts).items():
        values[number] = wanted
        weights[number] += SEGMENT_WEIGHT
    weights[sizes == 0] = 0.05
    return Labels(values, weights)


def _by_segments(page: GoldPage, texts: Sequence[str]) -> dict[int, int]:
    """Blocks whose label a string decides: one that must be there, or that must not and makes up most of the block."""
    decided: dict[int, int] = {}
    squeezed = [squeeze(text) for text in texts]
    for wanted, segments in ((1, page.present), (0, page.absent)):
        for segment in map(squeeze, segments):
            for number, text in enumerate(squeezed):
                holds = segment in text and (wanted or len(text) < 4 * len(segment) + 20)
                if holds or (wanted and len(text) > 25 and text in segment):
                    decided[number] = wanted
    return decided


def _matched_shares(bags: Sequence[Sequence[str]], gold: Sequence[str]) -> NDArray[np.float64]:
    """The share of each block's tokens that the alignment matches."""
    numbers = {token: number for number, token in enumerate(dict.fromkeys(gold))}
    wanted = np.array([numbers[token] for token in gold], np.int32)
    mine = np.array([numbers.get(token, -1) for bag in bags for token in bag], np.int32)
    matched = np.zeros(len(mine), np.bool_)
    if len(wanted) and len(mine):
        most = max(1, MAX_CELLS // len(wanted))
        matched[:most] = align(mine[:most], wanted)
    ends = np.cumsum([len(bag) for bag in bags])
    sums = np.concatenate([[0], np.cumsum(matched)])
    return np.array(
        [(sums[end] - sums[end - len(bag)]) / max(1, len(bag)) for end, bag in zip(ends, bags, strict=True)]
    )


def align(mine: NDArray[np.int32], gold: NDArray[np.int32]) -> NDArray[np.bool_]:
    """Which tokens of `mine` a longest common subsequence matches; in a run, each after the first counts 3."""
    matched: NDArray[np.bool_] = _align(mine, gold)
    return matched


@numba.njit(cache=True)
def _align(mine: Any, gold: Any) -> Any:
    best, run = np.zeros(len(gold) + 1, np.int32), np.zeros(len(gold) + 1, np.int32)
    steps = np.zeros((len(mine) + 1, len(gold) + 1), np.uint8)  # 1: skip mine, 4: skip gold, 8: match, | 2: run goes on
    for i in range(1, len(mine) + 1):
        diagonal_best, diagonal_run = np.int32(0), np.int32(0)
        for j in range(1, len(gold) + 1):
            above_best, above_run = best[j], run[j]
            goes_on = 0
            if mine[i - 1] == gold[j - 1]:
                run[j] = diagonal_best + 1
                if diagonal_run > 0 and diagonal_run + 3 >= run[j]:
                    run[j], goes_on = diagonal_run + 3, 2
            else:
                run[j] = 0
            step = 1
            if best[j - 1] > best[j]:
                best[j], step = best[j - 1], 4
            if run[j] > 0 and run[j] >= best[j]:
                best[j], step = run[j], 8
            steps[i, j] = step | goes_on
            diagonal_best, diagonal_run = above_best, above_run
    return _trace(steps)


@numba.njit(cache=True)
def _trace(steps: Any) -> Any:
    """Go back from the end."""
    i, j = steps.shape[0] - 1, steps.shape[1] - 1
    matched, in_run = np.zeros(i, np.bool_), False
    while i > 0 and j > 0:
        step = steps[i, j]
        if in_run or step & 8:
            matched[i - 1] = True
            in_run = (step & 2) != 0
            i, j = i - 1, j - 1
        elif step & 1:
            i -= 1
        else:
            j -= 1
    return matched
