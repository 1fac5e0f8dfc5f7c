"""The memory of Arrow string columns as arrays that compiled loops read."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray


def text_buffers(texts: pa.Array) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """UTF-8 bytes and offsets: text i is data[offsets[i] : offsets[i + 1]]; null is an empty text.

    Shapes: data (bytes of the buffer), offsets (texts + 1). Both share the column's memory and are
    read-only; a sliced column gives a part of the offsets, and these do not begin at 0.
    """
    texts = texts.cast(pa.large_string())
    if texts.null_count:
        texts = pc.fill_null(texts, "")
    _, offsets, data = texts.buffers()
    if not len(texts):
        return np.zeros(0, np.uint8), np.zeros(1, np.int64)
    positions = np.frombuffer(offsets, np.int64)[texts.offset : texts.offset + len(texts) + 1]
    return np.frombuffer(data or b"", np.uint8), positions
