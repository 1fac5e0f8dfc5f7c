"""IdentifyLanguage and KeepLanguages."""

import json
import lzma
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from classifiers.fasttext_model import load_model
from curate.core.errors import DataError
from curate.core.stage import Asset
from stages.language import WINDOW_CHARS, IdentifyLanguage, KeepLanguages, sample
from tests.strategies import documents, language_model

MODEL = Asset(str(language_model()))


def identify(texts: list[str | None]) -> list[tuple[str | None, float]]:
    batch = IdentifyLanguage(model=MODEL).open()(documents(texts))
    return list(zip(batch.column("language").to_pylist(), batch.column("language_score").to_pylist(), strict=True))


def test_languages() -> None:
    texts: list[str | None] = [
        "The patients were treated with the drug, and most of them recovered.",
        "Die Patienten wurden mit dem Medikament behandelt,\nund die meisten erholten sich.",
        "\u60a3\u8005\u63a5\u53d7\u4e86\u836f\u7269\u6cbb\u7597\uff0c\u5927\u591a\u6570\u4eba\u5eb7\u590d\u4e86\u3002",
    ]
    found = identify(texts)
    assert [label for label, _ in found] == ["en", "de", "zh"]
    assert all(score > 0.65 for _, score in found)


def test_no_words_no_language() -> None:
    assert identify([None, "", " \n", "\0"]) == [(None, 0.0)] * 4


def test_scores_have_four_decimals() -> None:
    for _, score in identify(["hello", "bonjour", "1 2 3", "x" * 500]):
        assert score == np.float32(round(score, 4))


def test_the_sample_is_three_windows() -> None:
    text = "a" * 1000 + "b" * 1000 + "c" * 1000
    assert sample(text) == "a" * WINDOW_CHARS + " " + "b" * WINDOW_CHARS + " " + "c" * WINDOW_CHARS
    assert sample("x" * (3 * WINDOW_CHARS)) == "x" * (3 * WINDOW_CHARS)


def test_the_sample_answers_as_the_whole_text(shared_data: Path) -> None:
    with lzma.open(shared_data / "text" / "web_text_samples.jsonl.xz", "rt", encoding="utf-8") as file:
        texts: list[str | None] = [json.loads(line)["text"] for line in file]
    model = load_model(MODEL)
    whole = [model.best(text or "") for text in texts]
    sampled = identify(texts)
    same_label = sum(mine[0] == other[0] for mine, other in zip(sampled, whole, strict=True))
    assert same_label / len(texts) > 0.95
    english = [[label == "en" and score >= 0.65 for label, score in answers] for answers in (sampled, whole)]
    assert english[0] == english[1]


def test_a_text_that_is_no_utf8_is_bad_data() -> None:
    binary = pa.array([b"good", b"\xff\xfe"], pa.large_binary())
    texts = pa.Array.from_buffers(pa.large_string(), 2, binary.buffers())
    batch = pa.RecordBatch.from_arrays([texts], names=["text"])
    with pytest.raises(DataError) as caught:
        IdentifyLanguage(model=MODEL).open()(batch)
    assert caught.value.reason == "invalid_utf8"


def keep(rows: list[tuple[str | None, float | None]], **options: Any) -> list[str | None]:
    columns = {
        "language": pa.array([label for label, _ in rows], pa.string()),
        "language_score": pa.array([score for _, score in rows], pa.float32()),
    }
    reasons: list[str | None] = KeepLanguages(**options).open()(pa.RecordBatch.from_pydict(columns)).to_pylist()
    return reasons


def test_the_threshold_from_both_sides() -> None:
    """0.65 as it is stored, a float32, is below 0.65; it is kept all the same."""
    rows: list[tuple[str | None, float | None]] = [("en", 0.65), ("en", 0.6499), ("en", 1.0), ("en", None)]
    assert keep(rows, languages=("en",)) == [None, "language_score", None, "language_score"]
    assert keep([("en", 0.3), ("en", 0.2999)], languages=("en",), min_score=0.3) == [None, "language_score"]


def test_other_languages_are_dropped() -> None:
    rows: list[tuple[str | None, float | None]] = [("de", 0.9), (None, 0.0), ("pt", 0.9), ("no", 0.1)]
    assert keep(rows, languages=("en", "pt")) == ["language", "language", None, "language"]
    assert keep([("no", 0.9)], languages=("no",)) == [None]


@pytest.mark.parametrize(
    "options",
    [{"languages": ()}, {"languages": ("EN",)}, {"languages": ("english",)}, {"languages": ("en",), "min_score": 65}],
)
def test_options_that_keep_nothing_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="found"):
        KeepLanguages(**options)
