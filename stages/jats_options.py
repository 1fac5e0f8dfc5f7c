"""What of an article becomes text: the options of `stages.jats.ExtractJats`, and the sections that they name."""

import re
from dataclasses import dataclass
from typing import Any, Literal

from stages.xml import local_name

Choice = Literal["drop", "keep"]

_TOPICS = {
    "acknowledgments": re.compile(
        r"acknowledge?ments?(?: and funding)?|agradecimientos?|agradecimentos", re.IGNORECASE
    ),
    "funding": re.compile(
        r"(?:sources? of |study )?fundings?(?: sources?| statements?| information| and support)?"
        r"|financial (?:support|disclosures?)|grants?(?: support| information| sponsor)?"
        r"|(?:sources? of )?(?:financial )?support|role of (?:the )?funding source",
        re.IGNORECASE,
    ),
    "authors": re.compile(
        r"authors?['\u2019]?s?['\u2019]? (?:contributions?|information|details|affiliations)|contributors(?:hip)?",
        re.IGNORECASE,
    ),
}
_TYPES = {
    "acknowledgment": "acknowledgments",
    "acknowledgement": "acknowledgments",
    "acknowledgments": "acknowledgments",
    "acknowledgements": "acknowledgments",
    "financial-disclosure": "funding",
    "supported-by": "funding",
    "funding": "funding",
    "funding-information": "funding",
    "con": "authors",
    "author-contributions": "authors",
    "author-contribution": "authors",
}


@dataclass(frozen=True, kw_only=True)
class JatsOptions:
    """The parts of an article that recipes treat in different ways.

    Defaults are Meditron's (Chen et al. 2023, section 2.2 and appendix B.2), which removes author names and
    affiliations, bibliography, acknowledgments and the contents of tables, and keeps captions; without its
    faults: nothing behind the first figure is lost, no text between two `<` signs, no bracket that is not
    a citation's.
    """

    references: Choice = "drop"  # lists of references
    tables: Literal["drop", "small"] = "drop"  # cells, as Markdown; captions and notes always stay
    formulas: Literal["tex", "drop"] = "tex"  # TeX where the article has it, else MathML written flat
    citations: Choice = "drop"  # markers such as [1, 2]; names that are part of a sentence always stay
    acknowledgments: Choice = "drop"
    funding: Choice = "drop"  # of the back matter
    authors: Choice = "drop"  # names below the title; contributions in the back matter
    translations: Choice = "drop"  # titles and abstracts in other languages


def topic_of(node: Any) -> str | None:
    """The option that decides about a section, note or acknowledgment of the back matter, by type or title."""
    name = local_name(node)
    if name == "ack":
        return "acknowledgments"
    stated = node.get("sec-type") or node.get("fn-type") or node.get("notes-type") or ""
    if (found := _TYPES.get(stated.lower())) is not None:
        return found
    title = node.find("{*}title")
    if title is None:
        return None
    text = " ".join("".join(title.itertext()).split()).rstrip(".:")
    return next((topic for topic, pattern in _TOPICS.items() if pattern.fullmatch(text)), None)
