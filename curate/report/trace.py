"""From a token of the dataset back to its document, its source and the bytes of the input, with the text around it."""

from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc
import sentencepiece
from numpy.typing import NDArray

from curate.core.errors import PlanError, StorageError, suggestion
from curate.core.hashing import sha256
from curate.core.names import place_of
from curate.report.origin import Origins
from curate.report.records import table_of
from manifests.layout import Ints
from manifests.manifest import Dataset, open_dataset
from manifests.rows import open_rows
from manifests.shape import Json

NUM_AROUND = 24  # tokens on each side that are decoded
CHARS_AROUND = 120  # code points on each side of the text read again


def trace_row(url: str, split: str, row: int) -> Json:
    """The pieces of a row: `{"dataset_id", "split", "row", "shard", "pieces": [...], "note"}`.

    A piece: start, length (tokens of the row), token_offset and document_tokens (of its document),
    `document`, and `begins`, its first tokens decoded. Raises PlanError where there is no such row.
    """
    dataset = open_dataset(url)
    found = _Row(dataset, url, split, row)
    origins = Origins(dataset)
    tokenizer, note = _tokenizer(dataset, origins)
    pieces = []
    for line in found.lines:
        ids = found.tokens[line["start"] : line["start"] + min(line["length"], NUM_AROUND)]
        piece = {name: line[name] for name in ("start", "length", "token_offset", "document_tokens")}
        pieces.append(piece | {"document": _document(line), "begins": _decoded(tokenizer, ids)})
    return found.place | {"pieces": pieces, "note": note}


def trace_token(url: str, split: str, row: int, position: int) -> Json:
    """Where one token comes from: `{..., "position", "token", "document", "decoded", "input", "text", "note"}`.

    `token`: id, piece and its index in the document. `decoded`: the tokens around it as text, of this
    document alone. `text`: what stands around it in the text read again from `input`, with `begin` and
    `end` of the token in code points; null where that cannot be had, and then `note` says why.
    Raises PlanError where there is no such token.
    """
    dataset = open_dataset(url)
    found = _Row(dataset, url, split, row)
    if not 0 <= position < len(found.tokens):
        raise PlanError(f"position {position}: rows have tokens 0 to {len(found.tokens) - 1}")
    line = next(line for line in found.lines if line["start"] <= position < line["start"] + line["length"])
    origins = Origins(dataset)
    tokenizer, note = _tokenizer(dataset, origins)
    index = line["token_offset"] + position - line["start"]
    token = {"id": int(found.tokens[position]), "piece": None, "index": index}
    if tokenizer is not None:
        token["piece"] = tokenizer.id_to_piece(token["id"])
    again = origins.read(line["id"], line["origin"])
    text, other = _text_around(dataset, tokenizer, again.text, found.tokens, line, index)
    notes = [part for part in (note, again.note, other) if part]
    return found.place | {
        "position": position,
        "token": token,
        "document": _document(line),
        "decoded": _around(tokenizer, found.tokens, line, position),
        "input": again.input,
        "text": text,
        "note": "; ".join(notes) or None,
    }


class _Row:
    """A row: its tokens, and the lines of the document table about it."""

    def __init__(self, dataset: Dataset, url: str, split: str, row: int) -> None:
        splits = dataset.manifest["splits"]
        if split not in splits:
            raise PlanError(f"there is no split {split!r}{suggestion(split, splits)}; there are {', '.join(splits)}")
        num_rows = splits[split]["rows"]
        if not 0 <= row < num_rows:
            raise PlanError(f"row {row}: {split} has {num_rows} rows, numbered from 0")
        number, within = divmod(row, dataset.manifest["format"]["rows_per_shard"])
        shard = splits[split]["shards"][number]
        table = table_of(dataset, shard["docs"], pc.field("row") == within)
        self.lines: list[Json] = table.sort_by("start").to_pylist()
        self.tokens: NDArray[np.int64] = open_rows(url).row(split, row)
        self.place = {
            "dataset_id": dataset.manifest["dataset_id"],
            "split": split,
            "row": row,
            "shard": dataset.key(shard["rows"]["key"]),
        }
        if sum(line["length"] for line in self.lines) != len(self.tokens):
            raise StorageError(f"{shard['docs']['key']}: its pieces do not fill row {within}; run curate verify")


def _document(line: Json) -> Json:
    names = ("name", "source", "group", "url", "title", "language", "license", "date", "kind", "origin")
    origin = line["origin"]
    found = {name: line[name] for name in names if line[name] is not None}
    return {"id": line["id"].hex(), "place": place_of(origin["key"], origin["offset"], origin["inner"] or 0)} | found


def _tokenizer(dataset: Dataset, origins: Origins) -> tuple[Any, str | None]:
    """The dataset's tokenizer, or None and why not."""
    wanted = dataset.manifest["tokenizer"]["sha256"]
    place = origins.assets.get(wanted)
    if place is None:
        return None, f"the tokenizer {dataset.manifest['tokenizer']['name']} is not known to lie anywhere here"
    try:
        model = Path(place).read_bytes()
    except OSError as error:
        return None, f"the tokenizer cannot be read: {place}: {error.strerror}"
    if sha256(model) != wanted:
        return None, f"{place} is another tokenizer than the dataset's"
    return _processor(model), None


@lru_cache(maxsize=1)
def _processor(model: bytes) -> Any:
    return sentencepiece.SentencePieceProcessor(model_proto=model)


def _decoded(tokenizer: Any, ids: Ints) -> str | None:
    return None if tokenizer is None else str(tokenizer.decode(ids.tolist()))


def _around(tokenizer: Any, tokens: Ints, line: Json, position: int) -> Json | None:
    """The tokens before, at and behind a position, within its piece, as text."""
    if tokenizer is None:
        return None
    first, stop = line["start"], line["start"] + line["length"]
    low, high = max(first, position - NUM_AROUND), min(stop, position + 1 + NUM_AROUND)
    before, through, whole = (tokenizer.decode(tokens[low:end].tolist()) for end in (position, position + 1, high))
    if not (through.startswith(before) and whole.startswith(through)):  # a character that its bytes' tokens share
        return {"before": before, "token": "", "after": whole.removeprefix(before)}
    return {"before": before, "token": through[len(before) :], "after": whole[len(through) :]}


def _text_around(
    dataset: Dataset, tokenizer: Any, text: str | None, tokens: Ints, line: Json, index: int
) -> tuple[Json | None, str | None]:
    """The text around a token of the document, once its tokens have proved to be those of the row."""
    if tokenizer is None or text is None:
        return None, None
    coded = tokenizer.encode(text, return_type="offset_mapping")
    head = 1 if dataset.manifest["format"]["bos"] == "document" else 0
    low, high = line["token_offset"] - head, line["token_offset"] - head + line["length"]
    ids = np.array(coded["ids"], dtype=np.int64)
    mine = tokens[line["start"] + max(0, -low) : line["start"] + line["length"]]
    here = ids[max(0, low) : high]
    if not np.array_equal(here, mine[: len(here)]) or len(mine) - len(here) not in (0, 1):
        return (
            None,
            "the text read again gives other tokens: the stages or libraries here differ from those that made it",
        )
    at = index - head
    if not 0 <= at < len(ids):
        edge = 0 if at < 0 else len(text)
        return _cut(text, edge, edge), "a control token, which stands for the beginning or end of the document"
    return _cut(text, *coded["offsets"][at]), None


def _cut(text: str, begin: int, end: int) -> Json:
    return {
        "begin": begin,
        "end": end,
        "before": text[max(0, begin - CHARS_AROUND) : begin],
        "token": text[begin:end],
        "after": text[end : end + CHARS_AROUND],
    }


def as_text(found: Json) -> str:
    """A trace for a terminal."""
    lines = [f"{found['split']} row {found['row']}, in {found['shard']}"]
    if "pieces" in found:
        for piece in found["pieces"]:
            stop = piece["start"] + piece["length"] - 1
            last = piece["token_offset"] + piece["length"] - 1
            document = piece["document"]
            lines += [
                f"tokens {piece['start']} to {stop}: tokens {piece['token_offset']} to {last} of "
                f"{piece['document_tokens']} of {document.get('name') or document['id']}",
                f"    {document['source']}, {document['place']}",
            ]
            lines += [f"    {' '.join(piece['begins'].split())}"] if piece["begins"] else []
    else:
        lines += _token_lines(found)
    return "\n".join([*lines, *([f"note: {found['note']}"] if found["note"] else [])])


def _token_lines(found: Json) -> list[str]:
    token, document = found["token"], found["document"]
    piece = f" ({token['piece']})" if token["piece"] is not None else ""
    lines = [
        f"token {found['position']}: id {token['id']}{piece}, token {token['index']} of its document",
        *(f"{name}: {document[name]}" for name in ("id", "name", "title", "url", "license") if name in document),
        f"source: {document['source']}, {document['place']}",
    ]
    origin = document["origin"]
    where = f"bytes {origin['offset']} to {origin['offset'] + origin['length']}"
    inside = f", byte {origin['inner']} of what they hold" if origin["inner"] else ""
    lines.append(f"input: {found['input'] or origin['key']}, {where}{inside}")
    for name in ("decoded", "text"):
        if found[name] is not None:
            around = found[name]
            lines.append(
                f"{name}: {around['before']} >>>{around['token']}<<< {around['after']}".replace("\n", "\n    ")
            )
    return lines
