"""A JATS article as plain text with Markdown headings and lists.

In order: title, abstracts, body, back matter, floats kept apart. Left out by policy: reference lists,
table cells (captions and notes stay), translated abstracts, sub-articles, blurbs of tables of contents.
Figures, tables, boxes and notes inside a paragraph follow it, so that sentences stay whole.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from lxml import etree

from stages import jats_inline as inline
from stages import jats_tags as tags
from stages.jats_formula import mathml, tex
from stages.xml import local_name

MAX_HEADING = 6  # Markdown has no deeper heading; deeper sections share it

_PUNCTUATION = (".", ":", ";", ",", "-", "\u2013", "\u2014", "?", "!")


def article_text(article: Any) -> tuple[str | None, str]:
    """Title (None where there is none) and text; the text is empty where only the title is there."""
    title = _title(article)
    text = _Text()
    for abstract in article.iterfind("{*}front/{*}article-meta/{*}abstract"):
        if abstract.get("abstract-type") not in tags.BLURBS:
            text.add_abstract(abstract)
    for name in ("body", "back", "floats-group", "floats-wrap"):
        for part in article.iterfind(f"{{*}}{name}"):
            text.add(part)
    body = text.joined()
    return title, f"# {title}\n\n{body}" if title and body else body


def _title(article: Any) -> str | None:
    group = article.find("{*}front/{*}article-meta/{*}title-group")
    parts = [] if group is None else [_one_line(part) for part in group.iterchildren("{*}article-title", "{*}subtitle")]
    return ": ".join(part for part in parts if part) or None


def _one_line(element: Any) -> str:
    text = _Text()
    text.add(element)
    return " ".join(text.joined().split())


@dataclass
class _Frame:
    """What is being written: the article itself, or one float in it."""

    pieces: list[str] = field(default_factory=list)  # of the open paragraph
    blocks: list[tuple[str, bool]] = field(default_factory=list)  # finished: text, is list item
    floats: list[tuple[str, bool]] = field(default_factory=list)  # to follow the open paragraph
    label: str = ""  # to stand before the next block
    num_open: int = 0  # paragraphs, titles and labels around the position
    lists: list[tuple[bool, int]] = field(default_factory=list)  # is numbered, items so far
    marker: str = ""  # of the list item whose first block is to come


class _Text:
    """Walks elements in document order, without recursion, and collects blocks."""

    def __init__(self) -> None:
        self.frames = [_Frame()]
        self.level = 1  # of the heading that encloses the position
        self.xref_ends: list[str] = []
        self.forms: dict[Any, frozenset[str]] = {}  # what an element around a formula holds

    @property
    def frame(self) -> _Frame:
        return self.frames[-1]

    def add(self, element: Any) -> None:
        """Write an element (not its tail)."""
        walker = etree.iterwalk(element, events=("start", "end"))
        for event, node in walker:
            start, end = _handlers(node.tag)
            if event == "start":
                if start(self, node):
                    walker.skip_subtree()
                elif node.text:
                    self.frame.pieces.append(node.text)
            else:
                end(self, node)
                if node.tail and node is not element:
                    self.frame.pieces.append(node.tail)
        self.flush()

    def add_abstract(self, abstract: Any) -> None:
        """Write an abstract under its own title, or else under `Abstract`."""
        if abstract.find("{*}title") is None:
            self.frame.blocks.append(("## Abstract", False))
        num_blocks = len(self.frame.blocks)
        self.add(abstract)
        if len(self.frame.blocks) == num_blocks and num_blocks and self.frame.blocks[-1][0] == "## Abstract":
            self.frame.blocks.pop()

    def joined(self) -> str:
        """All blocks: paragraphs apart by an empty line, items of a list by a line break."""
        written: list[str] = []
        after_item = False
        for text, is_item in self.frame.blocks:
            if written:
                written.append("\n" if is_item and after_item else "\n\n")
            written.append(text)
            after_item = is_item
        return "".join(written)

    # --- blocks ------------------------------------------------------------------------------

    def take(self) -> str:
        """The open paragraph as text, with the label that waits for it."""
        frame = self.frame
        text = inline.finish("".join(frame.pieces))
        frame.pieces.clear()
        if text and frame.label:
            text, frame.label = f"{frame.label} {text}", ""
        return text

    def flush(self, prefix: str = "") -> None:
        """Close the open paragraph; what floated in it comes behind it."""
        frame = self.frame
        if frame.pieces and (text := self.take()):
            self.block(prefix + text)
        if frame.floats:
            frame.blocks += frame.floats
            frame.floats = []

    def block(self, text: str) -> None:
        """Write a finished block; inside a list it is indented, the first of an item has its marker."""
        frame = self.frame
        if frame.lists:
            indent = "  " * (len(frame.lists) - 1)
            text = f"{indent}{frame.marker or ' '} {text}"
            frame.marker = ""
        frame.blocks.append((text, bool(frame.lists)))

    def forms_beside(self, node: Any) -> frozenset[str]:
        """Names of the elements beside a formula; looked up once for all of them, as there may be many."""
        parent = node.getparent()
        if parent not in self.forms:
            self.forms[parent] = frozenset(map(local_name, parent))
        return self.forms[parent]

    # --- start of elements: True skips what is inside -------------------------------------------

    def inside(self, node: Any) -> bool:
        return False

    def skip(self, node: Any) -> bool:
        return True

    def start_block(self, node: Any) -> bool:
        self.flush()
        return False

    def start_paragraph(self, node: Any) -> bool:
        self.flush()
        self.frame.num_open += 1
        return False

    def start_label(self, node: Any) -> bool:
        is_number_of_formula = local_name(node.getparent()) == "disp-formula"
        return self.start_unknown(node) if is_number_of_formula else self.start_paragraph(node)

    def start_section(self, node: Any) -> bool:
        self.flush()
        self.level += 1
        return False

    def start_float(self, node: Any) -> bool:
        self.frames.append(_Frame())
        return False

    def start_list(self, node: Any) -> bool:
        self.flush()
        self.frame.lists.append(((node.get("list-type") or "bullet") not in ("bullet", "simple"), 0))
        return False

    def start_item(self, node: Any) -> bool:
        self.flush()
        lists = self.frame.lists
        is_numbered, num_items = lists[-1] if lists else (False, 0)
        lists[-1:] = [(is_numbered, num_items + 1)]
        self.frame.marker = f"{num_items + 1}." if is_numbered else "-"
        return False

    def start_verbatim(self, node: Any) -> bool:
        self.flush()
        if text := "".join(node.itertext()).strip("\n"):
            self.block(text)
        return True

    def start_unknown(self, node: Any) -> bool:
        """Nothing known of it: a word of its own in a sentence, a block elsewhere."""
        if self.frame.num_open:
            self.frame.pieces.append(" ")
        else:
            self.flush()
        return False

    def start_xref(self, node: Any) -> bool:
        is_citation = node.get("ref-type") in tags.MARKERS
        if is_citation and inline.is_marker("".join(node.itertext())):
            self.frame.pieces.append(inline.CITATION)
            self.xref_ends.append("")
            return True
        self.frame.pieces.append(inline.NAMED_OPEN if is_citation else "")
        self.xref_ends.append(inline.NAMED_CLOSE if is_citation else "")
        return False

    def start_superscript(self, node: Any) -> bool:
        self.frame.pieces.append(inline.SUP_OPEN)
        return False

    def start_subscript(self, node: Any) -> bool:
        self.frame.pieces.append(inline.SUB_OPEN)
        return False

    def start_break(self, node: Any) -> bool:
        self.frame.pieces.append(" ")
        return False

    def start_tex(self, node: Any) -> bool:
        self.frame.pieces.append(tex(node))
        return True

    def start_math(self, node: Any) -> bool:
        if "tex-math" not in self.forms_beside(node):
            self.frame.pieces.append(mathml(node))
        return True

    def start_textual_form(self, node: Any) -> bool:
        return not self.forms_beside(node).isdisjoint(("tex-math", "math"))

    # --- end of elements ------------------------------------------------------------------------

    def nothing(self, node: Any) -> None:
        pass

    def end_block(self, node: Any) -> None:
        self.flush()

    def end_paragraph(self, node: Any) -> None:
        self.frame.num_open -= 1
        self.flush()

    def end_section(self, node: Any) -> None:
        self.flush()
        self.level -= 1

    def end_title(self, node: Any) -> None:
        self.frame.num_open -= 1
        is_heading = local_name(node.getparent()) in tags.SECTIONS
        self.flush("#" * min(self.level, MAX_HEADING) + " " if is_heading else "")

    def end_label(self, node: Any) -> None:
        parent = local_name(node.getparent())
        if parent == "disp-formula":
            self.end_unknown(node)
            return
        self.frame.num_open -= 1
        text = self.take()
        if parent == "list-item" and text:
            self.frame.marker = text
        elif text:
            points = parent in tags.CAPTIONED and not text.endswith(_PUNCTUATION)
            self.frame.label = f"{text}." if points else text

    def end_term(self, node: Any) -> None:
        self.frame.num_open -= 1
        if text := self.take():
            self.frame.label = text if text.endswith(_PUNCTUATION) else f"{text}:"

    def end_xref(self, node: Any) -> None:
        self.frame.pieces.append(self.xref_ends.pop())

    def end_float(self, node: Any) -> None:
        self.flush()
        done = self.frames.pop()
        if done.label:
            done.blocks.append((done.label, False))
        self.frame.floats += done.blocks
        if not self.frame.pieces:
            self.flush()

    def end_list(self, node: Any) -> None:
        self.flush()
        self.frame.lists.pop()

    def end_superscript(self, node: Any) -> None:
        self.frame.pieces.append(inline.SUP_CLOSE)

    def end_subscript(self, node: Any) -> None:
        self.frame.pieces.append(inline.SUB_CLOSE)

    def end_unknown(self, node: Any) -> None:
        self.start_unknown(node)


_Start = Callable[[_Text, Any], bool]
_End = Callable[[_Text, Any], None]

_SPECIAL: dict[str, tuple[_Start, _End]] = {
    "break": (_Text.start_break, _Text.nothing),
    "label": (_Text.start_label, _Text.end_label),
    "list": (_Text.start_list, _Text.end_list),
    "list-item": (_Text.start_item, _Text.end_block),
    "math": (_Text.start_math, _Text.nothing),
    "p": (_Text.start_paragraph, _Text.end_paragraph),
    "preformat": (_Text.start_verbatim, _Text.nothing),
    "sub": (_Text.start_subscript, _Text.end_subscript),
    "sup": (_Text.start_superscript, _Text.end_superscript),
    "term": (_Text.start_paragraph, _Text.end_term),
    "tex-math": (_Text.start_tex, _Text.nothing),
    "textual-form": (_Text.start_textual_form, _Text.nothing),
    "title": (_Text.start_paragraph, _Text.end_title),
    "xref": (_Text.start_xref, _Text.end_xref),
}
_FAMILIES: tuple[tuple[frozenset[str], tuple[_Start, _End]], ...] = (
    (tags.INLINE, (_Text.inside, _Text.nothing)),
    (tags.BLOCKS, (_Text.start_block, _Text.end_block)),
    (tags.SECTIONS, (_Text.start_section, _Text.end_section)),
    (tags.FLOATS, (_Text.start_float, _Text.end_float)),
    (tags.LEFT_OUT, (_Text.skip, _Text.nothing)),
)


@functools.lru_cache(maxsize=1024)
def _handlers(tag: str) -> tuple[_Start, _End]:
    """What to do at the start and at the end of an element."""
    name = tag.rpartition("}")[2]
    if name in _SPECIAL:
        return _SPECIAL[name]
    for names, handlers in _FAMILIES:
        if name in names:
            return handlers
    return _Text.start_unknown, _Text.end_unknown
