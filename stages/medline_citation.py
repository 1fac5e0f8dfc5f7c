"""What a PubMed citation says: its ids, and its title and abstract as plain text.

Text: `# ` and the title, an empty line, then the abstract, a paragraph for each of its parts, apart by an
empty line; a part with a label begins with it: `METHODS: We did.` How a paragraph is written (superscripts,
white space, invisible characters) is that of `stages.jats_inline`.

Left out, by name: VernacularTitle and OtherAbstract (another language, or plain words for the same) unless
translations are asked for, except that the first English one stands in for a missing Abstract;
CopyrightInformation, CommentsCorrections and all else outside of title and abstract; placeholders for titles
that NLM does not have; the note that an abstract was cut; labels that say that there is none.
"""

import html
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from lxml import etree

from curate.core.errors import DataError
from stages import jats_inline as inline
from stages.jats_formula import mathml
from stages.jats_front import iso_date
from stages.xml import local_name

MAX_PMID_DIGITS = 18  # far above those that there are, and an int64


@dataclass(frozen=True)
class Pmid:
    """A PMID and its version; None where a deletion names no version, and so all of them."""

    number: str
    version: int | None


@dataclass(frozen=True, kw_only=True)
class Citation:
    """One PubmedArticle; None where it does not state a thing.

    `text` is empty where there is no abstract. `language` is that of the text.
    """

    pmid: Pmid
    pmcid: str | None
    doi: str | None
    title: str | None
    text: str
    language: str | None
    date: str | None
    is_retracted: bool
    journal: str | None


def read_citation(article: Any, with_translations: bool = False) -> Citation:
    """What a PubmedArticle element says. Raises: DataError('bad_pmid'), DataError('bad_xml') where it holds two."""
    citation, found = _only(article, "MedlineCitation"), _only(article, "MedlineCitation/PMID")
    ids = dict(_article_ids(article))
    written_title = _paragraph(citation.find("Article/ArticleTitle"))
    title = _without_brackets(written_title)
    abstract = _abstract(citation)
    if with_translations:
        title = " / ".join(filter(None, [title, _paragraph(citation.find("Article/VernacularTitle"))])) or None
        abstract = "\n\n".join(filter(None, [abstract, *_other_abstracts(citation, abstract)]))
    return Citation(
        pmid=read_pmid(found, version="1"),
        pmcid=ids["pmc"].upper() if _PMCID.fullmatch(ids.get("pmc", "")) else None,
        doi=ids.get("doi") or _stated_doi(citation),
        title=title,
        text=f"# {title}\n\n{abstract}" if title and abstract else abstract,
        language=_language(citation, is_translated=written_title.startswith("[")),
        date=_date(citation),
        is_retracted=any(kind.text == "Retracted Publication" for kind in citation.iterfind(_TYPES)),
        journal=_paragraph(citation.find("Article/Journal/Title")) or None,
    )


def read_pmid(element: Any, version: str | None = None) -> Pmid:
    """A PMID element; `version` stands in for a missing attribute. Raises: DataError('bad_pmid')."""
    number = (element.text or "").strip()
    stated = element.get("Version", version)
    if not _DIGITS.fullmatch(number) or not (stated is None or _VERSION.fullmatch(stated)):
        raise DataError("bad_pmid", f"{number[:40]!r}, version {(stated or '')[:40]!r}")
    return Pmid(number.lstrip("0") or "0", None if stated is None else int(stated))


def _only(article: Any, path: str) -> Any:
    """The one element at `path`. Two in one record are what damage that took a border leaves."""
    found = article.findall(path)
    if len(found) > 1:
        raise DataError("bad_xml", f"{len(found)} {path} in one record")
    if not found:
        raise DataError("bad_pmid", f"no {path}")
    return found[0]


_DIGITS = re.compile(rf"\d{{1,{MAX_PMID_DIGITS}}}", re.ASCII)
_VERSION = re.compile(r"\d{1,4}", re.ASCII)
_PMCID = re.compile(r"PMC\d+(?:\.\d+)?", re.IGNORECASE | re.ASCII)
_TYPES = "Article/PublicationTypeList/PublicationType"


def _article_ids(article: Any) -> Iterator[tuple[str, str]]:
    """(type, id) of the article itself: those of its references lie deeper."""
    for element in article.iterfind("PubmedData/ArticleIdList/ArticleId"):
        yield element.get("IdType") or "pubmed", (element.text or "").strip()


def _stated_doi(citation: Any) -> str | None:
    for element in citation.iterfind("Article/ELocationID"):
        if element.get("EIdType") == "doi" and element.get("ValidYN") != "N" and element.text:
            return str(element.text).strip() or None
    return None


# --- title and abstract ----------------------------------------------------------------------

_PLACEHOLDER = re.compile(r"\[(?:not available|in process citation|no title available)\.?\]\.?", re.IGNORECASE)
_TRANSLATED = re.compile(r"\[((?:[^\[\]]|\[[^\[\]]*\])*)\](\.?)")
_CUT_NOTE = re.compile(r" ?\(ABSTRACT TRUNCATED(?: AT \d+ WORDS)?\)$")
_NO_LABELS = frozenset({"", "unlabelled", "unlabeled", "unassigned"})
_PUNCTUATION = (".", ":", ";", ",", "-", "?", "!")


def _without_brackets(title: str) -> str | None:
    """A title as a reader says it: NLM puts a translated title in brackets, and some words in place of none."""
    if _PLACEHOLDER.fullmatch(title):
        return None
    if translated := _TRANSLATED.fullmatch(title):
        inner = translated[1].strip()
        title = inner if inner.endswith(_PUNCTUATION) else inner + translated[2]
    return title or None


def _abstract(citation: Any) -> str:
    parts = citation.findall("Article/Abstract/AbstractText")
    if not parts:
        others = citation.iterfind("OtherAbstract")
        other = next((one for one in others if one.get("Language", "eng") == "eng"), None)
        parts = [] if other is None else other.findall("AbstractText")
    return "\n\n".join(text for part in parts if (text := _labeled(part)))


def _other_abstracts(citation: Any, abstract: str) -> Iterator[str]:
    """Abstracts in other languages, or for other readers, but for one that stands in for the missing first."""
    for other in citation.iterfind("OtherAbstract"):
        text = "\n\n".join(text for part in other.findall("AbstractText") if (text := _labeled(part)))
        if text != abstract:
            yield text


def _labeled(part: Any) -> str:
    text = _CUT_NOTE.sub("", _paragraph(part))
    label = " ".join((part.get("Label") or "").split())
    if not text or label.casefold() in _NO_LABELS or text.casefold().startswith(f"{label.casefold()}:"):
        return text
    return f"{label} {text}" if label.endswith(_PUNCTUATION) else f"{label}: {text}"


# --- a paragraph -----------------------------------------------------------------------------

_INLINE = frozenset({"b", "i", "math", "u"})
_MARKS = {"sup": (inline.SUP_OPEN, inline.SUP_CLOSE), "sub": (inline.SUB_OPEN, inline.SUB_CLOSE)}

# Markup that was escaped once too often, so that it has become text. Tags have no attributes there, and only
# these are taken for tags: `p < 0.05` is none.
_INLINE_TAGS = "b|em|font|i|italic|small|span|strong|u"
_BLOCK_TAGS = "br|div|h[1-6]|li|ol|p|sec|title|ul"
_ESCAPED = re.compile(
    rf"[<&](?:(?:(?<=<)|(?<=&)lt;)(/?)(?:({_INLINE_TAGS})|({_BLOCK_TAGS})|(su[bp]))\s?/?(?:>|&gt;)"
    r"|(?<=&)(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});)",
    re.IGNORECASE,
)


def _paragraph(element: Any) -> str:
    """The text of an element on one line; empty where there is none."""
    if element is None:
        return ""
    raw = (element.text or "") if len(element) == 0 else "".join(_raw_pieces(element))
    if "&" in raw or "<" in raw:
        raw = _ESCAPED.sub(_unescaped, raw)
    return inline.finish(raw)


def _raw_pieces(element: Any) -> Iterator[str]:
    """Text in document order, with marks for what needs its surroundings to be judged."""
    walker = etree.iterwalk(element, events=("start", "end"))
    for event, node in walker:
        name = local_name(node)
        before, behind = _MARKS.get(name, ("", "") if name in _INLINE or node is element else (" ", " "))
        if event == "end":
            yield behind
            yield node.tail or "" if node is not element else ""
        elif name == "math":
            yield mathml(node)
            walker.skip_subtree()
        else:
            yield before
            yield node.text or ""


def _unescaped(match: re.Match[str]) -> str:
    if match[2]:
        return ""
    if match[3]:
        return " "
    if match[4]:
        return _MARKS[match[4].lower()][bool(match[1])]
    text = html.unescape(match[0])
    return text if text.isspace() or min(text, default=" ") >= " " else match[0]  # the marks are control characters


# --- language and date -----------------------------------------------------------------------

# NLM's codes (MARC) of the languages that it indexes most, by their ISO 639-1 codes.
_LANGUAGES = {
    "afr": "af", "ara": "ar", "bul": "bg", "cat": "ca", "chi": "zh", "cze": "cs", "dan": "da", "dut": "nl",
    "eng": "en", "est": "et", "fin": "fi", "fre": "fr", "geo": "ka", "ger": "de", "gre": "el", "heb": "he",
    "hrv": "hr", "hun": "hu", "ice": "is", "ind": "id", "ita": "it", "jpn": "ja", "kor": "ko", "lav": "lv",
    "lit": "lt", "mac": "mk", "may": "ms", "nor": "no", "per": "fa", "pol": "pl", "por": "pt", "rum": "ro",
    "rus": "ru", "slo": "sk", "slv": "sl", "spa": "es", "srp": "sr", "swe": "sv", "tha": "th", "tur": "tr",
    "ukr": "uk", "vie": "vi",
}  # fmt: skip
_UNKNOWN = frozenset({"mul", "und"})


def _language(citation: Any, is_translated: bool) -> str | None:
    """Of the text, ISO 639-1 where it has a code.

    A title in brackets is NLM's English translation, and such an article's abstract is English too; else
    the text is in English where the article is (also), or in the first language that is stated.
    """
    stated = [(one.text or "").strip().lower() for one in citation.iterfind("Article/Language")]
    if is_translated or "eng" in stated:
        return "en"
    known = [code for code in stated if code and code not in _UNKNOWN]
    return _LANGUAGES.get(known[0], known[0]) if known else None


def _date(citation: Any) -> str | None:
    """Of the electronic publication, else of the journal's issue; of a range of dates the first year."""
    for path in ("Article/ArticleDate", "Article/Journal/JournalIssue/PubDate"):
        if (found := citation.find(path)) is None:
            continue
        parts = {str(child.tag): (child.text or "").strip() for child in found}
        year = parts.get("Year") or parts.get("MedlineDate", "")[:4]
        if date := iso_date(year, parts.get("Month", ""), parts.get("Day", "")):
            return date
    return None
