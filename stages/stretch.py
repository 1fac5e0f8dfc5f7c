"""What readers share: the account of one stretch of an input, and the rows read from it."""

from collections import Counter
from typing import Any

import pyarrow as pa

from curate.core.stage import Quarantined, Records

BATCH_BYTES = 4 << 20  # of text or content, after which a stretch is handed over
BATCH_ROWS = 10_000  # records of any fate
KINDS = ("record", "framing", "skipped", "lost")


def check_max_record_bytes(max_record_bytes: int) -> None:
    """Raise ValueError for a reader's limit that no record could keep."""
    if max_record_bytes < 1:
        raise ValueError(f"max_record_bytes: found {max_record_bytes}, wanted 1 or more, such as 64 MiB")


class Stretch:
    """Records and bytes since `first`; `close` turns them into Records and begins the next stretch.

    `num_records` is counted by the reader as it frames, apart from the fates it enters.
    """

    def __init__(self, schema: pa.Schema, first: int) -> None:
        self._schema = schema
        self.first = first
        self._clear()

    def _clear(self) -> None:
        self.num_records = 0
        self.num_bytes: Counter[str] = Counter()  # by kind, see KINDS
        self._rows: list[dict[str, Any]] = []
        self._drops: Counter[str] = Counter()
        self._quarantined: list[Quarantined] = []
        self._batch_bytes = 0

    @property
    def full(self) -> bool:
        """Whether it is time to hand over what was read."""
        return self._batch_bytes >= BATCH_BYTES or self.num_records >= BATCH_ROWS

    def keep(self, row: dict[str, Any], num_bytes: int) -> None:
        """Enter a document whose large column holds `num_bytes`."""
        self._rows.append(row)
        self._batch_bytes += num_bytes

    def drop(self, reason: str) -> None:
        """Enter a record that is counted only."""
        self._drops[reason] += 1

    def quarantine(self, record: Quarantined) -> None:
        """Enter a record that could not be read."""
        self._quarantined.append(record)

    def close(self, end: int, content_bytes: int | None = None) -> Records:
        """The stretch [first, end). Content is counted by position unless a number is given."""
        records = Records(
            batch=pa.RecordBatch.from_pylist(self._rows, schema=self._schema),
            num_records=self.num_records,
            drops=dict(self._drops),
            quarantined=tuple(self._quarantined),
            first=self.first,
            end=end,
            content_bytes=end - self.first if content_bytes is None else content_bytes,
            **{f"{kind}_bytes": self.num_bytes[kind] for kind in KINDS},
        )
        self.first = end
        self._clear()
        return records
