"""In which order a training run sees rows: a pure function of (dataset, seed, epoch, position).

The number of ranks, of threads and of earlier calls appears nowhere, so any of them may change.
"""

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from manifests.permutation import permute

ORDERS = ("disk", "window", "full")
MIX_UNITS = 1 << 24  # weights are counted in these; exact up to 2^38 rows

Int64 = NDArray[np.int64]


class RowOrder:
    """The rows of one epoch of one split, which has `num_rows` rows in shards of `rows_per_shard`.

    `disk`: as they lie, which is shuffled already, and as AWS's own trainer reads them. `window`: shards
    in a random order, and the rows of each 64 of them shuffled, so that few shards are in use at once.
    `full`: one permutation over all rows.
    """

    def __init__(
        self, kind: str, num_rows: int, rows_per_shard: int, seed: int, epoch: int, *, window_shards: int = 64
    ) -> None:
        self._kind = kind
        self._num_rows = num_rows
        self._rows_per_shard = rows_per_shard
        self._key = (seed, epoch)
        self._window_shards = window_shards

    def rows(self, positions: Int64) -> Int64:
        """The numbers of the rows at these positions, each in [0, num_rows)."""
        if self._kind == "disk":
            return positions
        if self._kind == "full":
            return permute(positions, self._num_rows, "row", *self._key)
        return self._windowed(positions)

    def _windowed(self, positions: Int64) -> Int64:
        rows = np.empty_like(positions)
        windows = np.searchsorted(self._window_starts, positions, side="right") - 1
        for window in np.unique(windows):
            here = windows == window
            first, end = self._window_starts[window : window + 2]
            within = permute(positions[here] - first, int(end - first), "window", int(window), *self._key) + first
            shards = np.searchsorted(self._starts, within, side="right") - 1
            rows[here] = self._shards[shards] * self._rows_per_shard + within - self._starts[shards]
        return rows

    @cached_property
    def _shards(self) -> Int64:
        """The shards in the order of this epoch."""
        num_shards = -(-self._num_rows // self._rows_per_shard)
        return permute(np.arange(num_shards), num_shards, "shard", *self._key)

    @cached_property
    def _starts(self) -> Int64:
        """Where each shard begins, in that order, and at last the number of rows."""
        sizes = np.minimum(self._rows_per_shard, self._num_rows - self._shards * self._rows_per_shard)
        return np.concatenate([[0], np.cumsum(sizes)])

    @cached_property
    def _window_starts(self) -> Int64:
        return np.append(self._starts[:-1][:: self._window_shards], self._num_rows)


def mix_units(weights: list[float]) -> list[int]:
    """Weights as whole numbers that sum to MIX_UNITS, the largest remainders rounded up.

    Raises: ValueError where a weight is not positive and finite, or too small to give a row in 16 million.
    """
    if not weights or not all(0 < weight < float("inf") for weight in weights):
        raise ValueError(f"weights must be positive numbers: {weights}")
    exact = [weight / sum(weights) * MIX_UNITS for weight in weights]
    units = [int(one) for one in exact]
    by_remainder = sorted(range(len(units)), key=lambda i: (units[i] - exact[i], i))
    for i in by_remainder[: MIX_UNITS - sum(units)]:
        units[i] += 1
    if min(units) < 1:
        raise ValueError(f"the weight {min(weights)} of {sum(weights)} is less than one row in {MIX_UNITS}")
    return units


def mixed(positions: Int64, units: list[int]) -> tuple[Int64, Int64]:
    """(dataset, place in its own stream) of each position of a mix.

    The first dataset is spread evenly over all positions, the second over those that are left, and so on:
    among the first p positions each has its share, rounded, and any position is found without the others.
    """
    datasets = np.full(positions.shape, len(units) - 1)
    places = positions.copy()
    left, pending = MIX_UNITS, np.arange(len(positions))
    for number, weight in enumerate(units[:-1]):
        here = places[pending]
        before, after = _taken(here, weight, left), _taken(here + 1, weight, left)
        chosen = after > before
        datasets[pending[chosen]] = number
        places[pending[chosen]] = before[chosen]
        pending = pending[~chosen]
        places[pending] = here[~chosen] - before[~chosen]
        left -= weight
    return datasets, places


def _taken(positions: Int64, weight: int, total: int) -> Int64:
    """How many of the first `positions` belong to a dataset with `weight` of `total`: rounded to nearest."""
    return (2 * positions * weight + total) // (2 * total)
