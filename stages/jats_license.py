"""The license of an article, read from its own words and links, with what was read."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

MAX_EVIDENCE = 200  # letters

_XLINK_HREF = "{http://www.w3.org/1999/xlink}href"
_CC_URL = re.compile(
    r"creativecommons\.org/(?:licen[cs]es/(?P<terms>by(?:-n[cd]|-sa)*)|publicdomain/(?P<domain>zero|mark))[^\s\"<>)]{0,60}",
    re.IGNORECASE,
)
_CC_SHORT = re.compile(r"\bCC[ -](?P<terms>BY(?:[ -](?:NC|ND|SA))*)\b")
_CC_PHRASE = re.compile(r"creative\s+commons\s+attribution(?P<rest>.{0,60})", re.IGNORECASE | re.DOTALL)
_CC0 = re.compile(r"\bCC0\b")
_PUBLIC_DOMAIN = re.compile(
    r"(?:in|within) the public domain|\bpublic domain (?:article|declaration|work)\b|U\.?S\.? government work",
    re.IGNORECASE,
)
_VERBATIM = re.compile(
    r"verbatim copying and redistribution of this article are permitted in (?:all|any) medi", re.IGNORECASE
)
_NON_COMMERCIAL = re.compile(r"\bnon-?\s?commercial\b", re.IGNORECASE)
_RESTRICTIONS = (
    ("nc", re.compile(r"non-?\s?commercial", re.IGNORECASE)),
    ("nd", re.compile(r"no-?\s?deriv", re.IGNORECASE)),
    ("sa", re.compile(r"share-?\s?alike", re.IGNORECASE)),
)


@dataclass(frozen=True)
class License:
    """`name`: cc0, public-domain, cc-by, cc-by-sa, ... cc-by-nc-nd, `verbatim` (early BioMed Central: copying
    for any purpose), `non-commercial` (in other words than Creative Commons'), or None. `evidence`: what was read."""

    name: str | None
    evidence: str | None

    @property
    def use(self) -> str:
        """PMC's groups: commercial (cc0, by, by-sa, by-nd, public domain), non_commercial, unclear (all else)."""
        return use_of(self.name)


UNCLEAR = License(None, None)


def use_of(name: str | None) -> str:
    """What a license allows: `commercial`, `non_commercial` or `unclear`."""
    if name is None or name == "verbatim":
        return "unclear"
    return "non_commercial" if name == "non-commercial" or "nc" in name.split("-") else "commercial"


def read_license(meta: Any) -> License:
    """The most restrictive license that license elements, or before NLM 2.3 copyright statements, link to or name.

    A CC0 waiver for the data does not free the text of an article. `meta` may be None.
    """
    elements = [*_descendants(meta, "license"), *_descendants(meta, "license_ref")]
    statements = elements or list(_descendants(meta, "copyright-statement"))
    links = [text for element in elements for text in _links(element)]
    texts = [" ".join("".join(element.itertext()).split()) for element in statements]
    found = [
        *(one for text in (*links, *texts) for one in _linked(text)),
        *(one for text in texts for one in _named(text)),
    ]
    found += [one for text in texts for one in _in_other_words(text)]
    if found:
        return max(found, key=lambda one: _restrictiveness(one.name or ""))
    words = next((text for text in texts if text), None)
    return License(None, words and words[:MAX_EVIDENCE])


def _descendants(element: Any, name: str) -> Iterable[Any]:
    return () if element is None else element.iter(f"{{*}}{name}")


def _links(element: Any) -> Iterator[str]:
    yield element.get(_XLINK_HREF) or ""
    for link in element.iter("{*}ext-link", "{*}uri"):
        yield link.get(_XLINK_HREF) or ""


def _linked(text: str) -> Iterator[License]:
    for match in _CC_URL.finditer(text):
        domain = (match["domain"] or "").lower()
        name = {"zero": "cc0", "mark": "public-domain"}.get(domain) or "cc-" + match["terms"].lower()
        yield License(name, match[0][:MAX_EVIDENCE])


def _named(text: str) -> Iterator[License]:
    for match in _CC_SHORT.finditer(text):
        yield License("cc-" + match["terms"].lower().replace(" ", "-"), match[0])
    for match in _CC_PHRASE.finditer(text):
        name = "-".join(["cc-by", *(term for term, pattern in _RESTRICTIONS if pattern.search(match["rest"]))])
        yield License(name, match[0])
    for pattern, name in ((_CC0, "cc0"), (_PUBLIC_DOMAIN, "public-domain")):
        if (found := pattern.search(text)) is not None:
            yield License(name, found[0])


def _in_other_words(text: str) -> Iterator[License]:
    for pattern, name in ((_VERBATIM, "verbatim"), (_NON_COMMERCIAL, "non-commercial")):
        if (found := pattern.search(text)) is not None:
            yield License(name, text[max(0, found.start() - 60) : found.end() + 60])


def _restrictiveness(name: str) -> int:
    terms = name.split("-")
    weights = (("verbatim", 1), ("by", 1), ("sa", 2), ("nd", 4), ("nc", 8), ("non", 8))
    return sum(weight for term, weight in weights if term in terms)
