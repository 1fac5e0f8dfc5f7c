"""Megatron-LM's and NeMo's `.bin` and `.idx`: a sequence a row, so that packing is kept.

Source: MMapIndexedDataset, version 1, in megatron/core/datasets/indexed_dataset.py.
"""

import struct

import numpy as np

from manifests.exports.split import Folder, Split

MAGIC = b"MMIDIDX\x00\x00"
VERSION = 1
DTYPE_CODES = {"<u2": 8, "<u4": 4}  # 4 is int32: ids are below 2^31, so the bytes are the same


def write(split: Split, folder: Folder) -> None:
    """`<split>.bin` and, when it is whole, `<split>.idx`."""
    with folder.file(f"{split.name}.bin") as file:
        for shard in split.shards():
            file.write(shard.rows)
    num_rows, row_bytes = split.num_rows, split.row_length * np.dtype(split.dtype).itemsize
    with folder.file(f"{split.name}.idx") as file:
        file.write(MAGIC + struct.pack("<QBQQ", VERSION, DTYPE_CODES[split.dtype], num_rows, num_rows + 1))
        file.write(np.full(num_rows, split.row_length, "<i4").tobytes())
        file.write((np.arange(num_rows, dtype="<i8") * row_bytes).tobytes())
        file.write(np.arange(num_rows + 1, dtype="<i8").tobytes())
