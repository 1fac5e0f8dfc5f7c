"""Names by which people ask for a record: its own name, its URL, PMID, PMCID or DOI, and the place where it lies.

Each record is indexed under the forms that `forms_of` gives of its columns; `meanings_of` gives the
forms that a person's words may stand for.
"""

import re
from collections.abc import Iterator

COLUMNS = ("name", "url", "pmid", "pmcid", "doi")  # of a document, where it has them

_PMID = re.compile(r"(?:PMID:?\s*)?0*(\d{1,9})(?:\.\d+)?", re.IGNORECASE)
_PMCID = re.compile(r"(PMC\d+)(?:\.\d+)?", re.IGNORECASE)
_DOI = re.compile(r"(?:(?:https?://)?(?:dx\.)?doi\.org/|doi:\s*)?(10\.\d{4,9}/\S+)", re.IGNORECASE)
_PLACE = re.compile(r"(.+)@(\d+)(?:\+(\d+))?", re.DOTALL)


def forms_of(column: str, value: str) -> Iterator[str]:
    """The forms under which a value of a column is indexed."""
    patterns = {"pmid": _pmid, "pmcid": _pmcid, "name": _pmcid, "doi": _doi}
    form = patterns[column](value) if column in patterns else None
    if column == "name" or form is None:
        yield value
    if form is not None and (column != "name" or form != value):
        yield form


def place_of(key: str, offset: int, inner: int) -> str:
    """The name of the place where a record lies: input, offset of the stored bytes, offset in what they hold."""
    return f"{key}@{offset}+{inner}"


def meanings_of(text: str) -> list[str]:
    """The indexed forms that a person may mean by `text`, the likeliest first."""
    text = text.strip().removeprefix("<").removesuffix(">")  # as WARC writes ids
    found = [text, _pmid(text), _pmcid(text), _doi(text)]
    place = _PLACE.fullmatch(text)
    if place and place[3] is None:  # in a compressed stream all records lie in the stored bytes from 0 on
        found += [place_of(place[1], int(place[2]), 0), place_of(place[1], 0, int(place[2]))]
    return list(dict.fromkeys(form for form in found if form))


def similar_to(text: str) -> list[str]:
    """Names that differ from `text` in what people leave out or mistake."""
    text = text.strip()
    found = [text.lower(), text.upper(), text.rstrip("/"), f"{text}/", f"urn:uuid:{text}"]
    _, separator, rest = text.partition("://")
    if separator or "." in text:
        rest = (rest if separator else text).removeprefix("www.")
        hosts = (rest, f"www.{rest}")
        found += [f"{kind}://{host}{end}" for kind in ("https", "http") for host in hosts for end in ("", "/")]
        found += [f"{kind}://{host.rstrip('/')}" for kind in ("https", "http") for host in hosts]
    return [name for name in dict.fromkeys(found) if name and name != text]


def _pmid(text: str) -> str | None:
    match = _PMID.fullmatch(text.strip())
    return f"PMID:{match[1]}" if match else None


def _pmcid(text: str) -> str | None:
    match = _PMCID.fullmatch(text.strip())
    return match[1].upper() if match else None


def _doi(text: str) -> str | None:
    match = _DOI.fullmatch(text.strip())
    return f"doi:{match[1].lower()}" if match else None
