"""Two real sets of documents with the exact Jaccard index of every pair that is similar at all.

`spdx`: license texts, and the pairs that come with them (words are `[a-z0-9]+`). `web`: the text that trafilatura
finds in pages and WARC responses, with pairs computed here (words are `\\w+`, as for the peers' figures).
"""

import gzip
import json
import lzma
import re
import tarfile
from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

import trafilatura
from fastwarc.warc import ArchiveIterator, WarcRecordType

DATA = Path(__file__).parents[2] / "shared" / "data"
MIN_WORDS = 50  # of a page: that of the published pairs
MIN_JACCARD = 0.2
NGRAM = 5


class DocumentSet(NamedTuple):
    """Texts, and the Jaccard index of pairs of positions (the smaller first), where it is at least MIN_JACCARD."""

    texts: list[str]
    jaccard: dict[tuple[int, int], float]

    @property
    def megabytes(self) -> float:
        """Of UTF-8."""
        return sum(len(text.encode()) for text in self.texts) / 1e6

    def similarity(self, one: int, other: int) -> float:
        """The Jaccard index of a pair, 0 below MIN_JACCARD."""
        return self.jaccard.get((min(one, other), max(one, other)), 0.0)


def license_texts() -> DocumentSet:
    """727 license texts: near-duplicates made by people, of all similarities."""
    with lzma.open(DATA / "text" / "spdx_licence_texts.jsonl.xz", "rt", encoding="utf-8") as file:
        records = [json.loads(line) for line in file]
    places = {record["id"]: place for place, record in enumerate(records)}
    jaccard = {}
    with gzip.open(DATA / "text" / "spdx_pairs_word5gram_jaccard.tsv.gz", "rt", encoding="utf-8") as lines:
        for one, other, value in (line.split() for line in list(lines)[1:]):
            first, second = sorted((places[one], places[other]))
            jaccard[first, second] = float(value)
    return DocumentSet([record["text"] for record in records], jaccard)


def web_texts() -> DocumentSet:
    """About 1,400 web pages, many of them from a few templates."""
    found = [trafilatura.extract(page) for page in _pages()]
    texts = [text for text in found if text and len(text.split()) >= MIN_WORDS]
    return DocumentSet(texts, exact_pairs(texts))


def exact_pairs(texts: list[str]) -> dict[tuple[int, int], float]:
    """The Jaccard index of every pair, by counting the shingles that two documents share."""
    sets = [shingles(text) for text in texts]
    holders: defaultdict[str, list[int]] = defaultdict(list)
    for number, one in enumerate(sets):
        for shingle in one:
            holders[shingle].append(number)
    common: Counter[tuple[int, int]] = Counter()
    for numbers in holders.values():
        common.update(combinations(numbers, 2))
    indices = {pair: count / (len(sets[pair[0]]) + len(sets[pair[1]]) - count) for pair, count in common.items()}
    return {pair: index for pair, index in indices.items() if index >= MIN_JACCARD}


def shingles(text: str) -> set[str]:
    """Word 5-grams of the lower-cased text."""
    words = re.findall(r"\w+", text.lower())
    return {" ".join(words[start : start + NGRAM]) for start in range(len(words) - NGRAM + 1)}


def _pages() -> Iterator[bytes]:
    for path in sorted((DATA / "web" / "html").glob("*.tar.xz")):
        with tarfile.open(path) as archive:
            for member in archive:
                file = archive.extractfile(member) if member.name.endswith(".html") else None
                if file is not None and "expected" not in member.name:
                    yield file.read()
    for path in sorted((DATA / "web" / "warc").glob("*.*arc*")):
        if path.name.endswith((".warc.gz", ".warc")):
            with path.open("rb") as stream:
                for record in ArchiveIterator(stream, record_types=WarcRecordType.response, parse_http=True):
                    yield record.reader.read()
