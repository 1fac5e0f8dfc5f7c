"""From texts to MinHash signatures and the rows of their bands."""

import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from curate.core.exchange import Send, Sent
from curate.core.stage import Columns
from stages.ids import Flags, id_array
from stages.kernels.buffers import text_buffers
from stages.kernels.minhash import band_keys, find_unstable, sign

LENGTH_BITS, RANK_BITS = 48, 16


def preferences(keep: tuple[str, ...], rank: pa.Array, num_bytes: pa.Array) -> NDArray[np.uint64]:
    """A number a document, smaller for those that are kept first. Shape: (documents,)."""
    preference = np.zeros(len(rank), np.uint64)
    for name in keep:
        if name == "source_order":
            preference = preference << np.uint64(RANK_BITS) | rank.to_numpy().astype(np.uint64)
        else:
            shortness = np.uint64((1 << LENGTH_BITS) - 1) - num_bytes.to_numpy().astype(np.uint64)
            preference = preference << np.uint64(LENGTH_BITS) | shortness
    return preference


def normalized(texts: pa.Array) -> pa.Array:
    """The texts in NFKC where that can change their units. Null is an empty text."""
    data, offsets = text_buffers(texts)
    unstable = np.flatnonzero(find_unstable(data, offsets))
    if not len(unstable):
        return texts
    changed = [data[offsets[one] : offsets[one + 1]].tobytes().decode("utf-8", "replace") for one in unstable]
    mask = np.zeros(len(texts), bool)
    mask[unstable] = True
    replaced = pa.array([unicodedata.normalize("NFKC", text) for text in changed], pa.large_string())
    return pc.replace_with_mask(texts.cast(pa.large_string()), pa.array(mask), replaced)


@dataclass(frozen=True)
class SendBands(Send):
    """A row for each band and one for the whole text; documents of fewer units than a shingle have the latter alone.

    `key` is a hash of the band, or `whole` itself in the row of the whole; documents without units have no row.
    Stays home: the whole's hash of 128 bits, the preference, and the signature (null where the whole is compared).
    """

    ngram: int
    bands: int
    rows: int
    keep: tuple[str, ...]

    name = "bands"
    columns: ClassVar[Columns] = {"row": pa.uint32(), "preference": pa.uint64(), "whole": pa.uint64()}

    def open(self) -> Callable[[pa.RecordBatch], Sent]:
        """See Send."""
        return self._send

    def _send(self, batch: pa.RecordBatch) -> Sent:
        texts = batch.column("text")
        found, wholes, num_units = sign(*text_buffers(normalized(texts)), self.ngram, self.bands * self.rows)
        preference = preferences(self.keep, batch.column("rank"), pc.fill_null(pc.binary_length(texts), 0))
        documents = {"id": batch.column("id"), "row": batch.column("row"), "preference": pa.array(preference)}
        long = num_units >= self.ngram
        kept = documents | {"whole": id_array(wholes), "signature": signature_array(found, long)}
        keys = np.column_stack([wholes[:, 0], band_keys(found, self.bands)])
        wanted = np.column_stack([num_units > 0, *[long] * self.bands])
        which = pa.array(np.nonzero(wanted)[0])
        rows = {"key": pa.array(keys[wanted])} | {name: column.take(which) for name, column in documents.items()}
        rows["whole"] = pa.array(wholes[:, 0]).take(which)
        return Sent(
            rows=pa.RecordBatch.from_pydict(rows),
            kept=pa.RecordBatch.from_pydict(kept).filter(pa.array(num_units > 0)),
        )


def signature_array(signatures: NDArray[np.uint32], valid: Flags) -> pa.Array:
    """Signatures as little-endian bytes, null where they are not valid."""
    lengths = np.where(valid, signatures.shape[1] * 4, 0)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    data = signatures[valid].astype("<u4").tobytes()
    buffers = [pa.array(valid).buffers()[1], pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.large_binary(), len(valid), buffers)


def signature_values(signatures: pa.Array, num_values: int) -> NDArray[np.uint32]:
    """The valid ones of signatures. Shape: (valid, num_values)."""
    valid = signatures.drop_null()
    _, offsets, data = valid.buffers()
    start = int(np.frombuffer(offsets, np.int64)[valid.offset]) if len(valid) else 0
    values = np.frombuffer(data or b"", "<u4", count=len(valid) * num_values, offset=start)
    return values.reshape(-1, num_values)


def value_array(values: NDArray[np.uint32], offsets: NDArray[np.int64]) -> pa.Array:
    """Stretches of numbers, each from one offset to the next, as little-endian bytes."""
    buffers = [None, pa.py_buffer((offsets * 4).tobytes()), pa.py_buffer(values.astype("<u4").tobytes())]
    return pa.Array.from_buffers(pa.large_binary(), len(offsets) - 1, buffers)


def value_stretches(sketches: pa.Array) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
    """The numbers of sketches (no nulls), and the offsets of the stretches."""
    data, offsets = text_buffers(sketches.cast(pa.large_binary()).view(pa.large_string()))
    start = int(offsets[0])
    values = np.frombuffer(data[start : int(offsets[-1])].tobytes(), "<u4")
    return values, (offsets - start) // 4
