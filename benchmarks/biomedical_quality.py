"""Which rule drops how many real biomedical documents of each kind: Gopher's limits beside those of BiomedicalQuality?

Articles by their article-type and citations (an abstract each), as `ExtractJats` and `ReadMedline` give their text.
Every rule is judged alone, so that shares add up to more than what a filter drops, which is `any`.
"""

import gzip
from collections import Counter, defaultdict
from typing import Any

import pyarrow as pa

from benchmarks import Figures
from benchmarks.extract_pubmed import DATA, _articles, _text
from curate.core.errors import DataError
from stages.biomedical import BiomedicalQuality
from stages.jats import ExtractJats
from stages.jats_front import read_front
from stages.limits import broken
from stages.medline_citation import read_citation
from stages.quality import GopherQuality
from stages.statistics import TextStatistics
from stages.xml import parse

MIN_DOCUMENTS = 4  # of a kind that has a line of its own


def measure() -> Figures:
    """Documents and shares of them, by filter, kind and rule."""
    texts = _texts_by_kind()
    filters: dict[str, GopherQuality | BiomedicalQuality] = {
        "gopher": GopherQuality(),
        "biomedical": BiomedicalQuality(),
    }
    return {
        "documents": {kind: len(found) for kind, found in texts.items()},
        **{name: {kind: _drops(stage, found) for kind, found in texts.items()} for name, stage in filters.items()},
    }


def lines(figures: Figures) -> list[str]:
    """A line a kind and filter."""
    return [
        f"{kind} ({number}): {name} {figures[name][kind]}"
        for kind, number in figures["documents"].items()
        for name in ("gopher", "biomedical")
    ]


def _texts_by_kind() -> dict[str, list[str]]:
    texts: dict[str, list[str]] = defaultdict(list)
    for name, data in _articles():
        if not name.endswith(".txt") and (text := _text(data, ExtractJats())):
            front = read_front(data)
            texts[(front and front.kind) or "unknown"].append(text)
    for path in sorted((DATA.parent / "medline").glob("*.xml.gz")):
        for article in parse(gzip.decompress(path.read_bytes())).iterfind("PubmedArticle"):
            text = _abstract(article)
            if text:
                texts["abstract"].append(text)
    kinds: dict[str, list[str]] = defaultdict(list)
    for kind, found in texts.items():
        kinds[kind if len(found) >= MIN_DOCUMENTS else "other"] += found
    return dict(sorted(kinds.items(), key=lambda item: -len(item[1])))


def _abstract(article: Any) -> str:
    try:
        return read_citation(article).text
    except DataError:
        return ""


def _drops(stage: GopherQuality | BiomedicalQuality, texts: list[str]) -> dict[str, float]:
    """Share of documents that each rule alone would drop, where it is not 0, and that the filter drops."""
    batch = TextStatistics().open()(pa.RecordBatch.from_pydict({"text": pa.array(texts, pa.large_string())}))
    failed = {reason: mask.to_pylist().count(True) for reason, mask in broken(stage, batch).items()}
    dropped = Counter(reason is not None for reason in stage.open()(batch).to_pylist())[True]
    rates = {reason: round(count / len(texts), 5) for reason, count in failed.items() if count}
    return rates | {"any": round(dropped / len(texts), 5)}
