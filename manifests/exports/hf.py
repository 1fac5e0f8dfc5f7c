"""The folder that neuronx-distributed opens with `datasets.load_from_disk`, unchanged.

    state.json   dataset_info.json   data-00000-of-00120.<sha256>.arrow ...

A data file is an Arrow IPC stream: one shard's rows. `labels` is an unshifted copy of `input_ids`
(the model shifts) and `attention_mask` is all ones. There is no padding, and no way to give any:
on Trainium the loss counts every position, and these types cannot hold a label of -100.

Written by hand: files that datasets 4 saves name the feature type `List`, which the versions that
trainers pin (3.0 to 3.6) cannot open. pyarrow is loaded by the functions that need it.
"""

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from curate.core.hashing import digest
from manifests.layout import Ints

KIND = "hf"
ROWS_PER_BATCH = 1000  # the batch of datasets itself; many small ones make opening slow
MAX_OFFSET = (1 << 31) - 1  # of a list's values in one batch
INFO, STATE = "dataset_info.json", "state.json"  # state last: with it the folder can be opened

Json = dict[str, Any]


def column_types(dtype: str) -> dict[str, str]:
    """The element type of each column, by the type of the rows. The loader turns all into int64."""
    ids, labels = {"<u2": ("uint16", "uint16"), "<u4": ("uint32", "int32")}[dtype]
    return {"input_ids": ids, "attention_mask": "int8", "labels": labels}


def token_bytes(dtype: str) -> int:
    """Bytes that a token takes in the data files: 5, or 9."""
    return sum(np.dtype(kind).itemsize for kind in column_types(dtype).values())


def folder(split: str) -> str:
    """Where the export of a split lies, relative to the manifest."""
    return f"exports/{KIND}/{split}/"


def file_stem(split: str, index: int, num_files: int) -> str:
    """The name of a data file up to its digest; its suffix is `.arrow`."""
    return f"{folder(split)}data-{index:05d}-of-{num_files:05d}."


def features(dtype: str) -> Json:
    """The columns as `datasets` describes them, in the words that all its versions know."""
    return {
        name: {"feature": {"dtype": kind, "_type": "Value"}, "_type": "Sequence"}
        for name, kind in column_types(dtype).items()
    }


def info(dtype: str) -> Json:
    """What `dataset_info.json` says."""
    return {"citation": "", "description": "", "features": features(dtype), "homepage": "", "license": ""}


def state(dataset_id: str, split: str, keys: Sequence[str], dtype: str) -> Json:
    """What `state.json` says of data files with these keys, in order. Format torch is 8 times as fast to serve."""
    return {
        "_data_files": [{"filename": key.rpartition("/")[2]} for key in keys],
        "_fingerprint": digest([dataset_id, KIND, split])[:16],
        "_format_columns": list(column_types(dtype)),
        "_format_kwargs": {},
        "_format_type": "torch",
        "_output_all_columns": False,
        "_split": split,
    }


def schema(dtype: str) -> Any:
    """The Arrow schema of a data file."""
    import pyarrow as pa

    fields = [(name, pa.list_(pa.type_for_alias(kind))) for name, kind in column_types(dtype).items()]
    about = json.dumps({"info": {"features": features(dtype)}})
    return pa.schema(fields, metadata={"huggingface": about})


def encode(rows: Ints, dtype: str) -> memoryview:
    """The data file of a shard: full rows (num_rows, length), a record batch for each thousand."""
    import pyarrow as pa

    counted = pa.MockOutputStream()  # the size first, so that no growing buffer is copied
    _write(rows, dtype, counted)
    buffer = pa.allocate_buffer(counted.size())
    with pa.FixedSizeBufferWriter(buffer) as sink:
        _write(rows, dtype, sink)
    return memoryview(buffer).cast("B")


def _write(rows: Ints, dtype: str, sink: Any) -> None:
    import pyarrow as pa

    with pa.ipc.new_stream(sink, schema(dtype)) as stream:
        step = rows_per_batch(rows.shape[1])
        for first in range(0, len(rows), step):
            stream.write_batch(_batch(rows[first : first + step], dtype))


def rows_per_batch(length: int) -> int:
    """Rows of a record batch: the positions in its lists are 32 bits wide."""
    return min(ROWS_PER_BATCH, MAX_OFFSET // length)


def _batch(rows: Ints, dtype: str) -> Any:
    import pyarrow as pa

    num_rows, length = rows.shape
    offsets = pa.array(np.arange(num_rows + 1, dtype=np.int32) * np.int32(length))
    ids = np.ascontiguousarray(rows).ravel()
    values = {"input_ids": ids, "attention_mask": np.ones(ids.size, np.int8), "labels": ids}
    columns = [
        pa.ListArray.from_arrays(offsets, pa.array(values[name]).cast(kind))  # refuses what does not fit
        for name, kind in column_types(dtype).items()
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema(dtype))


def decode(batch: Any) -> dict[str, Ints]:
    """The columns of a record batch, (num_rows, length) each. Raises ValueError where rows differ in length."""
    found = {}
    for name in batch.schema.names:
        column = batch.column(name)
        values = column.flatten().to_numpy(zero_copy_only=False)
        lengths = set(column.value_lengths().to_pylist())
        if len(lengths) > 1 or None in lengths:
            raise ValueError(f"rows of {name} that differ in length or are null")
        found[name] = values.reshape(batch.num_rows, -1)
    return found
