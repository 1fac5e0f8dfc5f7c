"""DropEmpty, by hand: each kind of emptiness, and what must not count as empty."""

import pyarrow as pa
import pytest

from stages.text import DropEmpty


def judge(texts: list[str | None]) -> list[str | None]:
    batch = pa.record_batch({"text": pa.array(texts, pa.large_string())})
    answer = DropEmpty().open()(batch)
    assert answer.type == pa.string()
    reasons: list[str | None] = answer.to_pylist()
    return reasons


@pytest.mark.parametrize(
    "text", [None, "", " ", "\n\t\r\n", "\u00a0\u2003\u3000", "\x1c\x1d\x85", "\u2028\u2029"], ids=ascii
)
def test_drops_what_holds_no_text(text: str | None) -> None:
    assert judge([text]) == ["no_text"]


@pytest.mark.parametrize("text", ["a", " a ", "\n.\n", "\u200b", "\ufeff", "\x00", "0"], ids=ascii)
def test_keeps_what_holds_one_character_that_is_not_white_space(text: str) -> None:
    assert judge([text]) == [None]


def test_judges_rows_in_order_and_slices_alone() -> None:
    texts = ["a", "", None, "b", " "]
    assert judge(texts) == [None, "no_text", "no_text", None, "no_text"]
    batch = pa.record_batch({"text": pa.array(texts, pa.large_string())}).slice(2, 2)
    assert DropEmpty().open()(batch).to_pylist() == ["no_text", None]


def test_an_empty_batch_gives_no_reasons() -> None:
    assert judge([]) == []


def test_a_deletion_that_no_step_applied_is_told_apart() -> None:
    columns = {"text": [None, "", "a", None, None], "kind": ["deletion", "deletion", "deletion", "citation", None]}
    types = (pa.large_string(), pa.string())
    batch = pa.record_batch(
        {name: pa.array(column, kind) for (name, column), kind in zip(columns.items(), types, strict=True)}
    )
    applied, no_text = "deletion_not_applied", "no_text"
    assert DropEmpty().open()(batch).to_pylist() == [applied, applied, None, no_text, no_text]


def test_declares_its_reasons() -> None:
    assert DropEmpty().reasons == ("no_text", "deletion_not_applied")
    assert DropEmpty().columns_read() == ("text",)
