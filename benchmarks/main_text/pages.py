"""Real pages with gold text, and which of them belong to one site."""

import functools
import hashlib
import json
import lzma
import re
import tarfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import lxml.html

DATA = Path(__file__).parents[3] / "shared" / "data" / "web"  # beside the repository
ARTICLES, SEGMENTS, READABILITY, NEWSPAPER, GOOSE = (
    "article_extraction_benchmark", "trafilatura", "readability", "newspaper4k", "goose3",
)  # fmt: skip
TRAINING_SETS = (ARTICLES, SEGMENTS, READABILITY, NEWSPAPER)  # goose3 has prefixes only
NUM_FOLDS = 5
_SHARED_HOSTS = frozenset(
    ["wordpress", "blogspot", "blogger", "tumblr", "github", "substack", "medium", "over-blog", "twoday"]
)  # each host is a site of its own
_SECOND_LEVEL = frozenset(["co", "com", "gov", "org", "ac", "net"])


@dataclass(frozen=True)
class GoldPage:
    """A page: `text` is the whole text where people typed it, `present` and `absent` are strings of other sets."""

    id: str
    set: str
    content: bytes = field(repr=False)
    site: str
    language: str
    text: str | None = field(default=None, repr=False)
    present: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()
    title: str | None = None
    prefix: str | None = field(default=None, repr=False)  # how the text begins, often not more than that

    @property
    def fold(self) -> int:
        """Pages of one site are in one fold, whatever set they are from."""
        return int.from_bytes(hashlib.sha256(self.site.encode()).digest()[:8], "big") % NUM_FOLDS


@functools.cache
def load_pages(sets: tuple[str, ...] = TRAINING_SETS, folder: Path = DATA) -> tuple[GoldPage, ...]:
    """The pages that have gold, in a fixed order."""
    with (folder / "manifest.jsonl").open(encoding="utf-8") as lines:
        facts = {row["id"]: row for row in map(json.loads, lines)}
    pages: list[GoldPage] = []
    for name in sets:
        files = read_archive(folder / "html" / f"{name}.tar.xz")
        with lzma.open(folder / "html" / f"{name}.gold.jsonl.xz", "rt", encoding="utf-8") as lines:
            pages += [_page(row, facts[row["id"]], files) for row in map(json.loads, lines)]
    return tuple(pages)


def read_archive(path: Path) -> dict[str, bytes]:
    """The files of a tar archive by name."""
    with tarfile.open(path) as archive:
        opened = ((member.name, archive.extractfile(member)) for member in archive if member.isfile())
        return {name: file.read() for name, file in opened if file}


def _page(row: dict[str, Any], facts: dict[str, Any], files: dict[str, bytes]) -> GoldPage:
    url = row.get("url") or facts.get("url")
    gold: dict[str, Any] = row["gold"] if isinstance(row["gold"], dict) else {}
    text = gold.get("text") if row["kind"] == "full_text" else None
    if row["kind"] == "expected_html":
        expected = files[row["member"].replace("source.html", "expected.html")]
        text = " ".join(lxml.html.fromstring(expected.decode("utf-8", "replace")).itertext())
    return GoldPage(
        id=row["id"],
        set=facts["set"],
        content=files[row["member"]],
        site=site_of(url) if url else _site_of_name(row["id"]),
        language=facts.get("lid176") or "",
        text=text,
        present=tuple(gold.get("with") or ()),
        absent=tuple(gold.get("without") or ()),
        title=gold.get("title") or None,
        prefix=gold.get("text") if row["kind"] == "text_prefix" else None,
    )


def site_of(url: str) -> str:
    """The label of the registered domain, so that `example.co.uk` and `example.de` are one site; blogs by host."""
    host = (urlsplit(url).hostname or url).lower().removeprefix("www.")
    labels = host.split(".")
    if len(labels) > 2 and labels[-2] in _SHARED_HOSTS:
        return host
    if len(labels) > 2 and labels[-2] in _SECOND_LEVEL:
        return labels[-3]
    return labels[-2] if len(labels) > 1 else host


def _site_of_name(name: str) -> str:
    return re.sub(r"[-_]?\d*(\.html)?$", "", name.partition("/")[2])
