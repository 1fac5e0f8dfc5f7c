"""Finding the record that kills its process: records run alone, each named before it is touched."""

from collections.abc import Callable, Collection

import pyarrow as pa

from curate.core.hashing import canonical_json


class Watch:
    """Says which record is in hand. `killed` are the records that must not run again."""

    def __init__(self, killed: Collection[str], announce: Callable[[str], None]) -> None:
        self._killed = killed
        self._announce = announce

    def may_run(self, row: pa.RecordBatch) -> bool:
        """Whether the record of a one-row batch may run; if so it has been announced."""
        name = canonical_json(row.column("origin")[0].as_py()).decode("ascii")
        if name in self._killed:
            return False
        self._announce(name)
        return True
