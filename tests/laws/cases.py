"""Each Map and Filter that ships, with rows to try it on. A stage that is missing here fails a test."""

import dataclasses
import importlib
import inspect
import pkgutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

import stages
from curate.core.hashing import digest, record_id
from curate.core.schema import DOCUMENT
from curate.core.stage import Asset, Filter, Map, Stage
from curate.core.summary import NeedsSummary
from stages.biomedical import BiomedicalQuality
from stages.dedup import Decontaminate
from stages.html import ExtractHtml
from stages.jats import ExtractJats
from stages.language import IdentifyLanguage, KeepLanguages
from stages.license import KeepLicenses
from stages.quality import GopherQuality
from stages.score import KeepTop
from stages.statistics import TextStatistics
from stages.text import DropEmpty
from stages.tokenize import Tokenize
from tests.oracle import summarize
from tests.strategies import NASTY, WORDS, language_model, texts

TOKENIZER = Path(__file__).parents[2] / "examples" / "quickstart" / "tokenizer" / "tokenizer.model"
GOLDEN_INPUTS = Path(__file__).parents[1] / "repository" / "golden_inputs"
TYPES = DOCUMENT | dict(TextStatistics().adds)
SENTENCE = "The patients were treated with the drug, and most of them recovered.\n"


@dataclasses.dataclass(frozen=True)
class Case:
    """A stage, and what to draw for the columns that it reads."""

    stage: Map | Filter
    values: Mapping[str, st.SearchStrategy[Any]]
    examples: tuple[dict[str, Any], ...]  # for what must be equal in other processes

    def open(self) -> Any:
        """The stage's function; where it needs a summary, that of the examples."""
        if isinstance(self.stage, NeedsSummary):
            return self.stage.open(*summarize(self.stage.summary(), self.batch(list(self.examples))))
        return self.stage.open()

    @property
    def batches(self) -> st.SearchStrategy[pa.RecordBatch]:
        """Batches of rows that are drawn, with the examples among them."""
        rows = st.fixed_dictionaries(dict(self.values)) | st.sampled_from(self.examples)
        return st.lists(rows, max_size=10).map(self.batch)

    def batch(self, rows: list[dict[str, Any]]) -> pa.RecordBatch:
        """A batch with an id, a name, and a column that no stage knows."""
        numbers = [str(number) for number in range(len(rows))]
        columns = {
            "id": pa.array([record_id("test", number) for number in numbers], pa.binary(16)),
            "name": pa.array(numbers, pa.string()),
            **{name: pa.array([row[name] for row in rows], TYPES[name]) for name in self.values},
            "my_score": pa.array([len(rows) - int(number) for number in numbers], pa.int64()),
        }
        return pa.RecordBatch.from_pydict(columns)


def _near(*limits: float) -> st.SearchStrategy[float]:
    """Values at limits and next to them."""
    return st.sampled_from([value for limit in limits for value in (limit - 0.0001, limit, limit + 0.0001)])


TEXT = {"text": st.none() | texts}
TEXTS = tuple(
    {"text": text} for text in (None, "", SENTENCE * 60, "".join(NASTY), " ".join(WORDS), "\u4e2d\u6587" * 900)
)
PARAGRAPHS = (
    "<p>a <sup>2</sup></p>",
    "<sec><title>T</title><p>x<xref ref-type='bibr'>1</xref>.</p></sec>",
    "<fig/>",
    "&nbsp;",
)
ARTICLES = st.lists(st.sampled_from(PARAGRAPHS), max_size=4).map(
    lambda parts: f"<article><body>{''.join(parts)}</body></article>".encode()
)
PAGES: dict[str, st.SearchStrategy[Any]] = {
    "content": st.none()
    | st.lists(
        st.sampled_from(["<p>", SENTENCE * 4, "</div>", "<nav>Home</nav>", "caf\u00e9", "<title>T</title>"])
    ).map(lambda parts: "".join(parts).encode()),
    "kind": st.sampled_from(["text/html", "text/plain"]),
    "charset": st.sampled_from([None, "utf-8", "iso-8859-1"]),
}
PAGE = {"content": f"<h1>Title</h1><p>{SENTENCE * 5}</p>".encode(), "kind": "text/html", "charset": None}
LICENSES = st.sampled_from([None, "cc0", "cc-by", "CC BY 4.0", "cc-by-sa", ""])
STATISTICS: dict[str, st.SearchStrategy[Any]] = {
    "num_words": st.sampled_from([0, 49, 50, 51, 99_999, 100_000, 100_001]),
    "mean_word_length": _near(3, 5, 10),
    "hash_word_ratio": _near(0.1),
    "ellipsis_word_ratio": _near(0.1),
    "bullet_line_share": _near(0.9),
    "ellipsis_line_share": _near(0.3),
    "alphabetic_word_share": _near(0.8),
    "num_stop_words": st.integers(0, 8),
}
PROSE = dict.fromkeys(STATISTICS, 0.0) | {
    "num_words": 500,
    "mean_word_length": 5.0,
    "alphabetic_word_share": 1.0,
    "num_stop_words": 8,
}

BIOMEDICAL = {name: STATISTICS[name] for name in BiomedicalQuality.reads}

MAPS = [
    Case(ExtractHtml(), PAGES, (PAGE, PAGE | {"kind": "text/plain"}, PAGE | {"content": None})),
    Case(ExtractHtml(extractor="fast"), PAGES, (PAGE, PAGE | {"kind": "text/plain"}, PAGE | {"content": None})),
    Case(ExtractHtml(extractor="resiliparse"), PAGES, (PAGE, PAGE | {"charset": "utf-16"})),
    Case(
        ExtractJats(),
        {"content": st.none() | ARTICLES},
        ({"content": b"<article><body><p>Text.</p></body></article>"}, {"content": None}),
    ),
    Case(
        ExtractJats(tables="small", references="keep", authors="keep", formulas="drop"),
        {"content": st.none() | ARTICLES},
        ({"content": b"<article><body><p>Text.</p></body></article>"}, {"content": None}),
    ),
    Case(IdentifyLanguage(model=Asset(str(language_model()))), TEXT, TEXTS),
    Case(TextStatistics(), TEXT, TEXTS),
    Case(Tokenize(model=Asset(str(TOKENIZER))), TEXT, TEXTS),
]
FILTERS = [
    Case(DropEmpty(), TEXT, TEXTS),
    Case(
        Decontaminate(sets={"golden": Asset(str(GOLDEN_INPUTS / "questions.jsonl"))}, ngram=3),
        TEXT,
        (*TEXTS, {"text": "x Out of the box, y"}),
    ),
    Case(
        KeepLanguages(languages=("en", "pt")),
        {"language": st.sampled_from([None, "en", "pt", "de"]), "language_score": st.none() | _near(0, 0.65)},
        ({"language": "en", "language_score": 0.9}, {"language": None, "language_score": 0.0}),
    ),
    Case(KeepLicenses(allow=("cc0", "cc-by")), {"license": LICENSES}, ({"license": "CC BY 4.0"}, {"license": None})),
    Case(
        KeepLicenses(allow=("cc0",), allow_unknown=("citation",)),
        {"license": LICENSES, "kind": st.sampled_from([None, "citation", "letter"])},
        ({"license": None, "kind": "citation"}, {"license": None, "kind": None}),
    ),
    Case(
        KeepTop(column="language_score", share=0.5),
        {"language_score": st.none() | _near(0.5, 0.9)},
        tuple({"language_score": score} for score in (0.9, 0.5, 0.5, 0.1, None)),
    ),
    Case(GopherQuality(), STATISTICS, (PROSE, PROSE | {"num_words": 3})),
    Case(BiomedicalQuality(), BIOMEDICAL, (PROSE, PROSE | {"num_words": 3})),
]


def shipped(family: type[Stage]) -> set[type[Stage]]:
    """The stages of a family that `stages` holds."""
    modules = [importlib.import_module(info.name) for info in pkgutil.walk_packages(stages.__path__, "stages.")]
    classes = {value for module in modules for value in vars(module).values() if inspect.isclass(value)}
    return {cls for cls in classes if issubclass(cls, family) and not inspect.isabstract(cls)}


def answers_digest() -> str:
    """What all stages make of their examples, as one digest."""
    answers = [case.open()(case.batch(list(case.examples))) for case in (*MAPS, *FILTERS)]
    return digest([repr(answer.to_pylist()) for answer in answers])
