"""The law of filters: one declared reason or null a row, however rows are cut into batches."""

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from curate.core.stage import Filter
from tests.laws.cases import FILTERS, Case, shipped
from tests.strategies import cuts, slices

every_filter = pytest.mark.parametrize("case", FILTERS, ids=lambda case: type(case.stage).__name__)
few = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def open_filter(case: Case) -> Filter:
    assert isinstance(case.stage, Filter)
    return case.stage


def test_every_filter_is_tried() -> None:
    assert shipped(Filter) == {type(case.stage) for case in FILTERS}


@every_filter
@few
@given(data=st.data())
def test_the_cut_into_batches_does_not_matter(case: Case, data: st.DataObject) -> None:
    batch, where = data.draw(case.batches), data.draw(cuts)
    judge = case.open()
    whole = judge(batch).to_pylist()
    assert [reason for part in slices(batch, where) for reason in judge(part).to_pylist()] == whole
    assert [judge(batch.slice(row, 1)).to_pylist() for row in range(batch.num_rows)] == [[reason] for reason in whole]


@every_filter
@few
@given(data=st.data())
def test_one_declared_reason_or_null_a_row(case: Case, data: st.DataObject) -> None:
    stage, batch = open_filter(case), data.draw(case.batches)
    before = batch.to_pylist()
    found = case.open()(batch)
    assert isinstance(found, pa.Array)
    assert (found.type, len(found)) == (pa.string(), batch.num_rows)
    assert set(found.to_pylist()) <= {None, *stage.reasons}
    assert batch.to_pylist() == before


@every_filter
def test_what_is_read_is_declared(case: Case) -> None:
    """A column that is not declared can be missing in a plan that was accepted."""
    stage = open_filter(case)
    batch = case.batch(list(case.examples))
    wanted = (*stage.columns_read(), *getattr(stage, "reads_if_there", ()))
    declared = batch.select([name for name in batch.schema.names if name in wanted])
    assert set(declared.schema.names) >= set(stage.columns_read())
    assert case.open()(declared) == case.open()(batch)


@every_filter
def test_some_examples_are_kept_and_some_dropped(case: Case) -> None:
    """A filter of the wrong polarity would keep what is bad (e2eAIOK#443)."""
    reasons = case.open()(case.batch(list(case.examples))).to_pylist()
    assert 0 < reasons.count(None) < len(reasons)


@every_filter
def test_an_empty_batch_gives_no_reasons(case: Case) -> None:
    found = case.open()(case.batch([]))
    assert (found.type, len(found)) == (pa.string(), 0)


@every_filter
def test_limits_are_of_declared_reasons_columns_and_options(case: Case) -> None:
    """What `curate why` shows of a decision must be there to be shown."""
    stage = open_filter(case)
    assert set(stage.limits) <= set(stage.reasons)
    for column, option in stage.limits.values():
        assert column in stage.columns_read()
        assert option in stage.options()
