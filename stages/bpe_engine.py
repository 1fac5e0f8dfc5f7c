"""Ids of a SentencePiece model from compiled loops, for the models whose structure allows it."""

import sys
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from stages import model_proto
from stages.kernels.bpe import Merges, encode_texts, new_memory, pair_tables
from stages.kernels.buffers import text_buffers

MARK = "\u2581"  # SentencePiece's sign for a space
GROUP_BYTES = 8 << 20  # of texts that are encoded at once: room for an id a byte


class Engine:
    """The ids that the library gives for whole texts, equal because of the model's structure.

    `find_obstacle` says which models it is for. Words that were seen before cost a look-up; their
    number is bounded. Not for several threads at once.
    """

    def __init__(self, model: model_proto.Description) -> None:
        self._merges = _tables(model)
        self._dummy_prefix = model.dummy_prefix
        self._memory = new_memory()

    def encode(self, texts: pa.Array, before: int = -1, after: int = -1) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Ids of all texts end to end, each between `before` and `after` where these are not -1, and where each begins.

        Shapes: (ids,), (texts + 1,). Texts are valid UTF-8, and none is null.
        """
        data, offsets = text_buffers(pc.replace_substring(texts, MARK, " "))
        parts, starts = [np.empty(0, np.int32)], [np.zeros(1, np.int64)]
        first, total = 0, 0
        while first < len(offsets) - 1:
            last = max(first + 1, int(np.searchsorted(offsets, offsets[first] + GROUP_BYTES, side="right")) - 1)
            ids, begins = encode_texts(
                data, offsets[first : last + 1], before, after, self._dummy_prefix, self._merges, self._memory
            )
            parts.append(ids.copy())  # not the room around them
            starts.append(begins[1:] + total)
            first, total = last, total + len(ids)
        return np.concatenate(parts), np.concatenate(starts)


def find_obstacle(model: model_proto.Description) -> str | None:
    """Why a model is not for this engine, or None where words can be encoded alone and exactly.

    No merge may join what stands before a sign for a space to the sign, nor depend on pieces that are
    resolved elsewhere (unused ones); no text may be folded; whatever is no piece must have its bytes.
    """
    kinds = model.kinds
    normal = {piece for piece, kind in zip(model.pieces, kinds, strict=True) if kind == model_proto.NORMAL}
    special = [piece for piece, kind in zip(model.pieces, kinds, strict=True) if kind != model_proto.NORMAL]
    obstacles = [
        (model.model_type != model_proto.BPE, "not a BPE model"),
        (not model.keeps_text, "its normalizer changes texts"),
        (model.suffix_marks, "the sign for a space ends a word"),
        (not model.byte_fallback or kinds.count(model_proto.BYTE) != 256, "no byte fallback"),
        (MARK not in normal, "the sign for a space is no piece"),
        (any(MARK in piece.lstrip(MARK) for piece in normal), "a piece has a sign for a space inside"),
        (not {model_proto.USER_DEFINED, model_proto.UNUSED}.isdisjoint(kinds), "it has user-defined or unused pieces"),
        (any(len(piece) == 1 for piece in special), "a special piece is one character"),
        (not {character for piece in normal for character in piece} <= normal, "a character of a piece is no piece"),
    ]
    return next((text for found, text in obstacles if found), None)


def _tables(model: model_proto.Description) -> Merges:
    ids = {
        piece: number
        for number, (piece, kind) in enumerate(zip(model.pieces, model.kinds, strict=True))
        if kind == model_proto.NORMAL
    }
    char_ids = np.full(sys.maxunicode + 1, -1, np.int32)
    isolated = np.zeros(256, np.uint8)
    isolated[:128] = 1
    for piece, number in ids.items():
        if len(piece) == 1:
            char_ids[ord(piece)] = number
        else:
            isolated[[ord(character) for character in piece if ord(character) < 128]] = 0
    isolated[ord(" ")] = 0
    ranks = _ranks(model.scores)
    keys, merges, bits = pair_tables(
        {pair: ranks[number] << 32 | number for piece, number in ids.items() for pair in _pairs(piece, ids)}
    )
    return Merges(
        char_ids=char_ids,
        byte_ids=_byte_ids(model),
        pair_keys=keys,
        pair_merges=merges,
        pair_filter=bits,
        isolated=isolated,
    )


def _pairs(piece: str, ids: dict[str, int]) -> list[tuple[int, int]]:
    """All pairs of pieces that join into this one."""
    halves = [(piece[:cut], piece[cut:]) for cut in range(1, len(piece))]
    return [(ids[left], ids[right]) for left, right in halves if left in ids and right in ids]


def _ranks(scores: Sequence[float]) -> list[int]:
    """0 for the highest score; equal scores have equal ranks."""
    _, ranks = np.unique(-np.array(scores, np.float32), return_inverse=True)
    found: list[int] = ranks.tolist()
    return found


def _byte_ids(model: model_proto.Description) -> NDArray[np.int32]:
    """The pieces <0x00> to <0xFF>."""
    numbers = {
        piece: number
        for number, (piece, kind) in enumerate(zip(model.pieces, model.kinds, strict=True))
        if kind == model_proto.BYTE
    }
    return np.array([numbers[f"<0x{byte:02X}>"] for byte in range(256)], np.int32)
