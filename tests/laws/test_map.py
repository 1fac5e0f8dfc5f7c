"""The law of maps: the same rows in the same order, the declared columns, however rows are cut into batches."""

import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from curate.core.stage import Map
from tests.laws.cases import MAPS, Case, answers_digest, shipped
from tests.strategies import cuts, slices

every_map = pytest.mark.parametrize("case", MAPS, ids=lambda case: type(case.stage).__name__)
few = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def open_map(case: Case) -> Map:
    assert isinstance(case.stage, Map)
    return case.stage


def test_every_map_is_tried() -> None:
    assert shipped(Map) == {type(case.stage) for case in MAPS}


@every_map
@few
@given(data=st.data())
def test_the_cut_into_batches_does_not_matter(case: Case, data: st.DataObject) -> None:
    batch, where = data.draw(case.batches), data.draw(cuts)
    map_batch = open_map(case).open()
    whole = map_batch(batch)
    parts = [map_batch(part) for part in slices(batch, where)]
    assert pa.Table.from_batches(parts).combine_chunks() == pa.Table.from_batches([whole])
    rows = [map_batch(batch.slice(row, 1)).to_pylist() for row in range(batch.num_rows)]
    assert [row for part in rows for row in part] == whole.to_pylist()


@every_map
@few
@given(data=st.data())
def test_rows_and_columns_are_kept_and_the_declared_ones_set(case: Case, data: st.DataObject) -> None:
    stage, batch = open_map(case), data.draw(case.batches)
    before = batch.to_pylist()
    out = stage.open()(batch)
    out.validate(full=True)
    assert batch.to_pylist() == before, "a batch belongs to whoever made it"
    types = {field.name: field.type for field in batch.schema if field.name not in stage.removes}
    assert {field.name: field.type for field in out.schema} == types | dict(stage.adds)
    for name in set(types) - set(stage.adds):
        assert out.column(name) == batch.column(name)


@every_map
def test_what_is_read_is_declared(case: Case) -> None:
    """A column that is not declared can be missing in a plan that was accepted."""
    stage = open_map(case)
    batch = case.batch(list(case.examples))
    declared = batch.select([name for name in batch.schema.names if name in stage.columns_read()])
    assert set(declared.schema.names) == set(stage.columns_read())
    out = stage.open()(declared)
    assert [out.column(name) for name in stage.adds] == [stage.open()(batch).column(name) for name in stage.adds]


@every_map
def test_an_empty_batch_has_the_same_columns(case: Case) -> None:
    map_batch = open_map(case).open()
    assert map_batch(case.batch([])).schema == map_batch(case.batch(list(case.examples))).schema
    assert map_batch(case.batch([])).num_rows == 0


@pytest.mark.parametrize("seed", ["0", "1"])
def test_answers_do_not_depend_on_the_hash_seed_or_locale(seed: str) -> None:
    """Maps and filters, in one process a seed."""
    root = Path(__file__).parents[2]
    program = "from tests.laws.cases import answers_digest; print(answers_digest())"
    environment = os.environ | {"PYTHONHASHSEED": seed, "LC_ALL": "C", "TZ": "Asia/Kathmandu"}
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=root, env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == answers_digest()
