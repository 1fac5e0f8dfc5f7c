"""The exchange is a sort: however rows are cut into runs, files, row groups and ranges, they come back sorted."""

import dataclasses
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from curate.core.errors import StorageError
from curate.core.storage import LocalStorage, Storage
from curate.engine import exchange, merge
from curate.engine.exchange import KEY_SPACE, Files, SortedRuns, range_of, sort, sorted_file
from curate.engine.merge import Run, block_size, read_keys
from curate.engine.receipt import Artifact, Written

SCHEMA = pa.schema([("key", pa.uint64()), ("id", pa.binary(16)), ("row", pa.uint32()), ("word", pa.string())])
ORDER = ("key", "id", "word")
LAST = KEY_SPACE - 1
KEYS = st.one_of(
    st.sampled_from([0, 1, 7, 1 << 32, 1 << 63, LAST - 1, LAST]),  # many equal ones, and the ends
    st.integers(0, LAST),
)
ROWS = st.lists(st.tuples(KEYS, st.integers(0, 3), st.sampled_from([None, "a", "b"])), max_size=60)
LIMIT = 1 << 27


@pytest.fixture(scope="module")
def storage(tmp_path_factory: pytest.TempPathFactory) -> Storage:
    return LocalStorage(str(tmp_path_factory.mktemp("storage")))


@pytest.fixture
def small_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """Row groups of one to three rows, and blocks of one to a few groups."""
    monkeypatch.setattr(exchange, "GROUP_BYTES", 100)
    monkeypatch.setattr(merge, "MIN_BLOCK_BYTES", 1)


def table_of(rows: list[tuple[int, int, str | None]]) -> pa.Table:
    """Rows (key, number of an id, word); `row` numbers them."""
    columns = [
        pa.array([key for key, _, _ in rows], pa.uint64()),
        pa.array([bytes([number] * 16) for _, number, _ in rows], pa.binary(16)),
        pa.array(range(len(rows)), pa.uint32()),
        pa.array([word for _, _, word in rows], pa.string()),
    ]
    return pa.table(columns, schema=SCHEMA)


def plainly_sorted(table: pa.Table) -> list[Any]:
    """The order columns of a table, sorted by Python; null comes last."""
    lines = zip(*(table.column(name).to_pylist() for name in ORDER), strict=True)
    return sorted(lines, key=lambda line: (line[0], line[1], line[2] is None, line[2] or ""))


def lines_of(tables: list[pa.Table]) -> list[Any]:
    return [line for table in tables for line in zip(*(table.column(name).to_pylist() for name in ORDER), strict=True)]


def stored(storage: Storage, *artifacts: Artifact | Written) -> list[dict[str, Any]]:
    """Artifacts in storage, as receipts name them."""
    for artifact in artifacts:
        if isinstance(artifact, Artifact):
            storage.put(artifact.output()["key"], artifact.data)
    return [artifact.output() if isinstance(artifact, Artifact) else artifact.output for artifact in artifacts]


def cut_runs(data: st.DataObject, storage: Storage, table: pa.Table) -> list[Run]:
    """The rows dealt to runs by chance; a run is one file, or several that follow each other."""
    num_runs = data.draw(st.integers(1, 5))
    chosen = np.array(data.draw(st.lists(st.integers(0, num_runs - 1), min_size=len(table), max_size=len(table))))
    runs = []
    for number in range(num_runs):
        mine = sort(table.filter(pa.array(chosen == number)), ORDER)
        bounds = sorted(data.draw(st.lists(st.integers(0, len(mine)), max_size=2)))
        parts = [
            mine.slice(first, stop - first)
            for first, stop in zip([0, *bounds], [*bounds, len(mine)], strict=True)
            if stop > first
        ]
        files = stored(storage, *(sorted_file("rows", part) for part in parts))
        runs.append(Run(tuple(files)))
    return runs


@pytest.mark.usefixtures("small_groups")
@settings(deadline=None, max_examples=150)
@given(ROWS, st.integers(1, 4), st.integers(1, 2000), st.data())
def test_any_cut_into_runs_files_groups_and_ranges_is_a_plain_sort(
    storage: Storage, rows: list[Any], num_parts: int, limit_bytes: int, data: st.DataObject
) -> None:
    table = table_of(rows)
    runs = cut_runs(data, storage, table)
    found: list[pa.Table] = []
    numbers: list[int] = []
    for part in range(num_parts):
        low, high = range_of(part, num_parts)
        for batch in merge.merge(storage, runs, ORDER, low, high, limit_bytes):
            assert batch.num_rows
            keys = batch.column("key").to_pylist()
            assert all(low <= key < high for key in keys)
            found.append(batch)
            numbers += batch.column("row").to_pylist()
    assert lines_of(found) == plainly_sorted(table)
    assert sorted(numbers) == list(range(len(rows)))


@pytest.mark.usefixtures("small_groups")
@settings(deadline=None, max_examples=60)
@given(st.integers(2, 40), st.integers(2, 5), st.integers(1, 500), st.data())
def test_one_key_may_fill_all_that_is_in_hand_of_every_run(
    storage: Storage, num_rows: int, num_runs: int, limit_bytes: int, data: st.DataObject
) -> None:
    """A giant key, with a few rows before and after it: ids come in order over all runs."""
    ids = data.draw(st.lists(st.integers(0, 255), min_size=num_rows, max_size=num_rows))
    around: list[tuple[int, int, str | None]] = [(6, 1, None), (8, 2, None)]
    giant: list[tuple[int, int, str | None]] = [(7, number, "a") for number in ids]
    table = table_of(giant + around * num_runs)
    runs = cut_runs(data, storage, table)
    found = list(merge.merge(storage, runs, ORDER, 0, KEY_SPACE, limit_bytes))
    assert lines_of(found) == plainly_sorted(table)


@pytest.mark.parametrize("key", [0, 5, LAST])
@pytest.mark.parametrize("deal", ["in turn", "one run after the other"])
@pytest.mark.usefixtures("small_groups")
def test_equal_keys_beyond_many_row_groups_come_in_bounded_batches(deal: str, key: int, storage: Storage) -> None:
    """One key alone, 4 runs of 2,000 rows: a batch holds no more than the group in hand of each run."""
    numbers = np.arange(8000).reshape(2000, 4).T if deal == "in turn" else np.arange(8000).reshape(4, 2000)
    tables = []
    for run in numbers.tolist():
        ids = pa.array([number.to_bytes(16, "big") for number in run], pa.binary(16))
        tables.append(table_of([(key, 0, None)] * 2000).set_column(1, "id", ids))
    runs = [Run(tuple(stored(storage, sorted_file("rows", table)))) for table in tables]
    group = max(pq.read_metadata(f"{storage.url}/{runs[0].files[0]['key']}").row_group(0).num_rows, 1)
    assert group < 10
    found: list[bytes] = []
    for batch in merge.merge(storage, runs, ORDER, 0, KEY_SPACE, 1):
        found += batch.column("id").to_pylist()
        assert batch.num_rows <= 4 * group
    assert found == [number.to_bytes(16, "big") for number in range(8000)]


@settings(deadline=None)
@given(ROWS)
def test_sort_is_a_plain_sort(rows: list[Any]) -> None:
    table = table_of(rows)
    assert lines_of([sort(table, ORDER)]) == plainly_sorted(table)
    halves = pa.concat_tables([table.slice(0, len(rows) // 2), table.slice(len(rows) // 2)])
    assert sort(halves, ("key",)).column("key").to_pylist() == sorted(table.column("key").to_pylist())


@given(st.lists(KEYS), st.integers(1, 50))
def test_ranges_cover_all_keys_without_overlap(keys: list[int], num_parts: int) -> None:
    bounds = [range_of(part, num_parts) for part in range(num_parts)]
    assert bounds[0][0] == 0 and bounds[-1][1] == KEY_SPACE
    assert all(one[1] == other[0] for one, other in pairwise(bounds))
    for key in keys:
        low, high = bounds[key * num_parts >> 64]
        assert low <= key < high


def random_table(num_rows: int, seed: int) -> pa.Table:
    chance = np.random.default_rng(seed)
    ids = pa.Array.from_buffers(pa.binary(16), num_rows, [None, pa.py_buffer(chance.bytes(16 * num_rows))])
    keys = pa.array(chance.integers(0, LAST, num_rows, np.uint64, endpoint=True))
    rows = pa.array(np.arange(num_rows, dtype=np.uint32))
    return pa.table([keys, ids, rows, pa.nulls(num_rows, pa.string())], schema=SCHEMA)


@dataclasses.dataclass(frozen=True)
class Counting(LocalStorage):
    """Keeps (key, offset, bytes) of each read."""

    reads: list[tuple[str, int, int]] = dataclasses.field(default_factory=list, compare=False)

    def read(self, key: str, offset: int = 0, length: int | None = None) -> bytes:
        data = super().read(key, offset, length)
        self.reads.append((key, offset, len(data)))
        return data


def test_reads_are_whole_blocks_and_nothing_is_read_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange, "GROUP_BYTES", 50_000)
    storage = Counting(str(tmp_path))
    runs = [Run(tuple(stored(storage, sorted_file("rows", sort(random_table(60_000, n), ORDER))))) for n in range(3)]
    size = runs[0].files[0]["bytes"]
    rows = sum(batch.num_rows for batch in merge.merge(storage, runs, ORDER, 0, KEY_SPACE, LIMIT))
    assert rows == 180_000
    assert len(storage.reads) == 6  # of each file its footer and one block
    read = sum(num_bytes for _, _, num_bytes in storage.reads)
    assert read <= sum(run.files[0]["bytes"] for run in runs)
    storage.reads.clear()
    quarter = list(merge.merge(storage, runs, ORDER, *range_of(1, 4), LIMIT))
    assert 40_000 < sum(batch.num_rows for batch in quarter) < 50_000
    assert len(storage.reads) == 3  # footers are remembered
    assert sum(num_bytes for _, _, num_bytes in storage.reads) < 3 * size / 2


def test_a_smaller_limit_means_shorter_blocks_not_other_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merge, "MIN_BLOCK_BYTES", 1 << 16)
    storage = Counting(str(tmp_path))
    runs = [Run(tuple(stored(storage, sorted_file("rows", sort(random_table(60_000, n), ORDER))))) for n in range(3)]
    wide = pa.concat_tables(merge.merge(storage, runs, ORDER, 0, KEY_SPACE, LIMIT))
    storage.reads.clear()
    narrow = pa.concat_tables(merge.merge(storage, runs, ORDER, 0, KEY_SPACE, 1 << 20))
    assert narrow.equals(wide)
    assert len(storage.reads) > 9
    groups = 600 << 10  # a block holds at least one row group
    assert max(num_bytes for _, _, num_bytes in storage.reads) <= max(groups, (1 << 20) // 3)


def test_files_outside_the_range_are_not_touched(tmp_path: Path) -> None:
    storage = Counting(str(tmp_path))
    (output,) = stored(storage, sorted_file("rows", table_of([(10, 0, None), (20, 0, None)])))
    for low, high in ((0, 10), (21, KEY_SPACE)):
        assert list(merge.merge(storage, [Run((output,))], ORDER, low, high, LIMIT)) == []
        assert read_keys(storage, [output], SCHEMA, low, high).num_rows == 0
    assert storage.reads == []
    assert read_keys(storage, [output], SCHEMA, 10, 11).column("key").to_pylist() == [10]


def test_rows_that_left_a_home_get_its_number(storage: Storage) -> None:
    (output,) = stored(storage, sorted_file("rows", table_of([(10, 0, None), (20, 0, None)])))
    (rows,) = merge.merge(storage, [Run((output,), 5)], ("key", "id"), 0, KEY_SPACE, LIMIT)
    assert rows.column("home").to_pylist() == [5 << 32, (5 << 32) + 1]
    assert "row" not in rows.schema.names


def test_a_file_that_is_not_what_its_receipt_says_is_refused(storage: Storage) -> None:
    (one,) = stored(storage, sorted_file("rows", random_table(10, 1)))
    (other,) = stored(storage, sorted_file("rows", random_table(90_000, 2)))
    mixed = one | {"footer_bytes": other["footer_bytes"], "bytes": other["bytes"]}
    with pytest.raises((StorageError, pa.ArrowInvalid, OSError)):
        list(merge.merge(storage, [Run((mixed,))], ORDER, 0, KEY_SPACE, LIMIT))


def batches(table: pa.Table, rows: int) -> Iterator[pa.RecordBatch]:
    yield from table.combine_chunks().to_batches(max_chunksize=rows)


@pytest.mark.parametrize("is_put_at_once", [True, False])
def test_runs_are_sorted_files_of_bounded_size(
    is_put_at_once: bool, storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exchange, "RUN_BYTES", 100_000)
    table = random_table(10_000, 4)
    runs = SortedRuns("rows", SCHEMA, ORDER, storage if is_put_at_once else None)
    for batch in batches(table, 700):
        runs.add(batch)
    made = runs.finish()
    assert all(isinstance(one, Written if is_put_at_once else Artifact) for one in made)
    outputs = stored(storage, *made)
    assert [output["rows"] for output in outputs] == [3500, 3500, 3000]
    for output in outputs:
        keys = pq.read_table(f"{storage.url}/{output['key']}").column("key").to_pylist()
        assert keys == sorted(keys)
        assert (output["first_key"], output["last_key"]) == (keys[0], keys[-1])
    merged = merge.merge(storage, [Run((output,)) for output in outputs], ORDER, 0, KEY_SPACE, LIMIT)
    assert pa.concat_tables(merged).equals(sort(table, ORDER))


@pytest.mark.parametrize("is_sorted", [True, False])
def test_files_follow_each_other_and_keep_the_order(
    is_sorted: bool, storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exchange, "GROUP_BYTES", 20_000)
    monkeypatch.setattr(exchange, "RUN_BYTES", 100_000)
    table = sort(random_table(10_000, 5), ORDER)
    files = Files("rows", storage, is_sorted=is_sorted)
    for batch in batches(table, 700):
        files.add(batch)
    outputs = stored(storage, *files.finish())
    assert len(outputs) == 3
    tables = [pq.read_table(f"{storage.url}/{output['key']}") for output in outputs]
    assert pa.concat_tables(tables).equals(table)
    if is_sorted:
        ends = [(output["first_key"], output["last_key"]) for output in outputs]
        assert ends == [(found["key"][0].as_py(), found["key"][-1].as_py()) for found in tables]
        merged = merge.merge(storage, [Run(tuple(outputs))], ORDER, 0, KEY_SPACE, LIMIT)
        assert pa.concat_tables(merged).equals(table)


def test_words_have_a_dictionary_and_the_key_alone_has_statistics(storage: Storage) -> None:
    (output,) = stored(storage, sorted_file("rows", table_of([(1, 1, "a"), (2, 2, "b")])))
    group = pq.read_metadata(f"{storage.url}/{output['key']}").row_group(0)
    columns = {group.column(index).path_in_schema: group.column(index) for index in range(4)}
    assert [name for name, column in columns.items() if column.has_dictionary_page] == ["word"]
    assert [name for name, column in columns.items() if column.is_stats_set] == ["key"]


@pytest.mark.parametrize(
    ("num_runs", "limit", "expected"),
    [
        (0, 1 << 29, 16 << 20),
        (64, 1 << 29, 8 << 20),
        (128, 1 << 29, 4 << 20),
        (21, 1 << 27, (1 << 27) // 21),
        (512, 1 << 27, 1 << 20),
    ],
)
def test_blocks_share_the_limit(num_runs: int, limit: int, expected: int) -> None:
    assert block_size(num_runs, limit) == expected


def test_a_file_that_gives_no_rows_takes_no_part(storage: Storage) -> None:
    (output,) = stored(storage, sorted_file("rows", SCHEMA.empty_table()))
    assert list(merge.merge(storage, [Run((output,))], ORDER, 0, KEY_SPACE, LIMIT)) == []
    assert SortedRuns("rows", SCHEMA, ORDER, storage).finish() == []
    (gap,) = stored(storage, sorted_file("rows", table_of([(10, 0, None), (20, 0, None)])))
    assert list(merge.merge(storage, [Run((gap,))], ORDER, 12, 15, LIMIT)) == []
    assert pc.sum(read_keys(storage, [gap], SCHEMA, 12, 15).column("key")).as_py() is None
