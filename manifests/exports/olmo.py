"""OLMo-core's and dolma's token files: no header in spite of the name `.npy`, and where documents lie.

Source: OLMo-core, NumpyFSLDataset, and dolma's tokens command, which writes the `.csv.gz`.
"""

import gzip

import numpy as np

from manifests.exports.split import Folder, Split


def write(split: Split, folder: Folder) -> None:
    """`<split>-NNNNN.npy` and `.csv.gz` for each shard."""
    for shard in split.shards():
        stem = f"{split.name}-{shard.index:05d}"
        with folder.file(f"{stem}.npy") as file:
            file.write(shard.rows)
        begins = np.append(0, shard.ends[:-1])
        spans = "".join(f"{start},{end}\n" for start, end in zip(begins.tolist(), shard.ends.tolist(), strict=True))
        with folder.file(f"{stem}.csv.gz") as file:
            file.write(gzip.compress(spans.encode(), mtime=0))
