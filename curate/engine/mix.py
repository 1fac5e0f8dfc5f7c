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
    whole = sum(rows for group, rows in zip(groups, available, strict=True) if group.share is None)
    places = share_rows([group.share for group in groups], whole)
    for index, group in enumerate(groups):
        if group.share is None:
            places[index] = available[index] * group.epochs
        elif places[index] > available[index] * group.epochs:
            epochs = -(-places[index] // max(1, available[index]))
            raise PlanError(
                f"mix group {group.name!r} has {available[index]} train rows, but {group.share} of the mix is "
                f"{places[index]}; add input, lower its share, or set its epochs to {epochs}"
            )
    return Allocation(names, tuple(available), tuple(places))


def share_rows(shares: Sequence[float | None], whole: int) -> list[int]:
    """Rows of each share, round(share x total) of a total that includes them all, beside `whole` other rows."""
    exact = [Fraction(str(share)) if share is not None else Fraction(0) for share in shares]
    rest = 1 - sum(exact)
    places = [round(share * whole / rest) for share in exact]
    for _ in range(len(shares) * 4):  # each turn moves the total by less than the one before
        total = whole + sum(places)
        moved = [round(share * total) for share in exact]
        if moved == places:
            break
        places = moved
    return places


def order(split: str, allocation: Allocation, first: int, num_rows: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Group and number within the group of the places [first, first + num_rows) of a split.

    Train interleaves the groups so that every prefix is mixed as the whole is; other splits keep
    them apart, one after the other. Numbers past a group's rows begin again at its first.
    """
    counts = np.array(allocation.places, np.int64)
    if split == TRAIN and (counts > 0).sum() > 1:
        from curate.engine.error_feedback import error_feedback  # loads numba, which only a mix needs

        group = error_feedback(counts, first + num_rows)
    else:
        group = np.repeat(np.arange(len(counts)), counts)[: first + num_rows]
    number = np.empty(len(group), np.int64)
    for index in range(len(counts)):
        mine = group == index
        number[mine] = np.arange(int(mine.sum()))
    return group[first:].astype(np.int64), number[first:]
