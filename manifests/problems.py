"""Lines that name file, expected and found; many equal faults become one line with a count."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from curate.core.errors import one_line
from curate.core.hashing import sha256
from curate.core.storage import NotFound
from manifests.layout import decode_parquet
from manifests.manifest import Dataset
from manifests.shape import Json


class Problems:
    """All that is wrong with a dataset, one line a fault, in the order of finding."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._tallies: dict[tuple[str, str], tuple[int, int]] = {}  # (file, what) -> (line, how many)

    def add(self, file: str, what: str) -> None:
        """A fault of `file`."""
        self.lines.append(one_line(f"{file}: {what}"))

    def expect(self, file: str, what: str, expected: Any, found: Any) -> bool:
        """Whether the two are equal; a fault, or one for each differing key, if not."""
        if isinstance(expected, Mapping) and isinstance(found, Mapping):
            keys = sorted(expected.keys() | found.keys())
            return all([self.expect(file, f"{what}.{k}", expected.get(k, 0), found.get(k, 0)) for k in keys])
        if expected != found:
            self.add(file, f"{what}: expected {expected}, found {found}")
        return bool(expected == found)

    def first(self, file: str, what: str, wrong: NDArray[np.bool_], detail: Callable[[int], str]) -> None:
        """As many faults of one kind as `wrong` has; `detail` describes the one at an index."""
        if wrong.any():
            self.tally(file, what, detail(int(wrong.argmax())), int(np.count_nonzero(wrong)))

    def tally(self, file: str, what: str, detail: str, count: int = 1) -> None:
        """`count` faults of one kind, the first of which is `detail`; later ones only raise the count."""
        if (file, what) not in self._tallies:
            self._tallies[file, what] = (len(self.lines), 0)
            self.add(file, f"{what}: {detail}")
        line, before = self._tallies[file, what]
        self._tallies[file, what] = (line, before + count)

    def report(self) -> list[str]:
        """The lines, each with the number of further faults of its kind."""
        lines = list(self.lines)
        for line, count in self._tallies.values():
            lines[line] += f" (and {count - 1} more)" if count > 1 else ""
        return lines


def read_file(dataset: Dataset, file: Json, problems: Problems) -> bytes | None:
    """The bytes of a small file that the manifest names, None where it is missing; size and SHA-256 are checked."""
    try:
        data = dataset.storage.read(dataset.key(file["key"]))
    except NotFound:
        problems.add(file["key"], f"expected {file['bytes']} bytes, found no such file")
        return None
    if problems.expect(file["key"], "bytes", file["bytes"], len(data)):
        problems.expect(file["key"], "sha256", file["sha256"], sha256(data))
    return data


def read_table(dataset: Dataset, file: Json, schema: Any, never_null: Iterable[str], problems: Problems) -> Any:
    """The table in a Parquet file that the manifest names, None where it is not one of this schema."""
    data = read_file(dataset, file, problems)
    if data is None:
        return None
    try:
        table = decode_parquet(data)
    except ValueError as error:
        problems.add(file["key"], f"expected a Parquet table, found {error}")
        return None
    nulls = [name for name in never_null if name in table.schema.names and table.column(name).null_count]
    if not problems.expect(file["key"], "columns with nulls", [], nulls):
        return None
    wanted, found = ({field.name: field.type for field in side} for side in (schema, table.schema))
    if wanted == found:
        return table
    names = [name for name in {**wanted, **found} if wanted.get(name) != found.get(name)]
    for name in names:
        problems.add(
            file["key"], f"column {name}: expected {wanted.get(name, 'none')}, found {found.get(name, 'none')}"
        )
    return None
