"""A JATS article as plain text with Markdown headings and lists.

In order: title, abstracts, body, back matter, floats kept apart. `stages.jats_options` says what options
leave out or keep; `LEFT_OUT` and `BLURBS` of `stages.jats_tags` are always left out. Figures, tables, boxes
and notes inside a paragraph follow it, so that sentences stay whole.
"""

import functools
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from lxml import etree

from stages import jats_inline as inline
from stages import jats_tags as tags
from stages.jats_formula import mathml, tex
from stages.jats_options import JatsOptions, topic_of
from stages.jats_table import table_text
from stages.xml import local_name

MAX_HEADING = 6  # Markdown has no deeper heading; deeper sections share it

_SPACE_BEFORE_POINT = re.compile(r"\s+([,.;:)\]])")
_PUNCTUATION = (".", ":", ";", ",", "-", "\u2013", "\u2014", "?", "!")


FORMULA = "[formula]"  # stands for one of which the article has only a picture, or that is not wanted
_META = "{*}front/{*}article-meta"


def article_text(article: Any, options: JatsOptions) -> tuple[str | None, str]:
    """Title (None where there is none) and text; the text is empty where only the title is there."""
    title = _title(article, options)
    text = _Text(options)
    kinds = ("{*}abstract", "{*}trans-abstract") if options.translations == "keep" else ("{*}abstract",)
    for meta in article.iterfind(_META):
        for abstract in meta.iterchildren(*kinds):
            if abstract.get("abstract-type") not in tags.BLURBS:
                text.add_abstract(abstract)
    for name in ("body", "back", "floats-group", "floats-wrap"):
        for part in article.iterfind(f"{{*}}{name}"):
            text.add(part)
    body = text.joined()
    head = [f"# {title}"] if title else []
    if options.authors == "keep" and (names := _authors(article)):
        head.append(names)
    return title, "\n\n".join([*head, body]) if body else body


def _title(article: Any, options: JatsOptions) -> str | None:
    groups = article.findall(f"{_META}/{{*}}title-group")
    if groups and options.translations == "keep":
        groups += groups[0].findall("{*}trans-title-group")
    names = ("article-title", "subtitle", "trans-title", "trans-subtitle")
    lines = ([_one_line(part, options) for part in group if local_name(part) in names] for group in groups)
    return " / ".join(": ".join(part for part in line if part) for line in lines if any(line)) or None


def _authors(article: Any) -> str:
    """Names of people and groups, as the article states them."""
    names = []
    for contributor in article.iterfind(f"{_META}/{{*}}contrib-group/{{*}}contrib"):
        name, group = contributor.find("{*}name"), contributor.find("{*}collab")
        if name is not None:
            parts = (name.find(part) for part in ("{*}given-names", "{*}surname"))
            names.append(" ".join(" ".join("".join(part.itertext()) for part in parts if part is not None).split()))
        elif group is not None:  # its members may be listed in it
            names.append(next((text for part in group.itertext() if (text := " ".join(part.split()))), ""))
    return ", ".join(name for name in names if name)


def _one_line(element: Any, options: JatsOptions) -> str:
    text = _Text(options)
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

    def __init__(self, options: JatsOptions) -> None:
        self.options = options
        self.frame = _Frame()
        self.frames = [self.frame]
        self.level = 1  # of the heading that encloses the position
        self.in_back = 0  # back elements around the position
        self.xref_ends: list[str] = []
        self.forms: dict[Any, frozenset[str]] = {}  # what an element around a formula holds
        self.formulas: list[tuple[bool, int]] = []  # around the position: is a paragraph, pieces before it

    def add(self, element: Any) -> None:
        """Write an element (not its tail)."""
        walker = etree.iterwalk(element, events=("start", "end"))
        for event, node in walker:
            start, end = _handlers(node.tag)
            if event == "start":
                if start is not None and start(self, node):
                    walker.skip_subtree()
                elif (text := node.text) and ((pieces := self.frame.pieces) or not text.isspace()):
                    pieces.append(text)
            else:
                if end is not None:
                    end(self, node)
                if (
                    (tail := node.tail)
                    and ((pieces := self.frame.pieces) or not tail.isspace())
                    and node is not element
                ):
                    pieces.append(tail)
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

    def flush_label(self) -> None:
        """Write a label that no text followed."""
        if self.frame.label:
            self.frame.blocks.append((self.frame.label, False))
            self.frame.label = ""

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
        return self.is_unwanted(node)

    def is_unwanted(self, node: Any) -> bool:
        """Whether an option leaves out a section or note of the back matter, or an acknowledgment."""
        topic = topic_of(node) if self.in_back or local_name(node) == "ack" else None
        return topic is not None and getattr(self.options, topic) == "drop"

    def start_back(self, node: Any) -> bool:
        self.flush()
        self.in_back += 1
        return False

    def start_references(self, node: Any) -> bool:
        self.start_section(node)
        return self.options.references == "drop"

    def start_table(self, node: Any) -> bool:
        """Cells as Markdown; a sentence around them goes on behind them."""
        if self.options.tables == "small" and self.frame.num_open == 0:
            self.flush()
            if written := table_text(node, lambda cell: _one_line(cell, self.options)):
                self.flush_label()
                self.frame.blocks.append((written, False))
        return True

    def start_formula(self, node: Any) -> bool:
        is_paragraph = self.frame.num_open == 0
        self.start_unknown(node)
        self.frame.num_open += is_paragraph
        self.formulas.append((is_paragraph, len(self.frame.pieces)))
        return self.options.formulas == "drop"

    def start_inline_formula(self, node: Any) -> bool:
        self.formulas.append((False, len(self.frame.pieces)))
        return self.options.formulas == "drop"

    def start_float(self, node: Any) -> bool:
        self.frame = _Frame()
        self.frames.append(self.frame)
        return local_name(node) == "fn" and self.is_unwanted(node)

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
        is_citation = node.get("ref-type") in tags.MARKERS and self.options.citations == "drop"
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

    def end_block(self, node: Any) -> None:
        self.flush()

    def end_paragraph(self, node: Any) -> None:
        self.frame.num_open -= 1
        self.flush()

    def end_section(self, node: Any) -> None:
        self.flush()
        self.level -= 1

    def end_back(self, node: Any) -> None:
        self.flush()
        self.in_back -= 1

    def end_reference(self, node: Any) -> None:
        """One line of a list; unknown elements stood apart, so the space before a comma goes."""
        self.frame.num_open -= 1
        if text := self.take():
            self.block(_SPACE_BEFORE_POINT.sub(r"\1", text))
        self.flush()

    def end_formula(self, node: Any) -> None:
        is_paragraph, _ = self.formulas[-1]
        self.end_inline_formula(node)
        self.frame.num_open -= is_paragraph
        self.end_unknown(node)

    def end_inline_formula(self, node: Any) -> None:
        _, first = self.formulas.pop()
        if not "".join(self.frame.pieces[first:]).strip():
            self.frame.pieces.append(f" {FORMULA} ")

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
        self.flush_label()
        done = self.frames.pop()
        self.frame = self.frames[-1]
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


_Start = Callable[[_Text, Any], bool] | None
_End = Callable[[_Text, Any], None] | None

_SPECIAL: dict[str, tuple[_Start, _End]] = {
    "back": (_Text.start_back, _Text.end_back),
    "disp-formula": (_Text.start_formula, _Text.end_formula),
    "inline-formula": (_Text.start_inline_formula, _Text.end_inline_formula),
    "ref": (_Text.start_paragraph, _Text.end_reference),
    "ref-list": (_Text.start_references, _Text.end_section),
    "table": (_Text.start_table, None),
    "break": (_Text.start_break, None),
    "label": (_Text.start_label, _Text.end_label),
    "list": (_Text.start_list, _Text.end_list),
    "list-item": (_Text.start_item, _Text.end_block),
    "math": (_Text.start_math, None),
    "p": (_Text.start_paragraph, _Text.end_paragraph),
    "preformat": (_Text.start_verbatim, None),
    "sub": (_Text.start_subscript, _Text.end_subscript),
    "sup": (_Text.start_superscript, _Text.end_superscript),
    "term": (_Text.start_paragraph, _Text.end_term),
    "tex-math": (_Text.start_tex, None),
    "textual-form": (_Text.start_textual_form, None),
    "title": (_Text.start_paragraph, _Text.end_title),
    "xref": (_Text.start_xref, _Text.end_xref),
}
_FAMILIES: tuple[tuple[frozenset[str], tuple[_Start, _End]], ...] = (
    (tags.INLINE, (None, None)),
    (tags.BLOCKS, (_Text.start_block, _Text.end_block)),
    (tags.SECTIONS, (_Text.start_section, _Text.end_section)),
    (tags.FLOATS, (_Text.start_float, _Text.end_float)),
    (tags.LEFT_OUT, (_Text.skip, None)),
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
