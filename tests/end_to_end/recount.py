"""Counting what is in the rows from the sidecars alone."""

import io
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from curate.core.storage import open_storage


def pieces_of(output: Path, manifest: dict[str, Any], split: str) -> list[dict[str, Any]]:
    """The lines of all document tables of a split, rows numbered through the split."""
    storage, folder = open_storage(str(output)), manifest["dataset_id"][:12]
    lines: list[dict[str, Any]] = []
    for number, shard in enumerate(manifest["splits"][split]["shards"]):
        table = pq.read_table(io.BytesIO(storage.read(f"{folder}/{shard['docs']['key']}")))
        first = number * manifest["format"]["rows_per_shard"]
        lines += [line | {"row": first + line["row"]} for line in table.to_pylist()]
    return lines


def groups_of(output: Path, manifest: dict[str, Any], split: str) -> list[str]:
    """The mix group of each row of a split. A row has one."""
    groups: dict[int, set[str]] = {}
    for line in pieces_of(output, manifest, split):
        groups.setdefault(line["row"], set()).add(line["group"])
    assert sorted(groups) == list(range(manifest["splits"][split]["rows"]))
    assert all(len(names) == 1 for names in groups.values())
    return [groups[row].pop() for row in sorted(groups)]


def ledger_of(output: Path, manifest: dict[str, Any]) -> list[dict[str, Any]]:
    storage, folder = open_storage(str(output)), manifest["dataset_id"][:12]
    parts = [storage.read(f"{folder}/{part['key']}") for part in manifest["ledger"]["parts"]]
    return [line for part in parts for line in pq.read_table(io.BytesIO(part)).to_pylist()]


def check_share(groups: list[str], share: str) -> int:
    """The rows of `general` are the share of the whole, and every prefix is mixed as the whole is."""
    is_general = np.array([group == "general" for group in groups])
    num_general, total = int(is_general.sum()), len(groups)
    assert num_general == round(Fraction(share) * total)
    prefix = np.arange(1, total + 1)
    assert (np.abs(np.cumsum(is_general) * total - prefix * num_general) < total).all()
    return num_general
