"""HTML to text."""

import logging
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import pyarrow as pa
import trafilatura
from lxml.etree import XPath
from resiliparse.extract.html2text import extract_plain_text
from resiliparse.parse.html import HTMLTree
from trafilatura.metadata import extract_title
from trafilatura.utils import load_html

from curate.core.errors import DataError
from curate.core.schema import OPTIONAL
from curate.core.stage import Columns, Map, with_columns
from stages.encoding import clean, decode

# Caps on what goes into a parser, each several times what is found in 1,460 real pages
# (2.9 MB, 19,437 tags, 51 levels, 172 formatting tags that seem open).
MAX_BYTES = 8 << 20
MAX_TAGS = 100_000
MAX_DEPTH = 250  # libxml2 leaves out, without a word, what lies deeper than 256
MAX_OPEN_TAGS = 4096  # by a count that takes unclosed paragraphs and the like for open; lexbor's cost is quadratic
MAX_OPEN_FORMATTING = 512  # lexbor's cost grows with more than their square
MAX_ATTRIBUTES = 1024  # of one tag; parsers compare each with each

_TOO_DEEP = XPath("boolean(" + "/*" * (MAX_DEPTH + 1) + ")")
_TAG = re.compile(r"<(/?)(?!(?:area|base|br|col|embed|hr|img|input|link|meta|source|track|wbr)\b)[a-z]", re.IGNORECASE)
_FORMATTING_TAG = re.compile(r"<(/?)(?:a|b|big|code|em|font|i|nobr|s|small|strike|strong|tt|u)\b", re.IGNORECASE)
_LONG_TAG = re.compile(rf"<[A-Za-z][^<>]{{{2 * MAX_ATTRIBUTES},}}")
_QUOTED = re.compile(r"\"[^\"]*\"|'[^']*'")
Extractor = Callable[[str], tuple[str, str | None]]


@dataclass(frozen=True, kw_only=True)
class ExtractHtml(Map):
    """The main text of web pages, without navigation, comments and boilerplate; plain text is decoded only.

    Reads: content, kind, charset.
    Adds: text (empty where a page has none), title (null where a page has none).
    Removes: content, charset.
    Raises: DataError `bad_encoding`; `too_large`, `too_many_tags`, `too_deep`, `too_many_attributes`,
    `too_many_open_tags` (beyond the caps of this module); `parse_failed`.

    `trafilatura`: its balanced mode without comments: F1 0.956 on article-extraction-benchmark
    (0.963 with `favor_precision`, which loses short texts; 0.959 with `fast`; 0.944 with comments).
    Its time limit, metadata and deduplication, which depend on the clock or on other documents, are
    not used. `resiliparse`: main content without comments and image texts: F1 0.927, 6 times as fast.
    Measured with trafilatura 2.3.1 and resiliparse 2.0.1 on 150 pages.
    """

    version: ClassVar[int] = 1
    libraries: ClassVar[tuple[str, ...]] = ("trafilatura", "resiliparse", "lxml", "justext")
    reads: ClassVar[tuple[str, ...]] = ("content", "kind", "charset")
    removes: ClassVar[tuple[str, ...]] = ("content", "charset")

    extractor: Literal["trafilatura", "resiliparse"] = "trafilatura"

    @property
    def adds(self) -> Columns:
        """Columns that are new."""
        return {name: OPTIONAL[name] for name in ("text", "title")}

    def open(self) -> Callable[[pa.RecordBatch], pa.RecordBatch]:
        """The function that maps a batch."""
        logging.getLogger("trafilatura").setLevel(logging.CRITICAL)  # a page without text is no event
        extract = _EXTRACTORS[self.extractor]

        def extract_batch(batch: pa.RecordBatch) -> pa.RecordBatch:
            columns = [batch.column(name).to_pylist() for name in self.reads]
            pages = [_extract(extract, *row) for row in zip(*columns, strict=True)]
            added = {
                name: pa.array([page[at] for page in pages], type=kind)
                for at, (name, kind) in enumerate(self.adds.items())
            }
            return with_columns(batch, added, self.removes)

        return extract_batch


def _extract(
    extract: Extractor, content: bytes | None, kind: str | None, charset: str | None
) -> tuple[str, str | None]:
    """Text and title of one page."""
    if not content:
        return "", None
    if len(content) > MAX_BYTES:
        raise DataError("too_large", f"{len(content)} bytes, more than {MAX_BYTES}")
    page = decode(content, charset, is_html=kind != "text/plain")
    if kind == "text/plain":
        return clean(page), None
    _check_tags(page)
    try:
        text, title = extract(page)
    except DataError:
        raise
    except Exception as error:  # whatever a parser raises is about this page
        raise DataError("parse_failed", f"{type(error).__name__}: {error}") from error
    return clean(text), " ".join(clean(title).split()) or None if title else None


def _check_tags(page: str) -> None:
    num_tags = page.count("<")
    if num_tags > MAX_TAGS:
        raise DataError("too_many_tags", f"{num_tags}, more than {MAX_TAGS}")
    for tag in _LONG_TAG.finditer(page):
        num_attributes = len(_QUOTED.sub("", tag[0]).split()) - 1
        if num_attributes > MAX_ATTRIBUTES:
            raise DataError("too_many_attributes", f"{num_attributes} in one tag, more than {MAX_ATTRIBUTES}")


def _by_trafilatura(page: str) -> tuple[str, str | None]:
    # trafilatura deletes control characters; these two separate words.
    page = page.replace("\v", " ").replace("\f", " ")
    # Without `html` among the first 50 characters trafilatura takes a page of one block for no page.
    tree = load_html(page if "html" in page[:50].lower() else f"<!DOCTYPE html>\n{page}")
    if tree is None:
        return "", None
    if _TOO_DEEP(tree):
        raise DataError("too_deep", f"more than {MAX_DEPTH} levels")
    title = extract_title(tree)
    document: Any = trafilatura.bare_extraction(tree, include_comments=False)
    return (document.text or "" if document else ""), title


def _by_resiliparse(page: str) -> tuple[str, str | None]:
    _check_open_tags(page)
    tree = HTMLTree.parse(page)
    text = extract_plain_text(
        tree, main_content=True, preserve_formatting=True, list_bullets=False, alt_texts=False, comments=False
    )
    return text, tree.title


def _check_open_tags(page: str) -> None:
    """Refuse what lexbor is slow at, by a count over tags that takes no notice of which may contain which."""
    num_opening = page.count("<") - page.count("</")
    if num_opening <= MAX_OPEN_FORMATTING:
        return
    if num_opening > MAX_OPEN_TAGS and _most_open(_TAG, page) > MAX_OPEN_TAGS:
        raise DataError("too_many_open_tags", f"more than {MAX_OPEN_TAGS}")
    if _most_open(_FORMATTING_TAG, page) > MAX_OPEN_FORMATTING:
        raise DataError("too_many_open_tags", f"more than {MAX_OPEN_FORMATTING} of them formatting")


def _most_open(tags: re.Pattern[str], page: str) -> int:
    """The most tags open at one place."""
    open_tags = most = 0
    for slash in tags.findall(page):
        if not slash:
            open_tags += 1
            most = max(most, open_tags)
        elif open_tags:
            open_tags -= 1
    return most


_EXTRACTORS: dict[str, Extractor] = {"trafilatura": _by_trafilatura, "resiliparse": _by_resiliparse}
