"""MinHash de-duplication in plain Python: what the kernels and the rounds of the exchange must equal."""

import unicodedata
from collections.abc import Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np

from stages.kernels.units import SPACELESS

MASK = (1 << 64) - 1
BASIS = 0xCBF29CE484222325
CHAIN, CHAIN_2 = 0x9E3779B97F4A7C15, 0xC3A5C85C97CB3127
HIGHEST = 0xFFFFFFFF


def units(text: str) -> list[str]:
    """Words, case folded and without punctuation, and single characters of scripts without spaces."""
    found: list[str] = []
    is_open = is_alone = False
    for character in unicodedata.normalize("NFKC", text):
        category = unicodedata.category(character)
        if category == "Cf":
            continue
        if category[0] not in "LNM":
            is_open = False
            continue
        alone = category[0] != "M" and any(first <= ord(character) <= last for first, last in SPACELESS)
        if not is_open or ((alone or is_alone) and category[0] != "M"):
            found.append("")
            is_open, is_alone = True, alone
        folded = character.casefold()
        found[-1] += folded if len(folded) == 1 else character.lower()[0]
    return found


def shingles(text: str, ngram: int) -> list[bytes]:
    """Units in a row, parted by spaces; a text of fewer units is one shingle, one without units has none."""
    words = units(text)
    if len(words) < ngram:
        return [" ".join(words).encode()] if words else []
    return [" ".join(words[start : start + ngram]).encode() for start in range(len(words) - ngram + 1)]


def hash_shingle(shingle: bytes) -> int:
    """The low 32 bits of a chain over the hashes of its units: what `datasketch.MinHash(hashfunc=...)` takes."""
    value = chain([hash_unit(unit) for unit in shingle.decode().split(" ")])
    return (value ^ value >> 32) & HIGHEST


def hash_unit(unit: str) -> int:
    data = unit.encode()
    blocks = [int.from_bytes(data[at : at + 8], "little") for at in range(0, len(data), 8)]
    return mix64(chain(blocks, BASIS))


def chain(numbers: Sequence[int], value: int = 0, factor: int = CHAIN) -> int:
    for one in numbers:
        value = (value ^ one) * factor & MASK
        value ^= value >> 29
    return value


def mix64(value: int) -> int:
    for factor in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53):
        value = (value ^ value >> 33) * factor & MASK
    return value ^ value >> 33


def hash_whole(text: str) -> tuple[int, int]:
    hashes = [hash_unit(word) for word in units(text)]
    return mix64(chain(hashes)), mix64(chain(hashes, factor=CHAIN_2))


def signature(text: str, ngram: int, num_values: int) -> list[int]:
    """Values of affine32 permutations, drawn as datasketch 2.0 does."""
    generator = np.random.RandomState(1)
    factors = [int(value) * 2 + 1 for value in generator.randint(0, 1 << 31, num_values, dtype=np.uint32)]
    terms = [int(value) for value in generator.randint(0, 1 << 32, num_values, dtype=np.uint32)]
    mixed = {mix32(hash_shingle(shingle)) for shingle in shingles(text, ngram)}
    return [
        min([(factor * one + term) & HIGHEST for one in mixed], default=HIGHEST)
        for factor, term in zip(factors, terms, strict=True)
    ]


def mix32(value: int) -> int:
    value = (value ^ value >> 16) * 0x85EBCA6B & HIGHEST
    value = (value ^ value >> 13) * 0xC2B2AE35 & HIGHEST
    return value ^ value >> 16


class Answer(NamedTuple):
    """What becomes of a document that has near-duplicates."""

    kept_id: bytes | None
    cluster: bytes


def deduplicate(
    ids: Sequence[bytes],
    texts: Sequence[str],
    order: Sequence[int],
    *,
    ngram: int,
    bands: int,
    rows: int,
    threshold: float,
) -> dict[int, Answer]:
    """All candidate pairs, all at once; `order`: positions, the preferred document first."""
    wholes = [units(text) for text in texts]
    signatures = [signature(text, ngram, bands * rows) for text in texts]
    similar: dict[int, set[int]] = {position: set() for position in order}
    for one, other in combinations(order, 2):
        if min(len(wholes[one]), len(wholes[other])) < ngram:
            is_edge = wholes[one] == wholes[other] != []
        else:
            is_edge = is_candidate(signatures[one], signatures[other], bands) and is_similar(
                signatures[one], signatures[other], jaccard(texts[one], texts[other], ngram), threshold
            )
        if is_edge:
            similar[one].add(other)
            similar[other].add(one)
    kept: list[int] = []
    answers = {}
    for position in order:
        keeper = next((one for one in kept if one in similar[position]), None)
        if keeper is None:
            kept.append(position)
        if similar[position]:
            cluster = min(ids[one] for one in connected(position, similar))
            answers[position] = Answer(None if keeper is None else ids[keeper], cluster)
    return answers


def is_candidate(values_1: list[int], values_2: list[int], bands: int) -> bool:
    rows = len(values_1) // bands
    return any(values_1[at : at + rows] == values_2[at : at + rows] for at in range(0, len(values_1), rows))


def is_similar(values_1: list[int], values_2: list[int], exact: float, threshold: float) -> bool:
    """The estimate decides outside a margin of 0.1, or of three standard errors, and exact Jaccard inside."""
    number = len(values_1)
    agreement = sum(map(int.__eq__, values_1, values_2))
    margin = max(0.1, 3 * (threshold * (1 - threshold) / number) ** 0.5)
    is_doubtful = (threshold - margin) * number <= agreement <= (threshold + margin) * number
    return exact >= threshold if is_doubtful else agreement >= threshold * number


def jaccard(text_1: str, text_2: str, ngram: int) -> float:
    one, other = set(shingles(text_1, ngram)), set(shingles(text_2, ngram))
    return len(one & other) / len(one | other)


def connected(position: int, similar: dict[int, set[int]]) -> set[int]:
    found, edge = {position}, [position]
    while edge:
        new = similar[edge.pop()] - found
        found |= new
        edge += new
    return found
