"""BiomedicalQuality: each limit from both sides, and what web rules drop."""

import pyarrow as pa
import pytest

from stages.quality import BiomedicalQuality, GopherQuality
from stages.statistics import TextStatistics

GOOD = {
    "num_words": 300,
    "mean_word_length": 5.8,
    "ellipsis_word_ratio": 0.0,
    "ellipsis_line_share": 0.0,
    "alphabetic_word_share": 0.95,
}


@pytest.mark.parametrize(
    ("column", "kept", "dropped", "reason"),
    [
        ("num_words", 25, 24, "too_few_words"),
        ("num_words", 100_000, 100_001, "too_many_words"),
        ("mean_word_length", 3.5, 3.4999, "short_words"),
        ("mean_word_length", 10.0, 10.0001, "long_words"),
        ("ellipsis_word_ratio", 0.1, 0.1001, "ellipses"),
        ("ellipsis_line_share", 0.3, 0.3001, "ellipsis_lines"),
        ("alphabetic_word_share", 0.65, 0.6499, "few_alphabetic_words"),
    ],
)
def test_limits(column: str, kept: float, dropped: float, reason: str) -> None:
    batch = pa.RecordBatch.from_pylist([GOOD, GOOD | {column: kept}, GOOD | {column: dropped}])
    assert BiomedicalQuality().open()(batch).to_pylist() == [None, None, reason]


def test_clinical_text_that_web_rules_drop() -> None:
    """Criteria in a list, in few English stop words; and letters with spaces between, which OCR leaves."""
    criteria = "- adults, creatinine clearance above 60 mL/min, no prior chemotherapy\n" * 6
    batch = pa.RecordBatch.from_pydict({"text": pa.array([criteria, "p a t i e n t " * 50], pa.large_string())})
    statistics = TextStatistics().open()(batch)
    assert GopherQuality().open()(statistics).to_pylist()[0] == "bullet_lines"
    assert BiomedicalQuality().open()(statistics).to_pylist() == [None, "short_words"]
