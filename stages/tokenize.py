"""Text to the ids of a SentencePiece model, with BOS and EOS added as ids."""

import functools
import itertools
from collections.abc import Callable
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
from stages.model_proto import describe

Ids = NDArray[np.int32]

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
    "\u2581\u2581 \u2581word",
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
        return hashing.digest(model.processor.encode(list(PROBE)))

    def open(self) -> Callable[[pa.RecordBatch], pa.RecordBatch]:
        """The function that maps a batch."""
        model = load_model(self.model)
        before = self.bos_id if self.bos == "document" else -1
        after = self.eos_id if self.eos == "document" else -1
        return lambda batch: with_columns(batch, {"tokens": _tokens(batch, model, before, after)}, self.removes)

    def _control_id(self, name: str, control_id: int, policy: str) -> int:
        if control_id < 0 and policy == "document":
            raise PlanError(f"{self.model.location}: this tokenizer has no {name.upper()} id; set {name}: none")
        return control_id


class Model:
    """A SentencePiece model, and the fastest way to its ids that was proven equal to the library's."""

    def __init__(self, serialized: bytes) -> None:
        self.processor = sentencepiece.SentencePieceProcessor(model_proto=serialized)
        ids = list(range(self.processor.vocab_size()))
        self.vocab_size = len(ids)
        self.bos_id = int(self.processor.bos_id())
        self.eos_id = int(self.processor.eos_id())
        self.is_control: NDArray[np.bool_] = np.array(self.processor.is_control(ids), dtype=np.bool_)
        self._serialized = serialized

    def encode(self, texts: pa.Array, before: int = -1, after: int = -1) -> tuple[Ids, NDArray[np.int64]]:
        """Ids of all texts end to end, each between `before` and `after` where these are not -1, and where each begins.

        Shapes: (ids,), (texts + 1,). Models of another structure than the engine's go through the
        library, which takes n log n for a text and 45 bytes a character.

        Raises: DataError(`control_token`) where the library makes a control id of text.
        """
        if self.engine is not None:
            found: tuple[Ids, NDArray[np.int64]] = self.engine.encode(texts, before, after)
            return found
        head, tail = [before] if before >= 0 else [], [after] if after >= 0 else []
        parts: list[Ids] = [np.empty(0, np.int32)]
        for text in texts.to_pylist():
            ids = self.processor.encode(text, return_type="numpy")
            refuse_control_ids(ids, self.is_control)
            parts.append(np.concatenate([np.array(head, np.int32), ids, np.array(tail, np.int32)]))
        return np.concatenate(parts), np.cumsum([len(ids) for ids in parts], dtype=np.int64)

    @functools.cached_property
    def engine(self) -> Any:
        """The compiled engine where the model's structure allows it and the library agrees on the probe texts, or None.

        Made when the first text comes: planning, and workers that tokenize nothing, do without its 200 MB.
        """
        from stages.bpe_engine import Engine, find_obstacle  # loads numba

        model = describe(self._serialized)
        if find_obstacle(model) is not None:
            return None
        engine = Engine(model)
        ids, starts = engine.encode(pa.array(PROBE, pa.large_string()))
        found = [ids[first:end].tolist() for first, end in itertools.pairwise(starts)]
        return engine if found == self.processor.encode(list(PROBE)) else None


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


def checked_cast(ids: Ids, vocab_size: int) -> NDArray[np.unsignedinteger[Any]]:
    """`ids` in the type of the vocabulary.

    Raises: DataError(`token_out_of_range`) where an id is not below `vocab_size`.
    """
    if ids.size and not 0 <= int(ids.min()) <= int(ids.max()) < vocab_size:
        raise DataError("token_out_of_range", f"ids {ids.min()}..{ids.max()}, vocabulary of {vocab_size}")
    return ids.astype(token_dtype(vocab_size))


def refuse_control_ids(ids: Ids, is_control: NDArray[np.bool_]) -> None:
    """Holds the library to its word: control pieces are added by us, never found in text.

    Raises: DataError(`control_token`) where an id of a text is a control id.
    """
    if is_control[ids].any():
        raise DataError("control_token", f"text became control id {ids[is_control[ids]][0]}")


def _tokens(batch: pa.RecordBatch, model: Model, before: int, after: int) -> pa.Array:
    texts = batch.column("text").cast(pa.large_string())
    try:
        texts.validate(full=True)  # Arrow does not check strings that come from files
    except pa.ArrowInvalid as error:
        raise DataError("invalid_utf8", str(error)) from error
    is_null = texts.is_null()
    ids, starts = model.encode(texts.drop_null(), before, after)
    lengths = np.zeros(len(texts) + 1, np.int64)
    lengths[1:][is_null.to_numpy(zero_copy_only=False) == 0] = np.diff(starts)
    values = pa.array(checked_cast(ids, model.vocab_size))
    return pa.LargeListArray.from_arrays(pa.array(np.cumsum(lengths)), values, mask=is_null)
