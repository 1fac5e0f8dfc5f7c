"""Rows for a training run, in an order that is a pure function of (dataset, seed, epoch, position).

    loader = RowLoader(open_rows("s3://bucket/corpus", cache_dir="/local/cache"),
                       global_batch=1024, micro_batch=1, rank=3, num_ranks=8, seed=17, order="window")
    for batch in loader:        # {"input_ids": (micro_batch, length) int64, "labels": ..., "attention_mask": ...}
        ...
        state = loader.state_dict()     # the same on all ranks; any number of ranks may go on from it

The first rows of an epoch go to ranks 0, 1, 2, ... in turn. What does not fill a global batch at the
end of an epoch is left out, in every rank alike. Needs numpy alone; batches are made ahead in a thread.
"""

import contextlib
import itertools
import queue
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manifests.order import ORDERS, RowOrder, mix_units, mixed
from manifests.permutation import NAME as PERMUTATION
from manifests.rows import RowSet

FIELDS = ("input_ids", "labels", "attention_mask", "position_ids", "cu_seqlens", "row_id", "dataset")
STATE_VERSION = 1

Batch = dict[str, NDArray[Any]]
Int64 = NDArray[np.int64]


class RowLoader:
    """Micro-batches of one split for one rank.

    `rows`: a dataset, or several with their `weights` (shares of rows), which are then repeated without
    end, each in an order of its own for each of its epochs. `fields`: which of FIELDS a batch holds:
    `labels` are the ids themselves (`shift_labels`: inputs and labels are one shorter, labels the next
    token), `position_ids` begin anew with each document, `cu_seqlens` (int32) says where documents start
    in the batch laid end to end, `row_id` the number of each row in its dataset, `dataset` which one.

    Raises: ValueError for arguments that do not fit each other.
    """

    def __init__(
        self,
        rows: RowSet | Sequence[RowSet],
        *,
        weights: Sequence[float] | None = None,
        split: str = "train",
        global_batch: int,
        micro_batch: int = 1,
        rank: int = 0,
        num_ranks: int = 1,
        seed: int = 0,
        order: str = "disk",
        fields: Sequence[str] = ("input_ids", "labels", "attention_mask"),
        shift_labels: bool = False,
        num_ahead: int = 8,
    ) -> None:
        self._sets = [rows] if isinstance(rows, RowSet) else list(rows)
        self._units = mix_units(list(weights)) if weights is not None else None
        self._split, self._seed, self._order, self._fields = split, seed, order, tuple(fields)
        self._rank, self._num_ranks, self._micro_batch, self._global_batch = rank, num_ranks, micro_batch, global_batch
        self._shift_labels, self._num_ahead = shift_labels, num_ahead
        self._orders: dict[tuple[int, int], RowOrder] = {}
        self._epoch = self._consumed = 0
        self._check()

    def _check(self) -> None:
        step = self._num_ranks * self._micro_batch
        wrong = [
            (not self._sets, "no dataset"),
            (len(self._sets) > 1 and self._units is None, f"{len(self._sets)} datasets need weights"),
            (self._units is not None and len(self._units) != len(self._sets), "want one weight for each dataset"),
            (len({one.row_length for one in self._sets}) > 1, "the datasets have rows of different lengths"),
            (any(one.splits.get(self._split, 0) < 1 for one in self._sets), f"no rows in split {self._split!r}"),
            (self._order not in ORDERS, f"unknown order {self._order!r}; want one of {', '.join(ORDERS)}"),
            (bool(set(self._fields) - set(FIELDS)), f"unknown fields {sorted(set(self._fields) - set(FIELDS))}"),
            (min(step, self._num_ahead) < 1, "num_ranks, micro_batch and num_ahead must be at least 1"),
            (not 0 <= self._rank < self._num_ranks, f"rank {self._rank} of {self._num_ranks} ranks"),
        ]
        for is_wrong, what in wrong:
            if is_wrong:
                raise ValueError(what)
        if self._global_batch < 1 or self._global_batch % step:
            raise ValueError(f"global_batch {self._global_batch} is no multiple of num_ranks x micro_batch = {step}")
        if self._units is None and self._num_rows() < self._global_batch:
            raise ValueError(f"{self._num_rows()} rows do not fill one global batch of {self._global_batch}")

    def _num_rows(self) -> int:
        return self._sets[0].splits[self._split]

    def _usable_rows(self) -> int:
        """Rows of an epoch that fill global batches."""
        return self._num_rows() // self._global_batch * self._global_batch

    @property
    def epoch(self) -> int:
        """The epoch that the next batch belongs to; always 0 in a mix, whose datasets have epochs of their own."""
        return self._epoch

    def __len__(self) -> int:
        """Micro-batches until this epoch ends. Raises TypeError for a mix, which has no end."""
        if self._units is not None:
            raise TypeError("a mix of datasets has no end")
        return max(0, self._usable_rows() - self._consumed) // (self._num_ranks * self._micro_batch)

    def __iter__(self) -> Iterator[Batch]:
        """The batches that are left of this epoch; then `epoch` is the next one."""
        step = self._num_ranks * self._micro_batch
        count = itertools.count() if self._units is not None else range(len(self))
        epoch, first = self._epoch, self._consumed
        for batch in _made_ahead((lambda i=i: self._batch(epoch, first + i * step) for i in count), self._num_ahead):
            self._consumed += step
            yield batch
        self._epoch, self._consumed = epoch + 1, 0

    def state_dict(self) -> dict[str, Any]:
        """What was handed out so far, as JSON values; the same in every rank that is as far."""
        return self._identity() | {"epoch": self._epoch, "consumed": self._consumed}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on where `state` was taken, between global batches; with any number of ranks, in no time.

        The sizes of batches may change too; then an epoch ends where batches of the new size fill it.

        Raises: ValueError where it belongs to other datasets, another seed, split or order.
        """
        for name, mine in self._identity().items():
            if state.get(name) != mine:
                raise ValueError(f"the state is of another run: {name} is {state.get(name)!r}, here {mine!r}")
        self._epoch, self._consumed = state["epoch"], state["consumed"]

    def seek(self, num_rows: int) -> None:
        """Go on after the first `num_rows` rows of the run, all ranks together: consumed samples in other words."""
        if self._units is not None:
            self._epoch, self._consumed = 0, num_rows
        else:
            self._epoch, self._consumed = divmod(num_rows, self._usable_rows())

    def _identity(self) -> dict[str, Any]:
        return {
            "version": STATE_VERSION,
            "datasets": [one.dataset_id for one in self._sets],
            "weights": self._units,
            "split": self._split,
            "seed": self._seed,
            "order": self._order if self._order == "disk" else f"{self._order}/{PERMUTATION}",
        }

    def _batch(self, epoch: int, first: int) -> Batch:
        """The micro-batch of this rank among the rows from position `first` on."""
        positions = first + self._rank + self._num_ranks * np.arange(self._micro_batch)
        datasets, numbers = self._rows_at(epoch, positions)
        self._announce(epoch, positions)
        ids = np.empty((len(positions), self._sets[0].row_length), np.int64)
        for number in np.unique(datasets):
            here = datasets == number
            ids[here] = self._sets[number].read(self._split, numbers[here])
        return self._filled(ids, datasets, numbers)

    def _rows_at(self, epoch: int, positions: Int64) -> tuple[Int64, Int64]:
        """(dataset, row) of each position."""
        if self._units is None:
            return np.zeros_like(positions), self._order_of(0, epoch).rows(positions)
        datasets, places = mixed(positions, self._units)
        numbers = np.empty_like(places)
        sizes = np.array([one.splits[self._split] for one in self._sets])
        epochs = places // sizes[datasets]
        for number, turn in {*zip(datasets.tolist(), epochs.tolist(), strict=True)}:
            here = (datasets == number) & (epochs == turn)
            numbers[here] = self._order_of(number, turn).rows(places[here] % sizes[number])
        return datasets, numbers

    def _order_of(self, number: int, epoch: int) -> RowOrder:
        if (number, epoch) not in self._orders:
            self._orders = {key: order for key, order in self._orders.items() if key[0] != number}
            rows = self._sets[number]
            made = RowOrder(self._order, rows.splits[self._split], rows.rows_per_shard, self._seed, epoch)
            self._orders[number, epoch] = made
        return self._orders[number, epoch]

    def _announce(self, epoch: int, positions: Int64) -> None:
        """Let shards come that are needed when as many rows as a shard has were handed out."""
        if not any(one.fetches for one in self._sets):
            return
        later = positions + self._sets[0].rows_per_shard
        if self._units is None:
            later = later[later < self._num_rows()]
        datasets, numbers = self._rows_at(epoch, later)
        for number in np.unique(datasets):
            self._sets[number].announce(self._split, numbers[datasets == number])

    def _filled(self, ids: Int64, datasets: Int64, numbers: Int64) -> Batch:
        inputs, labels = (ids[:, :-1], ids[:, 1:]) if self._shift_labels else (ids, ids)
        batch: Batch = {}
        if {"position_ids", "cu_seqlens"} & set(self._fields):
            starts = [self._sets[d].starts(self._split, int(i)) for d, i in zip(datasets, numbers, strict=True)]
            batch |= boundaries(starts, inputs.shape[1])
        batch["input_ids"] = np.ascontiguousarray(inputs)
        batch["labels"] = labels.copy()
        batch["attention_mask"] = np.ones_like(inputs)
        batch["row_id"], batch["dataset"] = numbers, datasets
        return {name: batch[name] for name in self._fields}


def boundaries(starts: Sequence[NDArray[Any]], length: int) -> Batch:
    """`position_ids` (rows, length) int64 and `cu_seqlens` int32 of rows whose documents start there."""
    positions = np.tile(np.arange(length), (len(starts), 1))
    ends = [0]
    for row, found in enumerate(starts):
        inside = found[found < length].astype(np.int64)
        sizes = np.diff(inside, append=length)
        positions[row] -= np.repeat(inside, sizes)
        ends += [*(inside[1:] + row * length).tolist(), (row + 1) * length]
    return {"position_ids": positions, "cu_seqlens": np.array(ends, np.int32)}


def _made_ahead(calls: Iterator[Any], num_ahead: int) -> Iterator[Batch]:
    """The answers of `calls` in order, up to `num_ahead` of them made in a thread before they are asked for."""
    made: queue.Queue[Any] = queue.Queue(num_ahead)
    stopped = threading.Event()

    def make() -> None:
        try:
            for call in calls:
                made.put((call(), None))
                if stopped.is_set():
                    return
            made.put((None, None))
        except Exception as error:  # handed to who waits for the batch
            made.put((None, error))

    thread = threading.Thread(target=make, name="curate-batches", daemon=True)
    thread.start()
    try:
        while True:
            batch, error = made.get()
            if error is not None:
                raise error
            if batch is None:
                return
            yield batch
    finally:
        stopped.set()
        while thread.is_alive():
            with contextlib.suppress(queue.Empty):
                made.get(timeout=0.05)  # the thread may wait for room
