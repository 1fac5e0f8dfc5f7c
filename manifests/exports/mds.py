"""MosaicML streaming's shards: one column `tokens` of a fixed size, so the rows lie there as they are.

    uint32 number of samples, uint32 offsets (samples + 1, from the file's start), JSON, samples

Source: mosaicml/streaming, base/format/mds and index.json, version 2.
"""

import hashlib
import json
from typing import Any

import numpy as np

from curate.core.errors import PlanError
from manifests.exports.split import Folder, Shard, Split

MAX_BYTES = (1 << 32) - 1  # offsets are 32 bits wide
HASH = "sha1"  # what StreamingDataset(validate_hash=...) can be given


def write(split: Split, folder: Folder) -> None:
    """`<split>/shard.NNNNN.mds` for each shard, then `<split>/index.json`.

    Raises: PlanError where a shard has more bytes than 32-bit offsets reach.
    """
    row_bytes = split.row_length * np.dtype(split.dtype).itemsize
    columns: dict[str, Any] = {
        "column_encodings": [f"ndarray:{np.dtype(split.dtype).name}:{split.row_length}"],
        "column_names": ["tokens"],
        "column_sizes": [row_bytes],
        "compression": None,
        "format": "mds",
        "hashes": [HASH],
        "size_limit": None,
        "version": 2,
    }
    shards = []
    for shard in split.shards():
        head = _head(shard, row_bytes, json.dumps(columns, sort_keys=True).encode())
        name = f"shard.{shard.index:05d}.mds"
        with folder.file(f"{split.name}/{name}") as file:
            file.write(head)
            file.write(shard.rows)
        digest = hashlib.new(HASH, head)
        digest.update(shard.rows)
        raw = {"basename": name, "bytes": len(head) + len(shard.rows), "hashes": {HASH: digest.hexdigest()}}
        shards.append(columns | {"raw_data": raw, "samples": shard.num_rows, "zip_data": None})
    with folder.file(f"{split.name}/index.json") as file:
        file.write(json.dumps({"version": 2, "shards": shards}, sort_keys=True).encode())


def _head(shard: Shard, row_bytes: int, config: bytes) -> bytes:
    """What stands before the samples: their number, where each begins and the last ends, and the columns."""
    first = 4 + 4 * (shard.num_rows + 1) + len(config)
    if first + len(shard.rows) > MAX_BYTES:
        raise PlanError(
            f"a shard of {len(shard.rows)} bytes is too large for MDS; make the dataset with fewer per_shard"
        )
    offsets = first + row_bytes * np.arange(shard.num_rows + 1)
    return np.uint32(shard.num_rows).tobytes() + offsets.astype("<u4").tobytes() + config
