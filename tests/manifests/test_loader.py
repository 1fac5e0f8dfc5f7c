"""The loader: every row exactly once an epoch, whatever the ranks, the kills and the resumes."""

import itertools
import json
import threading
from collections import Counter
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from curate.core.errors import StorageError
from curate.core.storage import open_storage
from manifests.loader import RowLoader, boundaries
from manifests.order import MIX_UNITS, ORDERS, RowOrder, mix_units, mixed
from manifests.permutation import permute
from manifests.rows import RowSet, open_rows
from manifests.steps import steps
from tests.manifests.builder import Tiny


@pytest.fixture
def rows(tmp_path: Path) -> RowSet:
    return open_rows(Tiny().publish(str(tmp_path / "out")))


def all_rows(rows: RowSet) -> list[list[int]]:
    return [rows.row("train", i).tolist() for i in range(rows.splits["train"])]


def ids(loader: RowLoader, limit: int | None = None) -> list[int]:
    """The row ids of the next batches."""
    found: list[int] = []
    for number, batch in enumerate(loader, 1):
        found += batch["row_id"].tolist()
        if number == limit:
            break
    return found


def endless(loader: RowLoader) -> Iterator[int]:
    """Row ids epoch after epoch."""
    while True:
        for batch in loader:
            yield from batch["row_id"].tolist()


def loaders(rows: RowSet, num_ranks: int, **options: Any) -> list[RowLoader]:
    options = {"global_batch": 4, "fields": ("row_id",), **options}
    return [RowLoader(rows, rank=rank, num_ranks=num_ranks, **options) for rank in range(num_ranks)]


@given(size=st.integers(1, 5000), key=st.integers())
def test_a_permutation_takes_each_position_to_another_place(size: int, key: int) -> None:
    found = permute(np.arange(size), size, key)
    assert np.array_equal(np.sort(found), np.arange(size))


def test_a_permutation_is_fixed_for_ever() -> None:
    assert permute(np.arange(10), 10, "row", 17, 0).tolist() == [7, 0, 3, 2, 9, 8, 4, 1, 6, 5]
    far = permute(np.array([0, 1, 10**7, 24_414_061]), 24_414_062, "row", 17, 0)
    assert far.tolist() == [12911581, 107762, 14859072, 7013040]


@given(
    kind=st.sampled_from(ORDERS), num_rows=st.integers(1, 300), per_shard=st.integers(1, 40), window=st.integers(1, 5)
)
def test_an_order_has_each_row_once(kind: str, num_rows: int, per_shard: int, window: int) -> None:
    order = RowOrder(kind, num_rows, per_shard, seed=3, epoch=1, window_shards=window)
    assert sorted(order.rows(np.arange(num_rows)).tolist()) == list(range(num_rows))


def test_a_window_has_few_shards_in_use() -> None:
    order = RowOrder("window", 1000, 10, seed=3, epoch=0, window_shards=4)
    found = order.rows(np.arange(1000)) // 10
    assert all(len(set(found[first : first + 40])) == 4 for first in range(0, 1000, 40))
    assert len(set(found[:40].tolist()) & {0, 1, 2, 3}) < 4  # shards are shuffled
    assert not np.array_equal(
        found, RowOrder("window", 1000, 10, seed=3, epoch=1, window_shards=4).rows(np.arange(1000))
    )


@given(st.lists(st.floats(0.01, 100), min_size=1, max_size=6), st.integers(0, 10**9))
def test_a_mix_gives_each_dataset_its_share_and_each_place_once(weights: list[float], far: int) -> None:
    units = mix_units(weights)
    assert sum(units) == MIX_UNITS
    datasets, places = mixed(np.arange(2000), units)
    for number, unit in enumerate(units):
        mine = places[datasets == number]
        assert mine.tolist() == list(range(len(mine)))
        assert abs(len(mine) - 2000 * unit / MIX_UNITS) <= len(units)
    there = mixed(np.arange(far, far + 50), units)
    alone = [mixed(np.array([far + i]), units) for i in range(50)]
    assert there[0].tolist() == [int(one[0][0]) for one in alone]
    assert there[1].tolist() == [int(one[1][0]) for one in alone]


@pytest.mark.parametrize("weights", [[], [1.0, 0.0], [1.0, -1.0], [float("nan")], [1.0, 1e-9]])
def test_weights_that_give_nothing_are_refused(weights: list[float]) -> None:
    with pytest.raises(ValueError, match="weight"):
        mix_units(weights)


def test_disk_order_is_that_of_the_stock_trainer(rows: RowSet) -> None:
    # DistributedSampler(shuffle=False): rank r has rows r, r + n, ...
    first, second = loaders(rows, 2)
    assert ids(first) == list(range(0, 20, 2))
    assert ids(second) == list(range(1, 20, 2))


@pytest.mark.parametrize("order", ORDERS)
def test_batches_hold_the_rows_of_the_dataset(rows: RowSet, order: str) -> None:
    expected = all_rows(rows)
    fields = ("input_ids", "labels", "attention_mask", "row_id")
    loader = RowLoader(rows, global_batch=1, order=order, seed=5, fields=fields)
    seen = []
    for batch in loader:
        [number] = batch["row_id"].tolist()
        seen.append(number)
        assert batch["input_ids"].dtype == batch["labels"].dtype == np.int64
        assert batch["input_ids"].tolist() == batch["labels"].tolist() == [expected[number]]
        assert batch["attention_mask"].tolist() == [[1] * rows.row_length]
        batch["labels"][:] = -100  # NVIDIA/Megatron-LM#1269: what a trainer changes must not come back
        assert batch["input_ids"].min() >= 0
    assert sorted(seen) == list(range(23))
    assert (seen == list(range(23))) == (order == "disk")


@pytest.mark.parametrize("order", ORDERS)
def test_every_row_once_an_epoch_through_resumes_by_other_ranks(rows: RowSet, order: str) -> None:
    """4 -> 2 -> 8 ranks with a resume of a resume, across the end of an epoch (pytorch/torchtitan#811, #3907)."""
    options: dict[str, Any] = {"global_batch": 8, "order": order, "seed": 11}
    whole = RowLoader(rows, fields=("row_id",), **options)
    expected = [ids(whole), ids(whole), ids(whole)]
    assert [len(set(epoch)) for epoch in expected] == [16, 16, 16]
    seen: list[int] = []
    state: dict[str, Any] | None = None
    for num_ranks, num_steps in ((4, 1), (2, 2), (8, 1), (1, 1), (4, 1)):  # killed after each of these
        parts = loaders(rows, num_ranks, **options)
        for part in parts:
            part.load_state_dict(json.loads(json.dumps(state))) if state else None
        found = [list(itertools.islice(endless(part), num_steps * 8 // num_ranks)) for part in parts]
        states = [part.state_dict() for part in parts]
        assert all(one == states[0] for one in states)
        state = states[0]
        seen += [number for together in zip(*found, strict=True) for number in together]
    assert seen == [number for epoch in expected for number in epoch]


def test_the_next_epoch_has_another_order_and_disk_the_same(rows: RowSet) -> None:
    for order in ORDERS:
        loader = RowLoader(rows, global_batch=1, order=order, fields=("row_id",))
        first, second = ids(loader), ids(loader)
        assert loader.epoch == 2
        assert sorted(first) == sorted(second)
        assert (first == second) == (order == "disk")


def test_seek_goes_where_a_run_would_be(rows: RowSet) -> None:
    run = RowLoader(rows, global_batch=4, order="full", fields=("row_id",))
    expected = ids(run) + ids(run)
    for num_rows in range(0, 40, 4):
        loader = RowLoader(rows, global_batch=4, order="full", fields=("row_id",))
        loader.seek(num_rows)
        assert ids(loader) == expected[num_rows : 20 if num_rows < 20 else 40]


def test_batches_made_ahead_are_not_counted_as_taken(rows: RowSet) -> None:
    loader = RowLoader(rows, global_batch=2, micro_batch=2, num_ahead=8, fields=("row_id",))
    batches = iter(loader)
    assert isinstance(batches, Generator)
    next(batches), next(batches)
    assert loader.state_dict()["consumed"] == 4
    before = threading.active_count()
    batches.close()
    assert threading.active_count() == before - 1
    assert ids(loader, limit=1) == [4, 5]


def test_the_state_of_another_run_is_refused(rows: RowSet, tmp_path: Path) -> None:
    state = RowLoader(rows, global_batch=1, seed=3).state_dict()
    for options in ({"seed": 4}, {"seed": 3, "order": "full"}, {"seed": 3, "split": "validation"}):
        with pytest.raises(ValueError, match="the state is of another run"):
            RowLoader(rows, global_batch=1, **options).load_state_dict(state)
    with pytest.raises(ValueError, match="version"):
        RowLoader(rows, global_batch=1, seed=3).load_state_dict({})


def test_a_mix_repeats_each_dataset_in_its_own_epochs(rows: RowSet, tmp_path: Path) -> None:
    loader = RowLoader(
        [rows, rows], weights=[0.75, 0.25], global_batch=4, micro_batch=4, order="full", fields=("row_id", "dataset")
    )
    taken: dict[int, list[int]] = {0: [], 1: []}
    for number, batch in enumerate(loader):
        if number == 46:
            break
        for dataset, row in zip(batch["dataset"].tolist(), batch["row_id"].tolist(), strict=True):
            taken[dataset].append(row)
    assert (len(taken[0]), len(taken[1])) == (138, 46)
    assert set(Counter(taken[0]).values()) == {6}
    assert set(Counter(taken[1]).values()) == {2}
    assert sorted(taken[1][:23]) == list(range(23))
    with pytest.raises(TypeError, match="no end"):
        len(loader)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"global_batch": 3, "num_ranks": 2}, "global_batch 3 is no multiple of num_ranks x micro_batch = 2"),
        ({"global_batch": 24}, "23 rows do not fill one global batch of 24"),
        ({"global_batch": 0}, "global_batch 0"),
        ({"global_batch": 1, "rank": 1}, "rank 1 of 1 ranks"),
        ({"global_batch": 1, "order": "random"}, "unknown order 'random'"),
        ({"global_batch": 1, "split": "test"}, "no rows in split 'test'"),
        ({"global_batch": 1, "fields": ("tokens",)}, "unknown fields"),
        ({"global_batch": 1, "weights": [1, 1]}, "one weight for each dataset"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(rows: RowSet, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        RowLoader(rows, **options)


def test_positions_and_boundaries_by_hand() -> None:
    found = boundaries([np.array([0, 3], np.uint16), np.array([0], np.uint16)], 5)
    assert found["position_ids"].tolist() == [[0, 1, 2, 0, 1], [0, 1, 2, 3, 4]]
    assert found["cu_seqlens"].tolist() == [0, 3, 5, 10]
    assert boundaries([np.array([0, 4], np.uint16)], 4)["cu_seqlens"].tolist() == [0, 4]  # begins at the last label


def test_documents_begin_where_the_sidecar_says(rows: RowSet) -> None:
    loader = RowLoader(rows, global_batch=1, fields=("input_ids", "position_ids", "cu_seqlens", "row_id"))
    for batch in loader:
        begins = np.flatnonzero(batch["input_ids"][0] == 1)  # BOS: each document begins with one
        assert (batch["position_ids"][0][begins] == 0).all()
        assert set(begins.tolist()) <= set(batch["cu_seqlens"].tolist())
        assert batch["cu_seqlens"][-1] == rows.row_length


def test_shifted_labels_are_the_next_tokens(rows: RowSet) -> None:
    batch = next(iter(RowLoader(rows, global_batch=1, shift_labels=True)))
    row = rows.row("train", 0).tolist()
    assert batch["input_ids"].tolist() == [row[:-1]]
    assert batch["labels"].tolist() == [row[1:]]


def test_a_cache_gives_the_same_rows_and_each_file_is_fetched_once(output_url: str, tmp_path: Path) -> None:
    url = Tiny().publish(output_url)
    expected = all_rows(open_rows(url))
    cached = open_rows(url, str(tmp_path / "cache"))
    loader = RowLoader(cached, global_batch=1, order="window")
    assert sorted(batch["input_ids"][0].tolist() for batch in loader) == sorted(expected)
    files = [path for path in (tmp_path / "cache").rglob("*") if path.is_file() and not path.name.startswith(".")]
    assert len(files) == 3  # the shards of train
    times = {path: path.stat().st_ino for path in files}
    assert all_rows(open_rows(url, str(tmp_path / "cache"))) == expected
    assert {path: path.stat().st_ino for path in files} == times


def test_a_cache_keeps_within_its_bytes(tmp_path: Path) -> None:
    url = Tiny().publish(str(tmp_path / "out"))
    rows = open_rows(url, str(tmp_path / "cache"), max_cache_bytes=300)
    assert len(all_rows(rows)) == 23
    left = [path for path in (tmp_path / "cache").rglob("*") if path.is_file() and not path.name.startswith(".")]
    assert sum(path.stat().st_size for path in left) <= 300


def test_a_cached_file_that_was_cut_short_is_fetched_again(tmp_path: Path) -> None:
    url = Tiny().publish(str(tmp_path / "out"))
    expected = all_rows(open_rows(url, str(tmp_path / "cache")))
    for path in (tmp_path / "cache").rglob("*"):
        if path.is_file() and not path.name.startswith("."):
            path.write_bytes(path.read_bytes()[:-1])
    assert all_rows(open_rows(url, str(tmp_path / "cache"))) == expected


def test_a_shard_with_another_digest_is_never_read(tmp_path: Path) -> None:
    # mosaicml/streaming#759: fetched again, then an error that names it, in the thread that trains
    tiny = Tiny()
    url = tiny.publish(str(tmp_path / "out"))
    key = f"{tiny.manifest['dataset_id'][:12]}/{tiny.manifest['splits']['train']['shards'][1]['rows']['key']}"
    storage = open_storage(url)
    data = bytearray(storage.read(key))
    data[5] ^= 1
    storage.delete(key)
    storage.put(key, bytes(data))
    loader = RowLoader(open_rows(url, str(tmp_path / "cache")), global_batch=1)
    with pytest.raises(StorageError, match=r"train/rows-00001.* expected SHA-256 .* 4 times"):
        list(loader)


def test_steps_are_those_that_the_loader_makes(tmp_path: Path) -> None:
    url = Tiny().publish(str(tmp_path))
    found = steps(url, global_batch=4, epochs=3)
    loader = RowLoader(open_rows(url), global_batch=4, micro_batch=4)
    assert found["steps_per_epoch"] == len(loader) == 5
    assert (found["steps"], found["rows_left_out"], found["tokens_per_step"]) == (15, 3, 64)
