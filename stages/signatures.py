"""From texts to MinHash signatures and the rows of their bands."""

import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from curate.core.exchange import Send, Sent
from curate.core.stage import Columns
from stages.ids import Flags, id_array
from stages.keepers import Order, Scope, scope_numbers
from stages.kernels.buffers import text_buffers
from stages.kernels.minhash import band_keys, sign
from stages.kernels.units import find_unstable, mix_numbers


def normalized(texts: pa.Array) -> pa.Array:
    """The texts in NFKC where that can change their units. Null is an empty text."""
    data, offsets = text_buffers(texts)
    stretches = find_unstable(data, offsets)
    if not len(stretches):
        return texts
    pieces: list[bytes | memoryview] = []
    end = int(offsets[0])
    changes = np.zeros(len(stretches) + 1, np.int64)  # in length, of all stretches before
    for number, (start, stop) in enumerate(stretches.tolist()):
        text = data[start:stop].tobytes().decode("utf-8", "replace")
        normal = unicodedata.normalize("NFKC", text).encode()
        pieces += [data[end:start].data, normal]
        changes[number + 1] = changes[number] + len(normal) - (stop - start)
        end = stop
    pieces.append(data[end : offsets[-1]].data)
    bounds = offsets - offsets[0] + changes[np.searchsorted(stretches[:, 1], offsets, side="right")]
    buffers = [None, pa.py_buffer(bounds.tobytes()), pa.py_buffer(b"".join(pieces))]
    return pa.Array.from_buffers(pa.large_string(), len(texts), buffers)


@dataclass(frozen=True)
class SendBands(Send):
    """A row for each band and one for the whole text; documents of fewer units than a shingle have the latter alone.

    `key` is a hash of the band, or `whole` itself in the row of the whole; documents without units have no row.
    Where the scope is not global each row is there twice, once with keys that meet within the scope alone.
    Stays home: the whole's hash of 128 bits, the preference, the scope, and the signature (null where the whole is
    compared).
    """

    ngram: int
    bands: int
    rows: int
    order: Order
    scope: Scope = "global"
    num_groups: int = 1

    name = "bands"
    columns: ClassVar[Columns] = {
        "row": pa.uint32(),
        "preference": pa.uint64(),
        "whole": pa.uint64(),
        "is_scoped": pa.bool_(),
    }

    def open(self) -> Callable[[pa.RecordBatch], Sent]:
        """See Send."""
        return self._send

    def _send(self, batch: pa.RecordBatch) -> Sent:
        texts = normalized(batch.column("text"))
        found, wholes, num_units = sign(*text_buffers(texts), self.ngram, self.bands * self.rows)
        documents = {name: batch.column(name) for name in ("id", "row")}
        documents["preference"] = pa.array(self.order.numbers(batch))
        scope = scope_numbers(self.scope, self.num_groups, batch)
        long = num_units >= self.ngram
        kept = documents | {"whole": id_array(wholes), "scope": pa.array(scope)}
        kept["signature"] = signature_array(found, long)
        keys = np.column_stack([wholes[:, 0], band_keys(found, self.bands)])
        wanted = np.column_stack([num_units > 0, *[long] * self.bands])
        rows = [band_rows(documents, keys, wanted, is_scoped=False)]
        if self.scope != "global":
            rows.append(band_rows(documents, mix_numbers(keys ^ scope[:, None]), wanted, is_scoped=True))
        return Sent(
            rows=pa.concat_batches(rows),
            kept=pa.RecordBatch.from_pydict(kept).filter(pa.array(num_units > 0)),
        )


# What stays home, beside the signature.
KEPT: Columns = {"row": pa.uint32(), "preference": pa.uint64(), "whole": pa.binary(16), "scope": pa.uint64()}


def row_bytes(columns: Columns) -> int:
    """Bytes of a row with its key and id, before compression, without those of its sketch."""
    widths: list[int] = [kind.bit_width for name, kind in columns.items() if name != "sketch"]
    return 8 + 16 + sum(-(-width // 8) for width in widths)


def band_rows(
    documents: dict[str, pa.Array], keys: NDArray[np.uint64], wanted: Flags, *, is_scoped: bool
) -> pa.RecordBatch:
    """A row for each wanted key of each document; the key of the whole stands first."""
    which = np.nonzero(wanted)[0]
    rows = {"key": pa.array(keys[wanted])} | {name: column.take(pa.array(which)) for name, column in documents.items()}
    rows["whole"] = pa.array(keys[which, 0])
    rows["is_scoped"] = pa.array(np.full(len(which), is_scoped))
    return pa.RecordBatch.from_pydict(rows)


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
