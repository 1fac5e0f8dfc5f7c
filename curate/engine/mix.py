"""How the rows of mix groups become one sequence: counts by share, order by error feedback."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from curate.core.errors import PlanError
from curate.engine.sinks import ALL, TRAIN
from curate.plan.plan import Group, Plan


@dataclass(frozen=True)
class Allocation:
    """Rows of each group in one split: how many there are, and how many places they take."""

    names: tuple[str, ...]
    available: tuple[int, ...]
    places: tuple[int, ...]

    @property
    def num_rows(self) -> int:
        """Rows of the split."""
        return sum(self.places)


def groups_of(plan: Plan) -> tuple[Group, ...]:
    """The mix groups; without a mix one group holds all sources."""
    return plan.groups or (Group(name=ALL, sources=tuple(source.name for source in plan.sources)),)


def allocate(plan: Plan, split: str, available: Sequence[int]) -> Allocation:
    """Places for the groups of a split. A share of train rows counts all train rows, its own included.

    Raises PlanError where a group has too few rows for its share and its epochs.
    """
    groups = groups_of(plan)
    names = tuple(group.name for group in groups)
    if split != TRAIN:
        return Allocation(names, tuple(available), tuple(available))
    pairs = list(zip(groups, available, strict=True))
    whole = sum(rows * group.epochs for group, rows in pairs if group.share is None)
    shares = share_rows([group.share for group in groups], whole)
    places = [rows * group.epochs if group.share is None else n for (group, rows), n in zip(pairs, shares, strict=True)]
    for (group, rows), wanted in zip(pairs, places, strict=True):
        if wanted > rows * group.epochs:
            epochs = f", or set its epochs to {-(-wanted // rows)}" if rows else ""
            raise PlanError(
                f"mix group {group.name!r} has {rows} train rows, but {group.share} of the mix is {wanted}; "
                f"add input to it, lower its share{epochs}"
            )
    return Allocation(names, tuple(available), tuple(places))


def share_rows(shares: Sequence[float | None], whole: int) -> list[int]:
    """Rows of each share, round(share x total) of a total that includes them all, beside `whole` other rows."""
    exact = [Fraction(str(share)) if share is not None else Fraction(0) for share in shares]
    rest = 1 - sum(exact)
    places = [round(share * whole / rest) for share in exact]
    while True:  # a larger total never gives fewer rows, so the total moves one way, and it is bounded
        total = whole + sum(places)
        moved = [round(share * total) for share in exact]
        if moved == places:
            return places
        places = moved


def order(split: str, allocation: Allocation, first: int, num_rows: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Group and number within the group of the places [first, first + num_rows) of a split.

    Train interleaves the groups so that every prefix is mixed as the whole is; other splits keep
    them apart, one after the other. Numbers past a group's rows begin again at its first.
    """
    counts = np.array(allocation.places, np.int64)
    if split == TRAIN and (counts > 0).sum() > 1:
        from curate.engine.error_feedback import error_feedback  # loads numba, which only a mix needs

        group, number = error_feedback(counts, first, first + num_rows)
        return group, number
    place = np.arange(first, first + num_rows)
    ends = np.cumsum(counts)
    group = np.searchsorted(ends, place, side="right")
    return group, place - (ends - counts)[group]
