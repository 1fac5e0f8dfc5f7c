"""What an article's own text nodes say of an extracted text. Shares no code, and no parser, with the extractor.

The standard library's expat reads the article. An element is part of a sentence if INLINE names it, else it is a block.
Texts are compared by their letters and digits alone, in the order of each block, and each letter of the extracted text
may answer for one letter of the article.
"""

import difflib
import html.entities
import itertools
import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from dataclasses import dataclass, field

INLINE = frozenset({
    "abbrev", "alternatives", "article-title", "award-id", "bold", "chem-struct", "email", "ext-link", "fixed-case",
    "funding-source", "inline-formula", "inline-supplementary-material", "institution", "institution-wrap", "italic",
    "milestone-end", "milestone-start", "monospace", "named-content", "overline", "private-char", "roman",
    "sans-serif", "sc", "strike", "styled-content", "sub", "subtitle", "sup", "target", "textual-form", "underline",
    "uri", "xref", "x", "code", "abbrev-alternatives",
})  # fmt: skip
# Under title, abstract, body and captions, but not wanted. Citations are elements, too: xref of these types.
NOT_WANTED = frozenset({
    "table", "alt-text", "long-desc", "object-id", "permissions", "graphic", "inline-graphic", "ref-list",
    "kwd-group", "related-article", "related-object", "custom-meta-group", "index-term", "sec-meta",
    "trans-title-group", "trans-abstract", "sub-article", "response",
})  # fmt: skip
CITATIONS = frozenset({"aff", "author-notes", "bibr", "corresp", "fn", "ref", "table-fn"})
BLURBS = frozenset({"graphical", "short", "teaser", "toc", "web-summary"})
# What an extractor may write that no article says: headings without title, functions of a flat formula.
OWN_WORDS = frozenset({"abstract", "sqrt", "root", "formula"})

_WORD = re.compile(r"[^\W_]+")
_TOKEN = re.compile(r"[^\W\d_]+|\d+")
_INVISIBLE = re.compile("[\u00ad\u200b\u2060\ufeff]")
_TEX = re.compile(r"\\begin\s*\{document\}(.*?)\\end\s*\{document\}", re.DOTALL)
_NEAR = 8  # tokens between one that was found and the next
_SURE = 3  # tokens in a row that are no chance
_LONG = 12  # letters of a block that are no chance
_LIST_NUMBER = re.compile(r"^ *\d+\. ", re.MULTILINE)


@dataclass(slots=True)
class Block:
    """The text nodes of one paragraph, heading or label, and the section of the article in which it stands."""

    part: str
    nodes: list[tuple[str, bool]] = field(default_factory=list)  # text, is wanted

    @property
    def wanted(self) -> list[str]:
        """The wanted nodes that hold a letter or digit."""
        return [text for text, wanted in self.nodes if wanted and letters(text)]

    @property
    def letters(self) -> list[str]:
        """Letters and digits of the wanted nodes."""
        return [letters(text) for text in self.wanted]


@dataclass(frozen=True, kw_only=True)
class Findings:
    """What one extracted text holds of its article."""

    wanted_letters: int
    found_letters: int
    lost: tuple[str, ...]  # words
    glued: tuple[str, ...]  # words that are the end of one block and the start of the next
    invented: tuple[str, ...]  # words of which the article has none
    repeated_letters: int  # in blocks that come more often than the article has them

    @property
    def coverage(self) -> float:
        """Of the wanted letters, those that were found."""
        return self.found_letters / self.wanted_letters if self.wanted_letters else 1.0


def letters(text: str) -> str:
    """Letters and digits, in one case."""
    return "".join(_WORD.findall(_INVISIBLE.sub("", text))).casefold()


def words(text: str) -> list[str]:
    """Runs of letters and digits."""
    return _WORD.findall(_INVISIBLE.sub("", text).casefold())


def check(article: bytes, extracted: str) -> Findings:
    """Compare."""
    parser = ET.XMLParser()
    parser.entity.update({name.rstrip(";"): text for name, text in html.entities.html5.items()})
    parser.feed(article)
    blocks = list(_blocks(parser.close()))
    wanted = [block for block in blocks if block.letters]
    lost, found = _lost(wanted, extracted)
    known = _known_words(blocks)
    out = words(_LIST_NUMBER.sub("", extracted))
    return Findings(
        wanted_letters=sum(len(node) for block in wanted for node in block.letters),
        found_letters=found,
        lost=tuple(lost),
        glued=tuple(sorted((_seams(blocks) - known) & set(out))),
        invented=tuple(sorted(set(out) - known - OWN_WORDS)),
        repeated_letters=_repeated(blocks, extracted),
    )


def _repeated(blocks: list[Block], extracted: str) -> int:
    """Letters of long blocks that the text holds more often than the article."""
    counts: dict[str, int] = {}
    for block in blocks:
        text = "".join(letters(node) for node, _ in block.nodes)
        counts[text] = counts.get(text, 0) + 1
    out: dict[str, int] = {}
    for line in extracted.split("\n"):
        text = letters(line)
        out[text] = out.get(text, 0) + 1
    return sum(len(text) * (n - counts[text]) for text, n in out.items() if len(text) > 40 and n > counts.get(text, n))


# --- the article's blocks --------------------------------------------------------------------


def _local(tag: str) -> str:
    return tag.rpartition("}")[2]


def _blocks(root: ET.Element) -> Iterator[Block]:
    """All blocks of the document, in order; those of parts that are not wanted have no wanted node."""
    current = [Block("")]
    done: list[Block] = []

    def cut(part: str) -> None:
        done.append(current[0])
        current[0] = Block(part)

    def walk(element: ET.Element, part: str, is_wanted: bool, parent: ET.Element | None) -> None:
        name = _local(element.tag)
        part, is_wanted = _state(element, name, part, is_wanted, parent)
        is_math = name == "math" or part.endswith("math")
        is_block = name not in INLINE and not is_math and name not in ("tex-math", "disp-formula", "break")
        if is_block:
            cut(part)
        text = element.text or ""
        if name == "tex-math":
            text = "".join(element.itertext())
            body = _TEX.search(text)
            text = body[1] if body else text
        current[0].nodes.append((text, is_wanted))
        for child in element if name != "tex-math" else ():
            walk(child, part, is_wanted, element)
            current[0].nodes.append((child.tail or "", is_wanted))
        if is_block:
            cut(part)

    walk(root, "", False, None)
    done.append(current[0])
    return (block for block in done if any(text.strip() for text, _ in block.nodes))


def _state(element: ET.Element, name: str, part: str, is_wanted: bool, parent: ET.Element | None) -> tuple[str, bool]:
    """The part of the article that an element opens, and whether its text is wanted."""
    if name in NOT_WANTED:
        return name, False
    if name == "xref" and element.get("ref-type") in CITATIONS:
        return part, False
    if name == "abstract" and element.get("abstract-type") in BLURBS:
        return name, False
    if name in _FORMS:
        beside = {_local(child.tag) for child in parent} if parent is not None else set()
        return (f"{part}math" if name == "math" else part), is_wanted and beside.isdisjoint(_FORMS[name])
    return _opened(name, part, is_wanted)


def _opened(name: str, part: str, is_wanted: bool) -> tuple[str, bool]:
    if part in ("", "front") and name in ("front", "body", "abstract", "floats-group", "floats-wrap"):
        return name, name in ("body", "abstract")
    if part == "front" and name == "title-group":
        return name, False
    if part == "title-group" and name in ("article-title", "subtitle"):
        return name, True
    if part in ("floats-group", "floats-wrap") and name == "caption":
        return part, True
    return part, is_wanted and name not in ("annotation", "annotation-xml")


# The forms beside which a form of a formula is not wanted.
_FORMS = {"textual-form": {"tex-math", "math"}, "math": {"tex-math"}}


# --- comparing -------------------------------------------------------------------------------


class _Text:
    """The letters of the extracted text, each to be used once."""

    def __init__(self, text: str) -> None:
        self.tokens = _TOKEN.findall(_INVISIBLE.sub("", text).casefold())
        self.starts = [0, *itertools.accumulate(map(len, self.tokens))]  # of the tokens, in the letters
        self.letters = "".join(self.tokens)
        self.used = bytearray(len(self.letters))

    def take(self, part: str, position: int) -> int:
        """Use `part` where it comes first behind `position`, or else at all; the position behind it, or -1."""
        for start in (position, 0):
            while (at := self.letters.find(part, start)) >= 0:
                end = at + len(part)
                if not self.used.count(1, at, end):
                    self.used[at:end] = b"\1" * len(part)
                    return end
                start = self.used.rfind(1, at, end) + 1
        return -1

    def unused(self) -> list[int]:
        """The tokens of which no letter is used."""
        return [i for i, start in enumerate(self.starts[:-1]) if not self.used[start]]

    def use(self, token: int) -> None:
        """Use a token."""
        self.used[self.starts[token] : self.starts[token + 1]] = b"\1" * len(self.tokens[token])


def _lost(blocks: list[Block], text: str) -> tuple[list[str], int]:
    """Wanted words that are not in the text, and the number of letters that are."""
    out, lost, found = _Text(text), [], 0
    late = []
    for is_short in (False, True):  # long blocks first: short ones could be found in them by chance
        position = 0
        for block in blocks:
            whole = "".join(block.letters)
            if (len(whole) <= _LONG) != is_short:
                continue
            end = out.take(whole, position)
            if end < 0:
                late.append(block)
            else:
                position, found = end, found + len(whole)
    for block in late:
        missing = _missing(out, block)
        lost += missing
        found += sum(map(len, block.letters)) - sum(map(len, missing))
    return lost, found


def _missing(out: _Text, block: Block) -> list[str]:
    """The words of a block that are not among the unused ones, in their order; a word or two far off is chance."""
    joined = "".join(text if wanted else " " for text, wanted in block.nodes)
    source = _TOKEN.findall(_INVISIBLE.sub("", joined).casefold())
    places = out.unused()
    target = [out.tokens[place] for place in places]
    matched: set[int] = set()
    end = -_NEAR
    for pair in difflib.SequenceMatcher(None, source, target, autojunk=False).get_matching_blocks():
        if pair.size >= _SURE or (pair.size and pair.b - end <= _NEAR) or pair.size == len(source):
            end = pair.b + pair.size
            matched.update(range(pair.a, pair.a + pair.size))
            for place in places[pair.b : end]:
                out.use(place)
    return [word for place, word in enumerate(source) if place not in matched]


def _known_words(blocks: list[Block]) -> set[str]:
    """Words that begin and end at borders of words or of text nodes."""
    known: set[str] = set()
    for block in blocks:
        run: list[str] = []  # pieces of the word that nodes share
        for text, _ in block.nodes:
            cleaned = _INVISIBLE.sub("", text).casefold()
            if not cleaned:
                continue
            parts = [(match.start(), match.end()) for match in _WORD.finditer(cleaned)]
            for start, end in parts:
                if start > 0:
                    run = []
                run.append(cleaned[start:end])
                run = run[-12:]
                known.update("".join(run[first:]) for first in range(len(run)))
                if end < len(cleaned):
                    run = []
            if not parts or parts[-1][1] < len(cleaned):
                run = []
    return known


def _seams(blocks: list[Block]) -> set[str]:
    """What would come of gluing the last word of a block to the first of the next."""
    edges = [found for block in blocks if (found := words("".join(text for text, _ in block.nodes)))]
    return {first[-1] + second[0] for first, second in itertools.pairwise(edges)}
