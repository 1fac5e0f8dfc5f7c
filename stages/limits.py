"""Rules that hold a column of numbers against an option."""

from collections.abc import Mapping
from typing import ClassVar, Protocol

import pyarrow as pa
import pyarrow.compute as pc


class Limited(Protocol):
    """A filter whose rules are limits."""

    limits: ClassVar[Mapping[str, tuple[str, str]]]  # reason -> the column, and the option `min_...` or `max_...`


def broken(stage: Limited, batch: pa.RecordBatch) -> dict[str, pa.Array]:
    """For each reason the rows that are below a minimum or above a maximum."""
    failed = {}
    for reason, (column, option) in stage.limits.items():
        breaks = pc.less if option.startswith("min_") else pc.greater
        failed[reason] = breaks(batch.column(column), getattr(stage, option))
    return failed
