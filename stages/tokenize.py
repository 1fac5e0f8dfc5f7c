"""Text to the ids of a SentencePiece model, with BOS and EOS added as ids."""

import functools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import pyarrow as pa
import sentencepiece
from numpy.typing import NDArray

from curate.core import hashing
from curate.core.errors import DataError, PlanError
from curate.core.stage import Asset, Columns, Map, with_columns
from manifests.layout import token_dtype

MARK = "\u2581"  # SentencePiece's sign for a space
BPE = 2  # sentencepiece_model.proto, TrainerSpec.ModelType
CHUNK_CHARS = 1024  # a merge costs log(chunk): measured 0.24 us a character at 1 K, 0.9 at 1 M
CUT = re.compile(f"(?<=[^ {MARK}]) (?!\\Z)")

# Texts on which libraries and versions have differed: white space, folding, byte fallback, control words.
PROBE = (
    "",
    " ",
    "a  b\n\n  c\td",
    "para one\npara two\r\n",
    "HTML has <s>strike</s> and </s> tags, <unk> <pad> <0x0A>",
    "uns uns  uns",
    "abc\x00def",
    "\u2026 10\u2075 cells, CO\u2082, \u33a1, \uff11\uff12",
    "IL-1\u03b2 and TNF-\u03b1 (\u03bcg/mL), p < 0.001; 95% CI 1.2\u20133.4",
    "\U0001f680\U0001f469\u200d\U0001f52c \ufb01 e\u0301 \u00e9",
    "\u4e2d\u6587\u5927\u5b66 \u0639\u0631\u0628\u064a \u05e9\u05dc\u05d5\u05dd \u0e20\u0e32\u0e29\u0e32",
    f"{MARK}{MARK} {MARK}word",
    "ATGGCGTACGTTAGC" * 8,
    "Half of the patients  recovered.\n" * 100,
)


@dataclass(frozen=True, kw_only=True)
class Tokenize(Map):
    """The ids that sentencepiece gives for the whole text, and BOS and EOS around it.

    Reads: text.
    Adds: tokens (ids; null where text is null). Removes: text.
    Control ids never come from text: what spells `<s>` or `</s>` stays text.
    """

    libraries: ClassVar[tuple[str, ...]] = ("sentencepiece",)
    reads: ClassVar[tuple[str, ...]] = ("text",)
    removes: ClassVar[tuple[str, ...]] = ("text",)

    model: Asset
    bos: Literal["document", "none"] = "document"
    eos: Literal["document", "none"] = "document"

    @property
    def adds(self) -> Columns:
        """The token ids, as wide as the vocabulary asks for."""
        return {"tokens": pa.large_list(pa.from_numpy_dtype(np.dtype(token_dtype(self.vocab_size))))}

    @property
    def vocab_size(self) -> int:
        """Ids are below this."""
        return load_model(self.model).vocab_size

    @property
    def bos_id(self) -> int:
        """The id that begins a document; -1 where the model has none and none is wanted."""
        return self._control_id("bos", load_model(self.model).bos_id, self.bos)

    @property
    def eos_id(self) -> int:
        """The id that ends a document; -1 where the model has none and none is wanted."""
        return self._control_id("eos", load_model(self.model).eos_id, self.eos)

    @property
    def probe_sha256(self) -> str:
        """Digest of the ids of fixed texts: two libraries that differ on them differ on data."""
        model = load_model(self.model)
        return hashing.digest([model.encode(text).tolist() for text in PROBE])

    def open(self) -> Callable[[pa.RecordBatch], pa.RecordBatch]:
        """The function that maps a batch."""
        model = load_model(self.model)
        before = [self.bos_id] if self.bos == "document" else []
        after = [self.eos_id] if self.eos == "document" else []
        return lambda batch: with_columns(batch, {"tokens": _tokens(batch, model, before, after)}, self.removes)

    def _control_id(self, name: str, control_id: int, policy: str) -> int:
        if control_id < 0 and policy == "document":
            raise PlanError(f"{self.model.location}: this tokenizer has no {name.upper()} id; set {name}: none")
        return control_id


class Model:
    """A SentencePiece model, and what must be known of it so that ids can be trusted."""

    def __init__(self, serialized: bytes) -> None:
        self.processor = sentencepiece.SentencePieceProcessor(model_proto=serialized)
        ids = list(range(self.processor.vocab_size()))
        self.vocab_size = len(ids)
        self.bos_id = int(self.processor.bos_id())
        self.eos_id = int(self.processor.eos_id())
        self.is_control: NDArray[np.bool_] = np.array(self.processor.is_control(ids), dtype=np.bool_)
        self._can_cut = self._has_independent_words(_model_type(serialized), ids)

    def encode(self, text: str) -> NDArray[np.int32]:
        """The ids of the whole text.

        Long texts go through the library in parts where that provably changes nothing: time is then
        linear and memory that of a part. Without spaces, or with a model of another kind, the library
        takes n log n (2.3 times a character at 10 M of what it takes at 10 K) and 45 bytes a character.
        """
        return np.concatenate([self.processor.encode(part, return_type="numpy") for part in self.parts(text)])

    def parts(self, text: str) -> Sequence[str]:
        """Parts of `text` whose ids, joined, are those of the whole."""
        return self._cut(text) if self._can_cut and len(text) > 2 * CHUNK_CHARS else [text]

    def _has_independent_words(self, model_type: int, ids: list[int]) -> bool:
        """Whether no merge can join what stands before a mark to the mark, nor depend on it.

        True for BPE when the mark is a piece, no piece has a mark after another character, and no
        piece is unused (its resolution depends on merges elsewhere).
        """
        pieces = self.processor.id_to_piece(ids)
        unknown = self.processor.piece_to_id(MARK) == self.processor.unk_id()
        inner = any(MARK in piece.lstrip(MARK) for piece in pieces)
        return model_type == BPE and not (unknown or inner or any(self.processor.is_unused(ids)))

    def _cut(self, text: str) -> Sequence[str]:
        """Parts whose normalized forms, joined, are that of the whole, each cut between a character and a mark."""
        parts = _split_at_spaces(text)
        normalized: list[str] = self.processor.normalize(parts)
        equal = "".join(normalized) == self.processor.normalize(text)
        marked = all(part.startswith(MARK) for part in normalized[1:])
        closed = not any(part.endswith(MARK) for part in normalized[:-1])
        return parts if equal and marked and closed else [text]


def load_model(asset: Asset) -> Model:
    """The model of `asset`, loaded once a process for equal bytes.

    Raises: PlanError where the file cannot be read, is another one than planned or is no SentencePiece model.
    """
    try:
        serialized = Path(asset.location).read_bytes()
    except OSError as error:
        raise PlanError(f"{asset.location}: cannot read the tokenizer model: {error.strerror}") from error
    found = hashing.sha256(serialized)
    if asset.sha256 and found != asset.sha256:
        raise PlanError(f"{asset.location}: the model changed: expected SHA-256 {asset.sha256}, found {found}")
    try:
        return _load(serialized)
    except ValueError as error:
        raise PlanError(f"{asset.location}: not a usable SentencePiece model: {error}") from error


@functools.lru_cache(maxsize=4)
def _load(serialized: bytes) -> Model:
    if not serialized:
        raise ValueError("the file is empty")
    try:
        return Model(serialized)
    except RuntimeError as error:  # what the library raises for bytes that it cannot parse
        raise ValueError(" ".join(str(error).split())) from error


def checked_cast(ids: NDArray[np.int32], vocab_size: int) -> NDArray[np.unsignedinteger[Any]]:
    """`ids` in the type of the vocabulary.

    Raises: DataError(`token_out_of_range`) where an id is not below `vocab_size`.
    """
    if ids.size and not 0 <= int(ids.min()) <= int(ids.max()) < vocab_size:
        raise DataError("token_out_of_range", f"ids {ids.min()}..{ids.max()}, vocabulary of {vocab_size}")
    return ids.astype(token_dtype(vocab_size))


def refuse_control_ids(ids: NDArray[np.int32], is_control: NDArray[np.bool_]) -> None:
    """Holds the library to its word: control pieces are added by us, never found in text.

    Raises: DataError(`control_token`) where an id of a text is a control id.
    """
    if is_control[ids].any():
        raise DataError("control_token", f"text became control id {ids[is_control[ids]][0]}")


def _tokens(batch: pa.RecordBatch, model: Model, before: list[int], after: list[int]) -> pa.Array:
    try:
        texts = batch.column("text").to_pylist()
    except UnicodeDecodeError as error:  # Arrow does not check strings that come from files
        raise DataError("invalid_utf8", str(error)) from error
    head, tail = np.array(before, dtype=np.int32), np.array(after, dtype=np.int32)
    empty = np.array([], dtype=np.int32)
    parts = [empty]
    lengths = [0]
    for text in texts:
        ids = empty if text is None else _document(model, text, head, tail)
        parts.append(ids)
        lengths.append(ids.size)
    values = checked_cast(np.concatenate(parts), model.vocab_size)
    offsets = np.cumsum(lengths, dtype=np.int64)
    nulls = pa.array([text is None for text in texts], pa.bool_())
    return pa.LargeListArray.from_arrays(pa.array(offsets), pa.array(values), mask=nulls)


def _document(model: Model, text: str, head: NDArray[np.int32], tail: NDArray[np.int32]) -> NDArray[np.int32]:
    ids = model.encode(text)
    refuse_control_ids(ids, model.is_control)
    return np.concatenate([head, ids, tail])


def _split_at_spaces(text: str) -> list[str]:
    """Parts of at least CHUNK_CHARS without the single spaces between them.

    Of a run of spaces the first is taken: the model's own dummy prefix stands for it.
    """
    parts = []
    begin = 0
    while (cut := CUT.search(text, begin + CHUNK_CHARS)) is not None:
        parts.append(text[begin : cut.start()])
        begin = cut.end()
    return [*parts, text[begin:]]


def _model_type(serialized: bytes) -> int:
    """TrainerSpec.model_type of a serialized ModelProto (unigram where it is not set).

    Read by hand: the library's own module for this wants one exact protobuf release.
    """
    trainer = _proto_field(serialized, 2)
    kind = _proto_field(trainer, 3) if isinstance(trainer, bytes) else None
    return kind if isinstance(kind, int) else 1


def _proto_field(message: bytes, number: int) -> int | bytes | None:
    """The last value of a field of a protobuf message."""
    at, value = 0, None
    while at < len(message):
        tag, at = _varint(message, at)
        found: int | bytes
        if tag & 7 == 0:
            found, at = _varint(message, at)
        else:
            size, at = _varint(message, at) if tag & 7 == 2 else ({1: 8, 5: 4}[tag & 7], at)
            found, at = message[at : at + size], at + size
        value = found if tag >> 3 == number else value
    return value


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at
