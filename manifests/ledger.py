"""Reading the ledger: its parts are sorted by (id, fate), and each names its first and last id."""

from collections import Counter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from manifests.layout import decode_parquet, id_array, ledger_schema
from manifests.manifest import Dataset
from manifests.problems import Problems, read_table
from manifests.shape import Json

FATES = ("dropped", "kept", "merged", "quarantined")  # in the order of sorting


class Fate(NamedTuple):
    """What is counted together."""

    source: str
    fate: str
    stage: str
    reason: str


def recount_ledger(dataset: Dataset, problems: Problems) -> Counter[Fate] | None:
    """Records by source, fate, stage and reason; None where a part could not be read or order is lost."""
    counts: Counter[Fate] = Counter()
    whole = True
    before: tuple[bytes, int] | None = None
    for part in dataset.manifest["ledger"]["parts"]:
        table = read_table(dataset, part, ledger_schema(), ("id", "source", "fate"), problems)
        if table is None:
            whole = False
            continue
        ids, fates = id_array(table.column("id")), _fate_codes(table)
        problems.expect(part["key"], "rows", part["rows"], len(ids))
        problems.expect(part["key"], "first_id", part["first_id"], hex_id(ids[0]) if len(ids) else None)
        problems.expect(part["key"], "last_id", part["last_id"], hex_id(ids[-1]) if len(ids) else None)
        whole &= _is_sorted(part["key"], ids, fates, before, problems)
        before = (ids[-1], int(fates[-1])) if len(ids) else before
        _check_fates(part["key"], table, problems)
        counts.update(_count(table))
    return counts if whole else None


def hex_id(value: bytes) -> str:
    """32 hex digits of an id that numpy may have stripped of its last zeros."""
    return bytes(value).ljust(16, b"\0").hex()


def _fate_codes(table: Any) -> NDArray[np.int64]:
    coded = table.column("fate").combine_chunks().dictionary_encode()
    rank = {fate: i for i, fate in enumerate(FATES)}
    codes = np.array([rank.get(fate, len(FATES)) for fate in coded.dictionary.to_pylist()], dtype=np.int64)
    return codes[coded.indices.to_numpy()] if len(codes) else codes


def _is_sorted(
    key: str,
    ids: NDArray[np.bytes_],
    fates: NDArray[np.int64],
    before: tuple[bytes, int] | None,
    problems: Problems,
) -> bool:
    if before is not None:
        ids = np.concatenate([np.array([before[0]], dtype="S16"), ids])
        fates = np.concatenate([[before[1]], fates])
    back = (ids[1:] < ids[:-1]) | ((ids[1:] == ids[:-1]) & (fates[1:] < fates[:-1]))
    problems.first(
        key, "order by (id, fate)", back, lambda i: f"expected {hex_id(ids[i])} or later, found {hex_id(ids[i + 1])}"
    )
    return not back.any()


def _check_fates(key: str, table: Any, problems: Problems) -> None:
    """What each fate must say of its record."""
    fates = _fate_codes(table)
    ids = id_array(table.column("id"))
    names = table.column("fate")
    unknown = fates == len(FATES)
    problems.first(key, "fate", unknown, lambda i: f"{hex_id(ids[i])}: expected one of {FATES}, found {names[i]}")
    said = {"split": (1,), "row": (1,), "kept_id": (2,), "stage": (0, 2, 3), "reason": (0, 2, 3)}
    for column, fates_that_say in said.items():
        silent = np.isin(fates, fates_that_say) & table.column(column).is_null().to_numpy()
        problems.first(key, column, silent, lambda i: f"{hex_id(ids[i])} ({names[i]}): expected one, found none")


def _count(table: Any) -> Counter[Fate]:
    columns = list(Fate._fields)
    groups = table.select(columns).group_by(columns).aggregate([([], "count_all")])
    lines = zip(*(groups.column(name).to_pylist() for name in columns), strict=True)
    numbers = groups.column("count_all").to_pylist()
    return Counter({Fate(*(word or "" for word in line)): n for line, n in zip(lines, numbers, strict=True)})


def ledger_columns(dataset: Dataset, part: Json, columns: list[str]) -> Any:
    """Some columns of a part, without checks."""
    return decode_parquet(dataset.storage.read(dataset.key(part["key"])), columns)
