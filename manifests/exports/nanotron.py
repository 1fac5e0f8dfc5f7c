"""datatrove's and nanotron's `.ds`: tokens without a header, and where documents end.

Their readers take windows of sequence length + 1 tokens. Source: datatrove, DocumentTokenizer's
TokenizedFile and DatatroveFolderDataset.
"""

import numpy as np

from manifests.exports.split import Folder, Split


def write(split: Split, folder: Folder) -> None:
    """`NNNNN_<split>.ds`, `.ds.index` and `.ds.metadata` for each shard."""
    tokenizer = split.dataset.manifest["tokenizer"]["name"]
    width = np.dtype(split.dtype).itemsize
    for shard in split.shards():
        name = f"{shard.index:05d}_{split.name}.ds"
        num_tokens = shard.num_rows * split.row_length
        with folder.file(name) as file:
            file.write(shard.rows)
        with folder.file(f"{name}.index") as file:
            file.write(shard.ends.astype("<u8").tobytes())
        with folder.file(f"{name}.metadata") as file:
            file.write(f"{tokenizer}|{width}\n{num_tokens}\n{num_tokens / 1e9:.3f} BT".encode())
