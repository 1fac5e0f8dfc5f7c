"""Evaluation sets as what training texts are compared with: the n-grams of their items."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from curate.core.errors import PlanError
from curate.core.stage import Asset
from stages.ids import Flags
from stages.kernels.buffers import text_buffers
from stages.kernels.ngrams import first_in, hash_ngrams
from stages.kernels.units import hash_units
from stages.signatures import normalized

MIN_UNITS = 8  # of an item: a shorter one says too little; Brown et al. 2020, appendix C


class EvaluationSets:
    """All items of all sets, by n-gram; items of fewer units, but at least MIN_UNITS, as a whole."""

    def __init__(self, sets: Mapping[str, Asset], ngram: int) -> None:
        items = [item for name, asset in sets.items() for item in read_items(name, asset)]
        self._names = [name for name, _ in items]
        units, starts = _units(pa.array([text for _, text in items], pa.large_string()))
        lengths = np.minimum(np.diff(starts), ngram)
        self._wanted: dict[int, tuple[NDArray[np.uint64], NDArray[np.int64]]] = {}
        for length in np.unique(lengths[lengths >= min(MIN_UNITS, ngram)]).tolist():
            hashes, offsets = hash_ngrams(units, starts, length)
            item = np.repeat(np.arange(len(items)), np.diff(offsets))
            is_whole = lengths[item] == length  # longer items are found by their n-grams
            distinct, first = np.unique(hashes[is_whole], return_index=True)
            self._wanted[length] = distinct, item[is_whole][first]

    def find(self, texts: pa.Array) -> list[str | None]:
        """For each text the item whose words it holds, as SET:LINE; the longest n-grams are tried first."""
        units, starts = _units(texts)
        found: list[str | None] = [None] * len(texts)
        for length in sorted(self._wanted, reverse=True):
            wanted, item = self._wanted[length]
            places = first_in(*hash_ngrams(units, starts, length), wanted)
            for text in np.flatnonzero(places >= 0).tolist():
                found[text] = found[text] or self._names[item[places[text]]]
        return found

    def holds(self, texts: pa.Array) -> Flags:
        """Which texts hold the words of an item."""
        return np.array([name is not None for name in self.find(texts)], bool)


def _units(texts: pa.Array) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    return hash_units(*text_buffers(normalized(texts)))


def read_items(name: str, asset: Asset) -> Iterator[tuple[str, str]]:
    """(SET:LINE, text) of each text in a file of JSON lines. Raises PlanError for a line that is none."""
    with open(asset.location, encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            if line.strip():
                try:
                    value = json.loads(line)
                except ValueError as error:
                    raise PlanError(f"{asset.location}:{number}: not a line of JSON: {error}") from None
                for text in _texts(value):
                    yield f"{name}:{number}", text


def _texts(value: Any) -> Iterator[str]:
    """All texts in a value, each by itself: a question, its choices."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | dict):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _texts(item)
