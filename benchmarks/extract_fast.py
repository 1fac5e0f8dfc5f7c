"""How good and how fast is `extractor: fast`, alone and with its unsure pages sent to trafilatura?

Quality is cross-validated by site: each page is judged by a model that has seen no page of its site, in either stage.
Speed: the stage with the model that is shipped against trafilatura's plain call, the same pages, one core, alternating.
"""

import os
import statistics
import time
from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from benchmarks import Figures
from benchmarks.main_text.pages import ARTICLES, GoldPage, load_pages
from benchmarks.main_text.score import Scores, accuracy_interval, f1_interval, score
from benchmarks.main_text.train import Trainer, prepare
from stages.html import ExtractHtml
from stages.main_text import THRESHOLD, text_of

UNSURE = 0.05
ROUNDS = 3
STRIDE = 4  # of the pages, every 4th is timed: trafilatura takes half a minute for all


def measure() -> Figures:
    """Scores with intervals, and ratios of speed."""
    pages = load_pages()
    trafilatura = texts_of(pages, ExtractHtml(extractor="trafilatura"))
    trainer = Trainer(prepare(pages, trafilatura))
    answers = trainer.cross_validate()
    fast = {
        example.page.id: text_of(example.scanned, part >= THRESHOLD)
        for example, part in zip(trainer.examples, trainer.split(answers), strict=True)
    }
    cascade = cascaded(pages, fast, trafilatura, trainer.uncertainties(answers))
    alone, both, peer = (score(pages, texts) for texts in (fast, cascade, trafilatura))
    return {
        "f1_article_extraction_benchmark": round(alone.mean_f1(ARTICLES), 4),
        "segment_accuracy_trafilatura_set": round(alone.accuracy, 4),
        "cascade_f1": round(both.mean_f1(ARTICLES), 4),
        "cascade_segment_accuracy": round(both.accuracy, 4),
        **speeds(pages[::STRIDE]),
        "intervals": {"fast": intervals(alone), "cascade": intervals(both), "trafilatura": intervals(peer)},
        "f1": {name: round(alone.mean_f1(name), 4) for name in alone.f1},
        "cascade_f1_by_set": {name: round(both.mean_f1(name), 4) for name in both.f1},
        "trafilatura_f1": {name: round(peer.mean_f1(name), 4) for name in peer.f1},
        "trafilatura_accuracy": round(peer.accuracy, 4),
        "pages": len(pages),
        "cores": len(os.sched_getaffinity(0)),
    }


def lines(figures: Figures) -> list[str]:
    """The figures for people."""
    spans = figures["intervals"]
    rows = [
        ("fast", figures["f1_article_extraction_benchmark"], figures["segment_accuracy_trafilatura_set"]),
        (f"cascade, unsure {UNSURE}", figures["cascade_f1"], figures["cascade_segment_accuracy"]),
        ("trafilatura", figures["trafilatura_f1"][ARTICLES], figures["trafilatura_accuracy"]),
    ]
    text = [
        f"{name}: F1 {f1} {spans[name.partition(',')[0]]['f1']}, segments {accuracy} "
        f"{spans[name.partition(',')[0]]['accuracy']}"
        for name, f1, accuracy in rows
    ]
    return [
        *text,
        f"{figures['pages_per_second_ratio_vs_trafilatura']}x trafilatura's pages a second alone, "
        f"{figures['cascade_ratio_vs_trafilatura']}x as cascade ({figures['pages_per_second']} and "
        f"{figures['cascade_pages_per_second']} pages a second; {figures['pages']} pages, by site)",
    ]


def intervals(scores: Scores) -> Figures:
    """95 % intervals."""
    return {"f1": f1_interval(scores.f1[ARTICLES]), "accuracy": accuracy_interval(scores.segments)}


def cascaded(
    pages: Sequence[GoldPage], fast: dict[str, str], second: dict[str, str], uncertainties: NDArray[np.float64]
) -> dict[str, str]:
    """The texts where the most uncertain pages are trafilatura's, as far as it finds something."""
    texts = dict(fast)
    for number in np.argsort(-uncertainties)[: int(UNSURE * len(pages))]:
        name = pages[number].id
        texts[name] = second[name] if second[name].strip() else texts[name]
    return texts


def texts_of(pages: Sequence[GoldPage], stage: ExtractHtml) -> dict[str, str]:
    """The texts that a stage gives, by id; empty where it quarantines a page."""
    extract = stage.open()
    texts = {}
    for page in pages:
        try:
            texts[page.id] = extract(batch_of([page])).column("text")[0].as_py()
        except Exception as error:  # quarantined in a run: no text
            if type(error).__name__ != "DataError":
                raise
            texts[page.id] = ""
    return texts


def batch_of(pages: Sequence[GoldPage]) -> pa.RecordBatch:
    """Pages as a reader hands them over."""
    return pa.RecordBatch.from_pydict(
        {
            "content": pa.array([page.content for page in pages], pa.large_binary()),
            "kind": pa.array(["text/html"] * len(pages)),
            "charset": pa.nulls(len(pages), pa.string()),
        }
    )


def speeds(pages: Sequence[GoldPage]) -> Figures:
    """Medians of ratios over alternating rounds."""
    stages = {
        "trafilatura": ExtractHtml(extractor="trafilatura"),
        "fast": ExtractHtml(extractor="fast", unsure=0.0),
        "cascade": ExtractHtml(extractor="fast", unsure=UNSURE),
    }
    for stage in stages.values():
        texts_of(pages[:3], stage)  # models are loaded, loops compiled
    seconds: dict[str, list[float]] = {name: [] for name in stages}
    for _ in range(ROUNDS):
        for name, stage in stages.items():
            seconds[name].append(timed(lambda stage=stage: texts_of(pages, stage)))  # type: ignore[misc]
    median = {name: statistics.median(values) for name, values in seconds.items()}
    return {
        "pages_per_second_ratio_vs_trafilatura": round(median["trafilatura"] / median["fast"], 1),
        "cascade_ratio_vs_trafilatura": round(median["trafilatura"] / median["cascade"], 1),
        "pages_per_second": round(len(pages) / median["fast"]),
        "cascade_pages_per_second": round(len(pages) / median["cascade"]),
        "trafilatura_pages_per_second": round(len(pages) / median["trafilatura"], 1),
    }


def timed(call: Callable[[], object]) -> float:
    """Seconds of a call."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start
