"""What the front matter of a JATS article says about it: ids, type, license, date."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from curate.core.errors import DataError
from stages.jats_license import UNCLEAR, License, read_license
from stages.xml import as_safe_utf8, declared_encoding, local_name, pull_parser, with_known_entities

_XML_LANG = "{http://www.w3.org/XML/1998/namespace}lang"
_FRONT_END = b"</article-meta>"
_PMC_TYPES = ("pmcid-ver", "pmcid", "pmc", "pmc-uid")  # the first may state a version: PMC123.2
_PMC_ID = re.compile(r"(?:PMC)?(\d+(?:\.\d+)?)", re.IGNORECASE | re.ASCII)
_PMID = re.compile(r"\d+", re.ASCII)


@dataclass(frozen=True, kw_only=True)
class JatsFront:
    """Metadata of one article; None where the article does not state it.

    `pmcid`: PMC<number>, with `.version` where stated. `language`: ISO 639-1. `retracted`: whether the article
    says that it is retracted or withdrawn; a notice of it is another article, of kind `retraction`.
    """

    pmcid: str | None
    pmid: str | None
    doi: str | None
    kind: str | None
    date: str | None
    journal: str | None = None
    language: str | None = None
    license: License = UNCLEAR
    retracted: bool = False


def read_front(data: bytes) -> JatsFront | None:
    """The metadata of an article, or None where the document is not an article.

    Reads up to </article-meta>, so that what follows is parsed once, by the extractor.
    Raises: DataError('bad_xml'), DataError('unsafe_xml').
    """
    root, meta = _parse_front(data)
    if local_name(root) != "article":
        return None
    ids = dict(_article_ids(meta))
    return JatsFront(
        pmcid=next((f"PMC{found[1]}" for kind in _PMC_TYPES if (found := _PMC_ID.fullmatch(ids.get(kind, "")))), None),
        pmid=ids["pmid"] if _PMID.fullmatch(ids.get("pmid", "")) else None,
        doi=ids.get("doi") or None,
        kind=root.get("article-type"),
        license=read_license(meta),
        date=_publication_date(meta),
        journal=_journal(root),
        language=_language(root),
        retracted=_is_retracted(meta),
    )


def _parse_front(data: bytes) -> tuple[Any, Any]:
    """The root and its article-meta (None where there is none)."""
    parser = pull_parser(events=("end",), tag="{*}article-meta")
    cut = data.find(_FRONT_END) + len(_FRONT_END)
    is_found = cut >= len(_FRONT_END)  # never in UTF-16, where all is read at once
    pieces = (data[:cut], data[cut:]) if is_found and declared_encoding(data) == "utf-8" else (data,)
    try:
        for piece in pieces:
            parser.feed(with_known_entities(as_safe_utf8(piece)))
            for _, meta in parser.read_events():
                root = meta.getroottree().getroot()
                if meta.getparent() is not None and meta.getparent().getparent() is root:
                    return root, meta
        return parser.close(), None
    except SyntaxError as error:  # lxml's XMLSyntaxError is one
        raise DataError("bad_xml", str(error)) from None


def _article_ids(meta: Any) -> Iterator[tuple[str, str]]:
    """(type, id), later ones of a type first, as a dict keeps the last."""
    for element in reversed(_children(meta, "article-id")):
        yield element.get("pub-id-type") or "", "".join("".join(element.itertext()).split())


def _children(element: Any, name: str) -> list[Any]:
    return [] if element is None else [child for child in element if local_name(child) == name]


def _journal(root: Any) -> str | None:
    """The journal's title, else its abbreviation or PMC's; markup in it is none of its words."""
    found = root.find("{*}front/{*}journal-meta")
    for name in ("journal-title", "abbrev-journal-title", "journal-id"):
        element = None if found is None else next(found.iter(f"{{*}}{name}"), None)
        if element is not None and (text := " ".join("".join(element.itertext()).split())):
            return text
    return None


def _language(root: Any) -> str | None:
    stated = (root.get(_XML_LANG) or "").split("-")[0].lower()
    return stated if re.fullmatch(r"[a-z]{2,3}", stated) else None


_RETRACTED_TITLE = re.compile(r"\W*(?:retracted(?: article)?|withdrawn)\b\W{0,2}[:\]\-\u2013]", re.IGNORECASE)
_RETRACTED_TYPES = frozenset({"retracted", "retraction", "retraction-forward", "withdrawal", "withdrawn"})


def _is_retracted(meta: Any) -> bool:
    """By a title that begins with it, a date of it, or a link to the notice of it."""
    if meta is None:
        return False
    title = meta.find("{*}title-group/{*}article-title")
    dates = (one.get("date-type") or one.get("pub-type") for one in meta.iter("{*}pub-date", "{*}date"))
    links = (one.get("related-article-type") for one in meta.iterfind("{*}related-article"))
    is_titled = title is not None and _RETRACTED_TITLE.match("".join(title.itertext())) is not None
    return is_titled or any(kind in _RETRACTED_TYPES for kind in (*dates, *links))


def article_url(doi: str | None, pmcid: str | None, pmid: str | None) -> str | None:
    """Where a reader finds the article."""
    if doi:
        return f"https://doi.org/{doi}"
    if pmcid:
        return f"https://pmc.ncbi.nlm.nih.gov/articles/{pmcid.partition('.')[0]}/"
    return f"https://pubmed.ncbi.nlm.nih.gov/{pmid}/" if pmid else None


# --- date ------------------------------------------------------------------------------------

# In the order of trust; the dates on which PMC or the NIH received the article say nothing of its publication.
_DATE_TYPES = ("epub", "pub", "epub-ppub", "ppub", "collection")
_DEPOSIT_TYPES = frozenset({"pmc-release", "nihms-submitted", "retraction", "corrected", "preprint"})
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")


def _publication_date(meta: Any) -> str | None:
    """ISO 8601, as exact as the source states it: 2005-03-15, 2005-03 or 2005."""
    dates = {}
    for element in reversed(_children(meta, "pub-date")):
        kind = element.get("pub-type") or element.get("date-type") or ""
        if kind not in _DEPOSIT_TYPES and (date := _iso_date(element)):
            dates[kind] = date
    ordered = [*_DATE_TYPES, *sorted(set(dates) - set(_DATE_TYPES))]
    return next((dates[kind] for kind in ordered if kind in dates), None)


def _iso_date(element: Any) -> str | None:
    parts = {local_name(child): "".join(child.itertext()).strip() for child in element}
    return iso_date(parts.get("year", ""), parts.get("month", ""), parts.get("day", ""))


def iso_date(year: str, month: str, day: str) -> str | None:
    """ISO 8601, as exact as what is stated allows; the month is a number or begins as its English name does."""
    number = _month(month)
    if not re.fullmatch(r"[12]\d{3}", year, re.ASCII):
        return None
    if number is None:
        return year
    if not re.fullmatch(r"\d{1,2}", day, re.ASCII) or not 1 <= int(day) <= 31:
        return f"{year}-{number:02d}"
    return f"{year}-{number:02d}-{int(day):02d}"


def _month(text: str) -> int | None:
    if re.fullmatch(r"\d{1,2}", text, re.ASCII):
        return int(text) if 1 <= int(text) <= 12 else None
    name = text[:3].lower()
    return _MONTHS.index(name) + 1 if name in _MONTHS else None
