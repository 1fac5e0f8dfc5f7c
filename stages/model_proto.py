"""What a serialized SentencePiece model says of itself.

Read by hand: the library's own module for this wants one exact protobuf release.
Source: sentencepiece_model.proto, ModelProto, TrainerSpec and NormalizerSpec.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass

UNIGRAM, BPE = 1, 2  # TrainerSpec.ModelType
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)  # SentencePiece.Type


@dataclass(frozen=True, kw_only=True)
class Description:
    """The parts of a model that decide how text is cut."""

    pieces: tuple[str, ...]
    scores: tuple[float, ...]
    kinds: tuple[int, ...]  # NORMAL, UNKNOWN, ...
    model_type: int
    byte_fallback: bool
    suffix_marks: bool  # the sign for a space ends a word
    keeps_text: bool  # no folding, no removal of spaces; a space becomes the sign for it
    dummy_prefix: bool  # a sign for a space is put before a text


def describe(model: bytes) -> Description:
    """The description of a serialized ModelProto, which the library has parsed before."""
    pieces: list[tuple[str, float, int]] = []
    trainer = normalizer = b""
    for number, value in _fields(model):
        if number == 1 and isinstance(value, bytes):
            pieces.append(_piece(value))
        elif number == 2 and isinstance(value, bytes):
            trainer += value  # parts of a message are merged
        elif number == 3 and isinstance(value, bytes):
            normalizer += value
    training, normalizing = dict(_fields(trainer)), dict(_fields(normalizer))
    return Description(
        pieces=tuple(piece for piece, _, _ in pieces),
        scores=tuple(score for _, score, _ in pieces),
        kinds=tuple(kind for _, _, kind in pieces),
        model_type=int(training.get(3, UNIGRAM)),
        byte_fallback=bool(training.get(35, 0)),
        suffix_marks=bool(training.get(24, 0)),
        keeps_text=not normalizing.get(2) and not normalizing.get(4, 1) and bool(normalizing.get(5, 1)),
        dummy_prefix=bool(normalizing.get(3, 1)),
    )


def _piece(message: bytes) -> tuple[str, float, int]:
    fields = dict(_fields(message))
    piece, score = fields.get(1, b""), fields.get(2, bytes(4))
    assert isinstance(piece, bytes) and isinstance(score, bytes)
    return piece.decode("utf-8", "surrogateescape"), struct.unpack("<f", score)[0], int(fields.get(3, NORMAL))


def _fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """(number, value) of each field of a protobuf message; 32 and 64 bit values as bytes."""
    at = 0
    while at < len(message):
        tag, at = _varint(message, at)
        if tag & 7 == 0:
            number, at = _varint(message, at)
            yield tag >> 3, number
        else:
            size, at = _varint(message, at) if tag & 7 == 2 else ({1: 8, 5: 4}[tag & 7], at)
            yield tag >> 3, message[at : at + size]
            at += size


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at
