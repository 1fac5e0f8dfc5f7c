"""HTML to text."""

import functools
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
from stages.encoding import clean, decode, to_utf8

# Caps on what goes into a parser, each several times what is found in 1,460 real pages
# (2.9 MB, 19,437 tags, 51 levels, 172 formatting tags that seem open).
MAX_BYTES = 8 << 20
MAX_TAGS = 100_000
MAX_DEPTH = 250  # libxml2 leaves out, without a word, what lies deeper than 256
MAX_OPEN_TAGS = 4096  # by a count that takes unclosed paragraphs and the like for open; lexbor's cost is quadratic
MAX_OPEN_FORMATTING = 512  # lexbor's cost grows with more than their square
MAX_ATTRIBUTES = 1024  # of one tag; parsers compare each with each
DECIMALS = 4
DECISION: Columns = {"extracted_by": pa.string(), "uncertainty": pa.float32()}  # which extractor, and why

_TOO_DEEP = XPath("boolean(" + "/*" * (MAX_DEPTH + 1) + ")")
_TAG = re.compile(r"<(/?)(?!(?:area|base|br|col|embed|hr|img|input|link|meta|source|track|wbr)\b)[a-z]", re.IGNORECASE)
_FORMATTING_TAG = re.compile(r"<(/?)(?:a|b|big|code|em|font|i|nobr|s|small|strike|strong|tt|u)\b", re.IGNORECASE)
_LONG_TAG = re.compile(rf"<[A-Za-z][^<>]{{{2 * MAX_ATTRIBUTES},}}")
_QUOTED = re.compile(r"\"[^\"]*\"|'[^']*'")
Extractor = Callable[[str], tuple[str, str | None]]
Row = tuple[str, str | None, str | None, float | None]  # text, title, extracted_by, uncertainty


@dataclass(frozen=True, kw_only=True)
class ExtractHtml(Map):
    """The main text of web pages, without navigation, comments and boilerplate; plain text is decoded only.

    Reads: content, kind, charset.
    Adds: text (empty where a page has none), title (null where a page has none). `fast` adds extracted_by (`fast`,
    `trafilatura`, or `fast_only` where the page was unsure and trafilatura refused it or found nothing; null for plain
    text) and uncertainty (0 to 1, 4 decimals).
    Removes: content, charset.
    Raises: DataError `bad_encoding`; `too_large`, `too_many_tags`, `too_deep`, `too_many_attributes`,
    `too_many_open_tags` (beyond the caps of this module); `parse_failed`.

    `trafilatura`: its balanced mode without comments: F1 0.956 on article-extraction-benchmark
    (0.963 with `favor_precision`, which loses short texts; 0.959 with `fast`; 0.944 with comments).
    Its time limit, metadata and deduplication, which depend on the clock or on other documents, are
    not used. `resiliparse`: main content without comments and image texts: F1 0.927, 6 times as fast.
    Measured with trafilatura 2.3.1 and resiliparse 2.0.1 on 150 pages.
    `fast`: stages.main_text, compiled, its model in the package. A page that is more uncertain than all but the share
    `unsure` of the pages it was measured on goes to trafilatura: the limit is absolute, so the share of other pages may
    be another. docs/extraction.md has the figures for this and other shares.
    """

    version: ClassVar[int] = 2
    libraries: ClassVar[tuple[str, ...]] = ("trafilatura", "resiliparse", "lxml", "justext", "numba")
    reads: ClassVar[tuple[str, ...]] = ("content", "kind", "charset")
    removes: ClassVar[tuple[str, ...]] = ("content", "charset")

    extractor: Literal["trafilatura", "resiliparse", "fast"] = "trafilatura"
    unsure: float = 0.05  # of the pages, those that `fast` sends to trafilatura; 0: none

    def __post_init__(self) -> None:
        """Refuse what is no share."""
        if not 0 <= self.unsure <= 1:
            raise ValueError(f"unsure: found {self.unsure}, wanted a share from 0 to 1")

    @property
    def adds(self) -> Columns:
        """Columns that are new."""
        columns = {name: OPTIONAL[name] for name in ("text", "title")}
        return {**columns, **DECISION} if self.extractor == "fast" else columns

    def open(self) -> Callable[[pa.RecordBatch], pa.RecordBatch]:
        """The function that maps a batch."""
        logging.getLogger("trafilatura").setLevel(logging.CRITICAL)  # a page without text is no event
        extract = self._extractor()

        def extract_batch(batch: pa.RecordBatch) -> pa.RecordBatch:
            columns = [batch.column(name).to_pylist() for name in self.reads]
            pages = [extract(*row) for row in zip(*columns, strict=True)]
            added = {
                name: pa.array([page[at] for page in pages], type=kind)
                for at, (name, kind) in enumerate(self.adds.items())
            }
            return with_columns(batch, added, self.removes)

        return extract_batch

    def _extractor(self) -> Callable[[bytes | None, str | None, str | None], Row]:
        """The function of content, kind and charset that gives the columns of one page."""
        if self.extractor == "fast":
            from stages.main_text import load_model, read_page  # compiles: only who uses it shall wait

            model = load_model()
            limit = round(model.limit(self.unsure), DECIMALS) if self.unsure else 1.0
            return functools.partial(_cascade, functools.partial(read_page, model=model), limit)
        return functools.partial(_extract, _EXTRACTORS[self.extractor])


def _cascade(
    read_page: Callable[[bytes], tuple[str, str | None, float]],
    limit: float,
    content: bytes | None,
    kind: str | None,
    charset: str | None,
) -> Row:
    """One page by the compiled extractor, or by trafilatura where that is not sure."""
    if not content or kind == "text/plain":
        return _extract(_by_trafilatura, content, kind, charset)
    if len(content) > MAX_BYTES:
        raise DataError("too_large", f"{len(content)} bytes, more than {MAX_BYTES}")
    text, title, uncertainty = read_page(to_utf8(content, charset, is_html=True))
    text, title, uncertainty = clean(text), _one_line(title), round(uncertainty, DECIMALS)
    if uncertainty <= limit:
        return text, title, "fast", uncertainty
    try:
        second, second_title, *_ = _extract(_by_trafilatura, content, kind, charset)
    except DataError:  # it has bounds that the compiled extractor does not need
        second, second_title = "", None
    if not second.strip():
        return text, title, "fast_only", uncertainty
    return second, second_title, "trafilatura", uncertainty


def _extract(extract: Extractor, content: bytes | None, kind: str | None, charset: str | None) -> Row:
    """One page by an extractor that takes text."""
    if not content:
        return "", None, None, None
    if len(content) > MAX_BYTES:
        raise DataError("too_large", f"{len(content)} bytes, more than {MAX_BYTES}")
    page = decode(content, charset, is_html=kind != "text/plain")
    if kind == "text/plain":
        return clean(page), None, None, None
    _check_tags(page)
    try:
        text, title = extract(page)
    except DataError:
        raise
    except Exception as error:  # whatever a parser raises is about this page
        raise DataError("parse_failed", f"{type(error).__name__}: {error}") from error
    return clean(text), _one_line(title), None, None


def _one_line(title: str | None) -> str | None:
    return " ".join(clean(title).split()) or None if title else None


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
