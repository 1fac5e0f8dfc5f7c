"""The text of one paragraph: white space, superscripts, subscripts and citation markers.

The walker of `stages.jats_text` puts marks around what needs its surroundings to be judged. They are
control characters that XML forbids, so no article can contain them.

Rules. A superscript that is a number or a word follows a `^` where it stands behind a word: 10^5, m^-2,
Ca^2+, Apc^Min; a sign alone, an ordinal ending or a superscript behind a space is plain: CD4+, 1st, 18F.
A subscript is plain (CO2, Vmax) except between two digits (10_2). Citations that are numbers are left
out, with brackets that hold nothing else and the space before them; citations by name are left out in
such brackets, and stay where they are part of the sentence.
"""

import re

CITATION = "\x01"  # a citation that has been left out
NAMED_OPEN, NAMED_CLOSE = "\x02", "\x03"  # around a citation by name
SUP_OPEN, SUP_CLOSE = "\x04", "\x05"
SUB_OPEN, SUB_CLOSE = "\x06", "\x07"

_ALL_MARKS = tuple(map(chr, range(1, 8)))
# Soft hyphen, zero-width space, word joiner, byte order mark: they split words without being seen.
_INVISIBLE = ("\u00ad", "\u200b", "\u2060", "\ufeff")
_SCRIPT = re.compile(f"[{SUP_OPEN}{SUB_OPEN}]([^{SUP_OPEN}{SUP_CLOSE}{SUB_OPEN}{SUB_CLOSE}]*)[{SUP_CLOSE}{SUB_CLOSE}]")
# All repetitions are bounded, or follow a mark, so that no text takes more than linear time.
_BETWEEN = "(?:[ ,;&\u2010-\u2015\u2212-]|and ){0,9}"
_AROUND = "(?:[ ,;:&/.\u2010-\u2015\u2212-]|and ){0,9}"
_ONE = f"(?:{CITATION}|{NAMED_OPEN}[^{NAMED_CLOSE}]*{NAMED_CLOSE})"
_LEAD_WORD = r"(?:see|reviewed (?:in|by)|refs?\.?|references?|e\.g\.|i\.e\.|cf\.|also)"
_LEAD = f"(?:(?:for (?:a )?reviews?,? )?{_LEAD_WORD}[ ,]{{0,2}}){{0,3}}"
_SOME = f"{_ONE}(?:{_AROUND}{_LEAD}{_ONE})*"
_BRACKETS = re.compile(rf"[\[(]{_AROUND}{_LEAD}{_SOME}{_AROUND}[\])]")
_ONLY_CITATIONS = re.compile(rf"[\[(]?{_AROUND}{_SOME}{_AROUND}[\])]?")
_ONLY_BETWEEN = re.compile(_BETWEEN)
_MAX_BRACKETS = 3  # nested ones, such as ([1])
_GLUED_NAME = (
    re.compile(rf"{NAMED_OPEN}(?<=\w{NAMED_OPEN})(?=\w)"),
    re.compile(rf"{NAMED_CLOSE}(?<=\w{NAMED_CLOSE})(?=\w)"),
)
_CLOSING = (".", ",", ";", ":", ")", "]")

_ORDINALS = frozenset({"st", "nd", "rd", "th"})
_WORD = re.compile(r"\w+")
_IS_MARKER = re.compile(r"\d+[a-z]?|[a-z]")
_IS_VALUE = re.compile(r"[+\-\u2212\u2013\u00b1]?[\w(]")


def is_marker(text: str) -> bool:
    """Whether a citation is numbers, single letters or signs alone: `12`, `[3, 4]`, `5a`, `*`, or nothing."""
    return text.isdigit() or all(map(_IS_MARKER.fullmatch, _WORD.findall(text)))


def finish(text: str) -> str:
    """A paragraph with marks as plain text on one line."""
    # Most paragraphs are done: marks, invisible characters and all white space but U+0020 are not printable.
    if text.isprintable() and "  " not in text and text[:1] != " " and text[-1:] != " ":
        return text
    text = " ".join(text.split())
    if not text.isascii():
        for character in _INVISIBLE:
            text = text.replace(character, "")  # ten times as fast as one pattern for all of them
    if text.isprintable():
        return text
    if SUP_OPEN in text or SUB_OPEN in text:
        while (resolved := _SCRIPT.sub(_script, text)) != text:
            text = resolved
    if CITATION in text or NAMED_OPEN in text:
        text = _without_citations(text)
    # A mark whose partner is in another block (a figure within a superscript) is left.
    for mark in _ALL_MARKS:
        text = text.replace(mark, "")
    return " ".join(text.split())


def _without_citations(text: str) -> str:
    for _ in range(_MAX_BRACKETS):
        text, num_found = _BRACKETS.subn(CITATION, text)
        if not num_found:
            break
    if NAMED_OPEN in text:  # a name that is part of the sentence is a word of its own
        for pattern in _GLUED_NAME:
            text = pattern.sub(" ", text)
    first, *others = text.split(CITATION)
    kept = [first]
    for number, part in enumerate(others, start=1):
        if number == len(others) or not _ONLY_BETWEEN.fullmatch(part):
            kept.append(_behind_citation(kept, part))
    return "".join(kept)


def _behind_citation(kept: list[str], part: str) -> str:
    """`part` as it follows a citation that is gone: no space or comma before a full stop, no two words as one."""
    before = kept[-1]
    if part[:1] == " " and part[1:2] in _CLOSING:
        part = part[1:]
    if part.startswith("."):
        before = before.rstrip(" ,;")
    elif before.endswith(" "):
        before = before[:-1]
    kept[-1] = before
    return f" {part}" if before[-1:].isalnum() and part[:1].isalnum() else part


def _script(match: re.Match[str]) -> str:
    content = match[1].strip()
    if _ONLY_CITATIONS.fullmatch(content):
        return content
    before = match.string[max(0, match.start() - 1) : match.start()]
    behind = " " if match[1].endswith(" ") else ""
    if match[0][0] == SUP_OPEN and _is_power(before, content):
        return f"^{_one_word(content)}{behind}"
    joint = " " if match[1].startswith(" ") else "_" if before.isdigit() and content[:1].isdigit() else ""
    return f"{joint}{content}{behind}"


def _is_power(before: str, content: str) -> bool:
    follows = before.isalnum() or before in (")", "]", "}", SUB_CLOSE, SUP_CLOSE, "%")
    ordinal = before.isdigit() and content.lower() in _ORDINALS
    return follows and not ordinal and _IS_VALUE.match(content) is not None


def _one_word(content: str) -> str:
    return f"({content})" if " " in content else content
