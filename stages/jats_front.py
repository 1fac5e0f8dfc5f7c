"""What the front matter of a JATS article says about it: ids, type, license, date."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from curate.core.errors import DataError
from stages.xml import as_safe_utf8, local_name, pull_parser, with_known_entities

_FRONT_END = b"</article-meta>"
_PMC_TYPES = ("pmcid-ver", "pmcid", "pmc", "pmc-uid")  # the first may state a version: PMC123.2
_PMC_ID = re.compile(r"(?:PMC)?(\d+(?:\.\d+)?)", re.IGNORECASE | re.ASCII)
_PMID = re.compile(r"\d+", re.ASCII)
_XLINK_HREF = "{http://www.w3.org/1999/xlink}href"


@dataclass(frozen=True, kw_only=True)
class JatsFront:
    """Metadata of one article; None where the article does not state it.

    `pmcid`: PMC<number>, with `.version` where stated.
    """

    pmcid: str | None
    pmid: str | None
    doi: str | None
    kind: str | None
    license: str | None
    date: str | None


def read_front(data: bytes) -> JatsFront | None:
    """The metadata of an article, or None where the document is not an article.

    Reads up to </article-meta>, so that what follows is parsed once, by the extractor.
    Raises: DataError('bad_xml'), DataError('unsafe_xml').
    """
    root, meta = _parse_front(as_safe_utf8(data))
    if local_name(root) != "article":
        return None
    ids = dict(_article_ids(meta))
    return JatsFront(
        pmcid=next((f"PMC{found[1]}" for kind in _PMC_TYPES if (found := _PMC_ID.fullmatch(ids.get(kind, "")))), None),
        pmid=ids["pmid"] if _PMID.fullmatch(ids.get("pmid", "")) else None,
        doi=ids.get("doi") or None,
        kind=root.get("article-type"),
        license=_license(meta),
        date=_publication_date(meta),
    )


def _parse_front(text: bytes) -> tuple[Any, Any]:
    """The root and its article-meta (None where there is none)."""
    parser = pull_parser(events=("end",), tag="{*}article-meta")
    cut = text.find(_FRONT_END) + len(_FRONT_END)
    pieces = (text[:cut], text[cut:]) if cut >= len(_FRONT_END) else (text,)
    try:
        for piece in pieces:
            parser.feed(with_known_entities(piece))
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


def _descendants(element: Any, name: str) -> Iterable[Any]:
    return () if element is None else element.iter(f"{{*}}{name}")


# --- license ---------------------------------------------------------------------------------

_CC_URL = re.compile(
    r"creativecommons\.org/(?:licen[cs]es/(?P<terms>by(?:-n[cd]|-sa)*)|publicdomain/(?P<domain>zero|mark))",
    re.IGNORECASE,
)
_CC_SHORT = re.compile(r"\bCC[ -](?P<terms>BY(?:[ -](?:NC|ND|SA))*)\b")
_CC_PHRASE = re.compile(r"creative\s+commons\s+attribution(?P<rest>.{0,60})", re.IGNORECASE | re.DOTALL)
_PUBLIC_DOMAIN = re.compile(
    r"(?:in|within) the public domain|\bpublic domain (?:article|work)\b|U\.?S\.? government work", re.IGNORECASE
)
_RESTRICTIONS = (
    ("nc", re.compile(r"non-?\s?commercial", re.IGNORECASE)),
    ("nd", re.compile(r"no-?\s?deriv", re.IGNORECASE)),
    ("sa", re.compile(r"share-?\s?alike", re.IGNORECASE)),
)


def _license(meta: Any) -> str | None:
    """One of cc0, public-domain, cc-by, cc-by-sa, ... cc-by-nc-nd; None where nothing of these is stated.

    The most restrictive of what the license elements link to, else of what they (or, before NLM 2.3,
    the copyright statement) say: a CC0 waiver for the data does not free the text of an article.
    """
    elements = [*_descendants(meta, "license"), *_descendants(meta, "license_ref")]
    statements = elements or list(_descendants(meta, "copyright-statement"))
    hrefs = [element.get(_XLINK_HREF) or "" for element in elements]
    texts = ["".join(element.itertext()) for element in statements]
    links = [value for text in (*hrefs, *texts, *_linked(elements)) for value in _linked_licenses(text)]
    named = links or [value for text in texts for value in _named_licenses(text)]
    return max(named, key=_restrictiveness, default=None)


def _linked(elements: list[Any]) -> Iterator[str]:
    for element in elements:
        for link in element.iter("{*}ext-link", "{*}uri"):
            yield link.get(_XLINK_HREF) or ""


def _linked_licenses(text: str) -> Iterator[str]:
    for match in _CC_URL.finditer(text):
        if match["terms"]:
            yield "cc-" + match["terms"].lower()
        else:
            yield "cc0" if match["domain"].lower() == "zero" else "public-domain"


def _named_licenses(text: str) -> Iterator[str]:
    for match in _CC_SHORT.finditer(text):
        yield "cc-" + match["terms"].lower().replace(" ", "-")
    for match in _CC_PHRASE.finditer(text):
        yield "-".join(["cc-by", *(name for name, pattern in _RESTRICTIONS if pattern.search(match["rest"]))])
    if re.search(r"\bCC0\b", text):
        yield "cc0"
    if _PUBLIC_DOMAIN.search(text):
        yield "public-domain"


def _restrictiveness(license_name: str) -> tuple[int, str]:
    terms = license_name.split("-")
    return sum(weight for term, weight in (("by", 1), ("sa", 2), ("nd", 4), ("nc", 8)) if term in terms), license_name


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
