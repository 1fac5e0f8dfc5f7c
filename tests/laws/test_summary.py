"""The law of summaries: one table, however documents are cut and ordered, and tables are combined."""

import hashlib
from collections.abc import Callable
from typing import NamedTuple

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from curate.core.summary import NeedsSummary, Summary
from stages.score import CountRanks
from tests.laws.cases import FILTERS, MAPS, shipped
from tests.oracle import Cuts, summarize

cuts = st.builds(Cuts, seed=st.integers(0, 1 << 32))
SCORES = st.none() | st.sampled_from([0.0, 0.5, 0.9, 1.0, float("nan")]) | st.integers(0, 10_000).map(lambda n: n / 1e4)


@st.composite
def scored(draw: st.DrawFn) -> pa.RecordBatch:
    """Documents with hashed ids and scores, many of them equal."""
    scores = draw(st.lists(SCORES, max_size=40))
    start = draw(st.integers(0, 1000))
    ids = [hashlib.sha256(str(start + number).encode()).digest()[:16] for number in range(len(scores))]
    return pa.RecordBatch.from_pydict({"id": pa.array(ids, pa.binary(16)), "score": pa.array(scores, pa.float32())})


class Case(NamedTuple):
    summary: Summary
    documents: Callable[[], st.SearchStrategy[pa.RecordBatch]]


CASES = {f"top {share}": Case(CountRanks(column="score", share=share), scored) for share in (0.1, 0.5, 1.0)}


def test_every_summary_is_tried() -> None:
    needed = {type(case.stage.summary()) for case in (*MAPS, *FILTERS) if isinstance(case.stage, NeedsSummary)}
    assert needed == shipped(Summary) == {type(case.summary) for case in CASES.values()}


@pytest.mark.parametrize("max_rows", [1, 2, 3, 8, 1 << 16])
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
@settings(max_examples=30, deadline=None)
@given(data=st.data(), cuts=cuts)
def test_the_tables_depend_on_the_documents_alone(case: Case, max_rows: int, data: st.DataObject, cuts: Cuts) -> None:
    documents = data.draw(case.documents())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(case.summary), "max_rows", max_rows)
        if max_rows == 1:  # nothing can be told apart: only the first round is asked for
            patch.setattr(type(case.summary), "is_enough", lambda self, *tables: True)
        whole = summarize(case.summary, documents)
        assert summarize(case.summary, documents, cuts) == whole


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_no_documents_give_an_empty_table(case: Case) -> None:
    documents = pa.RecordBatch.from_pydict({"id": pa.array([], pa.binary(16)), "score": pa.array([], pa.float32())})
    (table,) = summarize(case.summary, documents)
    assert table.num_rows == 0
