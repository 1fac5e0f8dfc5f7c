"""Do templated pages, all in the same buckets, cost linear time and rows?

3,000 to 24,000 pages from one template: 200 words of which two are a page's own, so that each is about 0.81 similar
to each other one. The whole program of MinHashDedup is run in memory, one process; a run with twice the pages should
cost twice as much.
"""

import random
import time
from typing import Any

from benchmarks import Figures
from stages.dedup import MinHashDedup
from tests.oracle import documents_of, run_exchange

SIZES = (3_000, 6_000, 12_000, 24_000)
NUM_WORDS = 200


def measure() -> Figures:
    """Seconds and rows a page, and how both grow."""
    figures: dict[str, Any] = {}
    for size in SIZES:
        documents = documents_of(pages(size))
        start = time.process_time()
        outcome = run_exchange(MinHashDedup(), documents)
        seconds = time.process_time() - start
        figures[f"microseconds_per_page_{size}"] = round(seconds / size * 1e6, 1)
        figures[f"rows_per_page_{size}"] = round(sum(outcome.num_rows.values()) / size, 1)
        figures[f"megabytes_sent_{size}"] = round(sum(outcome.num_bytes.values()) / 1e6, 1)
        figures[f"kept_{size}"] = size - len(outcome.removed())
    for name in ("microseconds_per_page", "rows_per_page"):
        figures[f"{name}_ratio"] = round(figures[f"{name}_{SIZES[-1]}"] / figures[f"{name}_{SIZES[0]}"], 2)
    return figures


def pages(number: int) -> list[str]:
    """Texts that differ in two words."""
    rng = random.Random(1)
    template = [f"word{rng.randrange(100_000)}" for _ in range(NUM_WORDS)]
    found = []
    for page in range(number):
        words = list(template)
        words[NUM_WORDS // 3], words[2 * NUM_WORDS // 3] = f"title{page}", f"number{rng.randrange(10**9)}"
        found.append(" ".join(words))
    return found


def lines(figures: Figures) -> list[str]:
    """The figures for people."""
    text = [
        f"a page of {SIZES[-1]:,} costs {figures['microseconds_per_page_ratio']} times the seconds and "
        f"{figures['rows_per_page_ratio']} times the rows of one of {SIZES[0]:,}"
    ]
    for size in SIZES:
        cost, rows = figures[f"microseconds_per_page_{size}"], figures[f"rows_per_page_{size}"]
        text.append(f"{size:,} pages: {cost} microseconds and {rows} rows each, {figures[f'kept_{size}']} kept")
    return text
