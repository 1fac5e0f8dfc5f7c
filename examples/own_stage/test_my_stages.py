"""A tiny table in, the exact answer out; the limit from both sides; the law of filters."""

import pyarrow as pa
import pytest
from my_stages import DropShouting

TEXTS = ["A quiet line.", "BUY NOW", "", None, "12 % !", "\u00c4RZTE \u00dcBER"]


def judge(texts: list[str | None], stage: DropShouting) -> list[str | None]:
    batch = pa.record_batch({"text": pa.array(texts, pa.large_string())})
    answer: list[str | None] = stage.open()(batch).to_pylist()
    return answer


def test_it_drops_capitals_and_nothing_else() -> None:
    assert judge(TEXTS, DropShouting()) == [None, "shouting", None, None, None, "shouting"]


@pytest.mark.parametrize(("text", "reason"), [("ABCdefghij", None), ("ABCDefghij", "shouting")])
def test_a_share_at_the_limit_is_kept(text: str, reason: str | None) -> None:
    assert judge([text], DropShouting(max_capital_share=0.3)) == [reason]


def test_the_answer_does_not_depend_on_how_rows_are_cut_into_batches() -> None:
    assert judge(TEXTS, DropShouting()) == [judge([text], DropShouting())[0] for text in TEXTS]
