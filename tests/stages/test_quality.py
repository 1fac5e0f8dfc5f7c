"""GopherQuality: each threshold from both sides, and whole documents."""

from typing import Any

import pyarrow as pa
import pytest

from stages.quality import GopherQuality
from stages.statistics import TextStatistics
from tests.strategies import documents

PROSE: dict[str, Any] = {
    "num_words": 500,
    "mean_word_length": 5.0,
    "hash_word_ratio": 0.0,
    "ellipsis_word_ratio": 0.0,
    "bullet_line_share": 0.0,
    "ellipsis_line_share": 0.0,
    "alphabetic_word_share": 1.0,
    "num_stop_words": 8,
}


def judge(rows: list[dict[str, Any]], stage: GopherQuality | None = None) -> list[str | None]:
    stage = stage or GopherQuality()
    table = pa.Table.from_pylist([PROSE | row for row in rows], schema=pa.schema(dict(TextStatistics().adds)))
    reasons: list[str | None] = stage.open()(table.combine_chunks().to_batches()[0]).to_pylist()
    return reasons


@pytest.mark.parametrize(
    ("column", "kept", "dropped", "reason"),
    [
        ("num_words", 50, 49, "too_few_words"),
        ("num_words", 100_000, 100_001, "too_many_words"),
        ("mean_word_length", 3.0, 2.9999, "short_words"),
        ("mean_word_length", 10.0, 10.0001, "long_words"),
        ("hash_word_ratio", 0.1, 0.1001, "hashes"),
        ("ellipsis_word_ratio", 0.1, 0.1001, "ellipses"),
        ("bullet_line_share", 0.9, 0.9001, "bullet_lines"),
        ("ellipsis_line_share", 0.3, 0.3001, "ellipsis_lines"),
        ("alphabetic_word_share", 0.8, 0.7999, "few_alphabetic_words"),
        ("num_stop_words", 2, 1, "few_stop_words"),
    ],
)
def test_a_threshold_from_both_sides(column: str, kept: float, dropped: float, reason: str) -> None:
    assert judge([{column: kept}, {column: dropped}]) == [None, reason]


def test_the_first_rule_that_is_broken_is_the_reason() -> None:
    broken = {"num_words": 3, "mean_word_length": 20.0, "num_stop_words": 0}
    assert judge([broken, broken | {"num_words": 60}]) == ["too_few_words", "long_words"]


def test_options_move_the_thresholds() -> None:
    assert judge([{"num_words": 3}], GopherQuality(min_words=3)) == [None]
    assert judge([{"num_words": 3}], GopherQuality(min_words=4)) == ["too_few_words"]


SENTENCE = "The patients were treated with the drug, and most of them recovered within a week.\n"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (SENTENCE * 10, None),
        (SENTENCE, "too_few_words"),
        ("", "too_few_words"),
        ("a of b to c " * 30, "short_words"),
        ("the of deoxyribonucleotidyltransferases " * 30, "long_words"),
        ("the price # of item " * 30, "hashes"),
        ("the price... of item " * 30, "ellipses"),
        ("- the price of the item\n" * 30, "bullet_lines"),
        (SENTENCE * 3 + "the price of an item with a long description and more of it...\n" * 10, "ellipsis_lines"),
        ("the 12,500 of 47,311 " * 30, "few_alphabetic_words"),
        ("Lorsque nous sommes arriv\u00e9s, il pleuvait encore beaucoup. " * 20, "few_stop_words"),
    ],
)
def test_documents(text: str, reason: str | None) -> None:
    batch = TextStatistics().open()(documents([text]))
    assert GopherQuality().open()(batch).to_pylist() == [reason]
