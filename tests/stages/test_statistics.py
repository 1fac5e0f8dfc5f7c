"""TextStatistics: by hand, and equal to a plain Python reference on nasty Unicode."""

import json
import lzma
import string
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from stages.kernels.buffers import text_buffers
from stages.kernels.words import BULLETS, STOP_WORDS, count_words
from stages.statistics import TextStatistics
from tests.strategies import documents, slices, texts

ELLIPSES = ("...", "\u2026")


def reference(text: str) -> dict[str, Any]:
    """The same statistics, one Python object a word."""
    words = text.split()
    lines = [line.strip() for line in text.split("\n") if line.split()]
    bare = {word.strip(string.punctuation).translate(LOWER) for word in words}

    def ratio(part: int, whole: int) -> float:
        return float(np.round(part / max(whole, 1), 4))

    return {
        "num_words": len(words),
        "mean_word_length": ratio(sum(map(len, words)), len(words)),
        "hash_word_ratio": ratio(text.count("#"), len(words)),
        "ellipsis_word_ratio": ratio(sum(map(text.count, ELLIPSES)), len(words)),
        "bullet_line_share": ratio(sum(line[0] in BULLETS for line in lines), len(lines)),
        "ellipsis_line_share": ratio(sum(line.endswith(ELLIPSES) for line in lines), len(lines)),
        "alphabetic_word_share": ratio(sum(any(map(str.isalpha, word)) for word in words), len(words)),
        "num_stop_words": len(bare & set(STOP_WORDS)),
    }


LOWER = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)  # str.lower turns KELVIN SIGN into k


def statistics(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    return [{name: row[name] for name in TextStatistics().adds} for row in TextStatistics().open()(batch).to_pylist()]


def statistics_of(text: str | None) -> dict[str, Any]:
    return statistics(documents([text]))[0]


def test_by_hand() -> None:
    text = "The quick,  (WITH) of... # \u2026\n- a\n\n  \u2022 b ...  \n 123 caf\u00e9"
    assert statistics_of(text) == {
        "num_words": 13,
        "mean_word_length": 2.7692,  # 36 code points
        "hash_word_ratio": 0.0769,
        "ellipsis_word_ratio": 0.2308,
        "bullet_line_share": 0.5,
        "ellipsis_line_share": 0.5,
        "alphabetic_word_share": 0.5385,
        "num_stop_words": 3,
    }


@pytest.mark.parametrize("text", ["", " ", "\n", "\u3000\u2028", None])
def test_no_words_gives_zeros(text: str | None) -> None:
    assert set(statistics_of(text).values()) == {0}


@pytest.mark.parametrize("text", ["\u200b", "!!!", "\0"])
def test_words_without_letters_are_words(text: str) -> None:
    found = statistics_of(text)
    assert (found["num_words"], found["alphabetic_word_share"]) == (1, 0)


def test_blank_lines_and_trailing_spaces_change_nothing() -> None:
    lines = [f"- sentence number {number} ends here..." for number in range(10)]
    assert statistics_of("\n".join(lines)) == statistics_of("  \n \n\n\n".join(lines) + "\n\n")


def test_a_stop_word_is_a_whole_word() -> None:
    assert statistics_of('them of_course be\0 "To" (and), that\'s')["num_stop_words"] == 2


@settings(max_examples=300, deadline=None)
@given(st.lists(st.none() | texts, max_size=8))
@example(["be\0 be", "\u212a of\u212a", "....\n... .", "\x1f.\x1c..\x1d\u2026 \u2026\n", "\u2028- a\r\n\u2022"])
def test_equal_to_the_reference(texts: list[str | None]) -> None:
    assert statistics(documents(texts)) == [reference(text or "") for text in texts]


@settings(max_examples=50, deadline=None)
@given(st.lists(st.none() | texts, max_size=8), st.integers(0, 8), st.integers(0, 8))
def test_equal_in_a_slice_and_for_short_strings(texts: list[str | None], start: int, length: int) -> None:
    part = documents(texts).slice(start, length)
    short = part.set_column(2, "text", part.column("text").cast(pa.string()))
    expected = [reference(text or "") for text in texts[start : start + length]]
    assert statistics(part) == statistics(short) == expected


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=40), st.binary(max_size=40))
def test_bytes_that_are_no_utf8_stay_within_their_text(first: bytes, second: bytes) -> None:
    pair = count_words(*text_buffers(as_text([first, second])))
    alone = [count_words(*text_buffers(as_text([value])))[0] for value in (first, second)]
    assert pair.tolist() == [counts.tolist() for counts in alone]


def as_text(values: list[bytes]) -> pa.Array:
    """Strings that Arrow has not checked, as from a file."""
    data = pa.array(values, pa.large_binary())
    return pa.Array.from_buffers(pa.large_string(), len(data), data.buffers())


def test_cost_is_linear_on_hostile_texts() -> None:
    """Shows no time, but runs what has hung regular expressions: 8 MB of each in one batch."""
    hostile = ["\U0001f600" * 2_000_000, " " * 8_000_000 + "x", "a." * 4_000_000, "(" * 8_000_000, "...\n" * 2_000_000]
    found = statistics(documents(hostile))
    assert [row["num_words"] for row in found] == [1, 1, 1, 1, 2_000_000]


def test_real_articles_equal_the_reference(shared_data: Path) -> None:
    with lzma.open(shared_data / "text" / "web_text_samples.jsonl.xz", "rt", encoding="utf-8") as file:
        found = [json.loads(line)["text"] for line in file]
    assert len(found) > 100
    batch = documents(found)
    together = [row for part in slices(batch, [1, 7, 50]) for row in statistics(part)]
    assert together == [reference(text) for text in found]
