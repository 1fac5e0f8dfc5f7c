"""What stages.kernels.html_scan and html_write do, in plain Python over lists, objects and dictionaries."""

import itertools
import re
from dataclasses import dataclass, field

from stages.kernels.html_names import CLASS_WORDS, TAG
from stages.kernels.html_page import MAX_CLASS_BYTES, MAX_DEPTH, MAX_VALUE_BYTES

VOID = set(
    [
        "br",
        "hr",
        "img",
        "input",
        "meta",
        "link",
        "source",
        "area",
        "base",
        "embed",
        "param",
        "track",
        "col",
        "wbr",
        "frame",
    ]
)
RAW = set(["script", "style", "noscript", "template", "svg", "math", "iframe", "textarea", "title"])
INLINE = set(
    [
        "a",
        "span",
        "b",
        "strong",
        "i",
        "em",
        "u",
        "small",
        "font",
        "abbr",
        "code",
        "sup",
        "sub",
        "time",
        "mark",
        "cite",
        "q",
        "s",
        "del",
        "ins",
        "big",
        "tt",
        "var",
        "kbd",
        "samp",
        "wbr",
        "img",
        "br",
        "label",
        "acronym",
        "strike",
        "nobr",
        "bdi",
        "bdo",
        "ruby",
        "rt",
        "rp",
        "data",
        "output",
        "map",
        "noindex",
        "picture",
        "meta",
        "link",
        "amp-img",
    ]
)
CELLS, ROWS, LISTS = {"td", "th"}, {"tbody", "thead", "tfoot", "caption", "colgroup"}, {"ul", "ol", "menu", "dl"}
HEADINGS = {"h1", "h2", "h3", "h4", "h5", "h6"}
ENDS_P = HEADINGS | set(
    [
        "address",
        "article",
        "aside",
        "blockquote",
        "center",
        "details",
        "dialog",
        "dir",
        "div",
        "dl",
        "fieldset",
        "figcaption",
        "figure",
        "footer",
        "form",
        "header",
        "hgroup",
        "hr",
        "main",
        "menu",
        "nav",
        "ol",
        "p",
        "pre",
        "section",
        "table",
        "ul",
    ]
)
NESTING = {"svg", "math", "template", "noscript"}
PLAIN_BLOCK = (
    set(TAG) - INLINE - CELLS - ROWS - LISTS - HEADINGS - set(["p", "li", "dt", "dd", "tr", "table", "option"])
)
GROUPS = {word: number for number, words in enumerate(CLASS_WORDS) for word in words.split()}
PAIR_FIRST = {GROUPS[word] for word in ("article", "post", "main", "story")}
PAIR_SECOND = {GROUPS[word] for word in ("content", "body")}
POST = GROUPS["post"]
PAIR, HIDDEN, ARIA_HIDDEN = len(CLASS_WORDS), len(CLASS_WORDS) + 1, len(CLASS_WORDS) + 2
SPACE = bytes(range(33))


@dataclass(eq=False)
class Element:
    name: str
    parent: "Element | None" = None
    depth: int = 0
    num_children: int = 0
    words: frozenset[int] = frozenset()
    css_class: bytes = b""

    @property
    def tag(self) -> int:
        return TAG.get(self.name, 0)


@dataclass
class TextBlock:
    owner: Element
    words: frozenset[int]
    num_breaks: int = 0
    spans: list[tuple[int, int, bool] | None] = field(default_factory=list)  # None is a line break


def is_inline(element: Element) -> bool:
    return element.name in INLINE


def class_words(value: bytes) -> set[int]:
    found, before = set(), -1
    for run in re.findall(rb"[A-Za-z]+", value):
        for word in split_word(run.decode()):
            first, second = groups_of(word.lower())
            for one, two in ((before if first < 0 else -1, second), (first, second)):
                if one in PAIR_FIRST and (two in PAIR_SECOND or (two == POST and one != POST)):
                    found.add(PAIR)
            found |= {group for group in (first, second) if group >= 0}
            before = second
        # words of one run follow each other; so do runs
    return found


def split_word(run: str) -> list[str]:
    """At camelCase, and after 31 letters."""
    words, word = [], run[0]
    for before, letter in itertools.pairwise(run):
        if (letter.isupper() and before.islower()) or len(word) == 31:
            words.append(word)
            word = ""
        word += letter
    return [*words, word]


def groups_of(word: str) -> tuple[int, int]:
    if len(word) > 1 and word in GROUPS:
        return -1, GROUPS[word]
    for size in range(len(word) - 1, 3, -1):
        if word[:size] in GROUPS:
            rest = GROUPS.get(word[size:], -1)
            return (GROUPS[word[:size]], rest) if rest >= 0 else (-1, GROUPS[word[:size]])
    return -1, -1


class Scanner:
    """Scans a page on construction."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.elements = [Element("")]
        self.stack = [self.elements[0]]
        self.blocks: list[TextBlock] = []
        self.title: bytes | None = None
        self.meta_title: bytes | None = None
        self.is_open, self.num_breaks, self.excess = False, 0, 0
        at = 0
        while at < len(data):
            if re.match(rb"<[A-Za-z]", data[at : at + 2]):
                at = self.start_tag(at)
            elif re.match(rb"</[A-Za-z]", data[at : at + 3]):
                at = self.end_tag(at)
            elif data[at : at + 2] in (b"<!", b"<?") or (data[at : at + 2] == b"</" and at + 2 < len(data)):
                at = self.declaration(at)
            else:
                stop = self.find(b"<", at + 1)
                self.text(at, stop)
                at = stop

    def find(self, wanted: bytes, at: int) -> int:
        found = self.data.find(wanted, at)
        return found if found >= 0 else len(self.data)

    def declaration(self, at: int) -> int:
        if self.data.startswith(b"<!--", at):
            end = re.compile(rb">", re.DOTALL)
            for match in end.finditer(self.data, at + 4):
                inside = self.data[at + 2 : match.start()]
                if inside.endswith(b"--") or (inside.endswith(b"--!") and len(inside) >= 5):
                    return match.end()
        return min(self.find(b">", at + 2) + 1, len(self.data))

    def text(self, start: int, stop: int) -> None:
        is_blank = not self.data[start:stop].strip(SPACE)
        if is_blank and not self.is_open:
            return
        if not self.is_open:
            at, words = len(self.stack) - 1, frozenset[int]()
            while at > 0 and is_inline(self.stack[at]):
                words |= self.stack[at].words
                at -= 1
            self.blocks.append(TextBlock(self.stack[at], words))
            self.is_open = True
        self.blocks[-1].spans.append((start, stop, any(one.name == "a" for one in self.stack)))
        if not is_blank:
            self.num_breaks = 0

    def break_line(self) -> None:
        self.num_breaks += 1
        if self.is_open and self.num_breaks >= 2:
            self.is_open = False
        elif self.is_open:
            self.blocks[-1].num_breaks += 1
            self.blocks[-1].spans.append(None)

    def name_at(self, at: int) -> tuple[str, int]:
        found = re.compile(rb"[^\x00-\x20>/=]*").match(self.data, at)
        assert found
        return re.sub(rb"[A-Z]", lambda letter: letter[0].lower(), found[0]).decode("latin-1"), found.end()

    def start_tag(self, at: int) -> int:
        name, at = self.name_at(at + 1)
        attributes: list[tuple[str, int, int]] = []
        self_closed = False
        while at < len(self.data) and self.data[at] != ord(">"):
            if self.data[at] == ord("/"):
                at += 1
                self_closed = self.data[at : at + 1] == b">"
            elif self.data[at] <= 32:
                at += 1
            else:
                at = self.attribute(at, attributes)
        if at >= len(self.data):
            return len(self.data)
        at += 1
        element = self.element(name, attributes)
        if name in RAW:
            return self.raw(name, at, self_closed)
        self.imply_ends(name)
        if name == "br":
            self.break_line()
        elif name not in INLINE:
            self.is_open = False
        if name not in VOID:
            self.push(element)
        return at

    def attribute(self, at: int, attributes: list[tuple[str, int, int]]) -> int:
        name, at = self.name_at(at + 1 if self.data[at] == ord("=") else at)
        equals = re.compile(rb"[\x00-\x20]*=[\x00-\x20]*").match(self.data, at)
        if not equals:
            attributes.append((name, at, at))
            return at
        start = equals.end()
        if self.data[start : start + 1] in (b'"', b"'"):
            stop = self.closing_quote(start + 1, self.data[start : start + 1])
            if stop < 0:
                stop = self.find(b">", start + 1)
                attributes.append((name, start + 1, stop))
                return stop
            attributes.append((name, start + 1, stop))
            return stop + 1
        value = re.compile(rb"[^\x00-\x20>]*").match(self.data, start)
        assert value
        attributes.append((name, start, value.end()))
        return value.end()

    def closing_quote(self, at: int, quote: bytes) -> int:
        stop = self.data.find(quote, at)
        markup = self.data.find(b"<", at, stop if stop >= 0 else len(self.data))
        if stop >= 0 and (stop - at < MAX_VALUE_BYTES or markup < 0):
            return stop
        return -1

    def element(self, name: str, attributes: list[tuple[str, int, int]]) -> Element:
        words: set[int] = set()
        css_class, content, is_title = b"", None, False
        for key, start, stop in attributes:
            value = self.data[start:stop]
            if key in ("class", "id", "role", "itemprop", "itemtype"):
                words |= class_words(value[:MAX_CLASS_BYTES])
                css_class = value[:MAX_CLASS_BYTES] or css_class if key == "class" else css_class
            if key == "hidden" or (key == "style" and re.search(rb"dis...y[\x00-\x20:]*non", value, re.DOTALL)):
                words.add(HIDDEN)
            if key == "aria-hidden" and value.startswith(b"t"):
                words.add(ARIA_HIDDEN)
            is_title |= key in ("property", "name") and value == b"og:title"
            content = value if key == "content" else content
        if name == "meta" and is_title and self.meta_title is None and content is not None:
            self.meta_title = content
        return Element(name, words=frozenset(words), css_class=css_class)

    def raw(self, name: str, at: int, self_closed: bool) -> int:
        if name in ("svg", "math") and self_closed:
            return at
        start = after = -1
        depth = 1
        for tag in re.finditer(rb"<(/?)([^\x00-\x20>/=]*)", self.data[at:]):
            if tag[2].lower() != name.encode():
                continue
            if not tag[1]:
                depth += name in NESTING
                continue
            depth -= 1
            start, after = at + tag.start(), min(self.find(b">", at + tag.end()) + 1, len(self.data))
            if not depth:
                break
        if after < 0:
            if name in ("script", "style") and not self_closed:
                return len(self.data)
            start = after = self.find(b"<", at) if name == "title" else at
        if name == "title" and self.title is None:
            self.title = self.data[at:start]
        return after

    def pop_to(self, element: Element) -> None:
        del self.stack[self.stack.index(element) :]

    def push(self, element: Element) -> None:
        if len(self.stack) == MAX_DEPTH:
            self.excess += 1
            return
        element.parent, element.depth = self.stack[-1], len(self.stack)
        self.stack[-1].num_children += 1
        self.stack.append(element)
        self.elements.append(element)

    def imply_ends(self, name: str) -> None:
        head = next((one for one in self.stack if one.name == "head"), None)
        if name == "body" and head:
            self.pop_to(head)
        ends, stops = implied(name)
        outermost = None
        for element in reversed(self.stack[1:]):
            kind = element.name if element.name in TAG else "div"
            if kind in ends:
                outermost = element
            if kind in stops:
                break
        if outermost:
            self.pop_to(outermost)
        if name in HEADINGS and self.stack[-1].name in HEADINGS:
            self.stack.pop()

    def end_tag(self, at: int) -> int:
        name, at = self.name_at(at + 2)
        after = min(self.find(b">", at) + 1, len(self.data))
        if name == "br":
            self.break_line()
        elif name not in INLINE and name not in VOID:
            self.is_open = False
        if name in VOID | RAW | {"body", "html"}:
            return after
        if self.excess:
            self.excess -= 1
            return after
        stops = end_stops(name)
        for element in reversed(self.stack[1:]):
            if element.name == name:
                self.pop_to(element)
                break
            if (element.name if element.name in TAG else "div") in stops:
                break
        return after


def implied(name: str) -> tuple[set[str], set[str]]:
    """What a start tag closes, and where the search for it stops."""
    if name == "li":
        return {"li"}, LISTS | CELLS | {"table"}
    if name in ("dt", "dd"):
        return {"dt", "dd"}, LISTS | CELLS | {"table"}
    if name in CELLS:
        return CELLS, {"tr", "table"}
    if name == "tr":
        return {"tr"}, {"table"} | ROWS
    if name in ROWS:
        return ROWS | {"tr"}, {"table"}
    if name == "option":
        return {"option"}, PLAIN_BLOCK
    if name == "a":
        return {"a"}, set(TAG) - INLINE
    if name in ENDS_P:
        return {"p"}, CELLS | {"table"} | ROWS | LISTS | PLAIN_BLOCK | {"li"}
    return set(), set()


def end_stops(name: str) -> set[str]:
    if name in INLINE:
        return set(TAG) - INLINE
    if name in CELLS | ROWS | {"tr"}:
        return {"table"}
    if name == "table":
        return set()
    return CELLS | {"table"} if name in ("li", "p") else CELLS


# Text


def write(scanner: Scanner, kept: list[bool]) -> bytes:
    """The document of the blocks that are kept."""
    lines: list[bytes] = []
    begun: set[Element] = set()
    row: Element | None = None
    cells: list[tuple[Element, bytes]] = []
    chosen = [block for block, keep in zip(scanner.blocks, kept, strict=True) if keep]
    for block in [*chosen, None]:
        own_row = row_of(block.owner) if block else None
        if row and row is not own_row:
            lines.append(row_line(scanner, row, cells))
            cells = []
        row = own_row
        if block and row:
            cells.append((block.owner, line_of(scanner, block, in_cell=True)))
        elif block:
            line = code_of(scanner, block) if near(block.owner, "pre") else line_of(scanner, block)
            mark = mark_of(block.owner, begun)
            lines += [mark + line] if line else []
    return b"\n".join(lines)


def line_of(scanner: Scanner, block: TextBlock, in_cell: bool = False) -> bytes:
    parts = [b"\0" if span is None else printable(scanner.data[span[0] : span[1]]) for span in block.spans]
    text = re.sub(rb"[\x09-\x0d\x20]*\x00[\x00\x09-\x0d\x20]*", b"\0", b"".join(parts))
    text = re.sub(rb"[\x09-\x0d\x20]+", b" ", text).strip(b"\0 ")
    return text.replace(b"\0", b" " if in_cell else b"\n")


def code_of(scanner: Scanner, block: TextBlock) -> bytes:
    text = b""
    for span in block.spans:
        text += b"\n" if span is None else printable(scanner.data[span[0] : span[1]]).lstrip(b"" if text else b"\r\n")
    return text.rstrip(SPACE)


def printable(data: bytes) -> bytes:
    return data.translate(None, bytes([*range(9), *range(14, 32), 127]))


def ancestors(element: Element | None) -> list[Element]:
    return [element, *ancestors(element.parent)] if element and element.parent else [element] if element else []


def near(element: Element, name: str) -> Element | None:
    return next((one for one in ancestors(element)[:4] if one.name == name), None)


def mark_of(owner: Element, begun: set[Element]) -> bytes:
    for element in ancestors(owner)[:4]:
        if element.name == "li" and element not in begun:
            begun.add(element)
            num_lists = sum(one.name in LISTS for one in ancestors(element))
            return b"  " * (min(num_lists, 8) - 1) + b"- "
        if element.name in LISTS | CELLS | {"table", "li"}:
            break
    return b""


def row_of(owner: Element) -> Element | None:
    row = owner.parent
    return row if owner.name in CELLS and row and row.name == "tr" and row.num_children > 1 else None


def row_line(scanner: Scanner, row: Element, cells: list[tuple[Element, bytes]]) -> bytes:
    children = [element for element in scanner.elements if element.parent is row]
    texts = [b" ".join(text for cell, text in cells if cell is child) for child in children if child.name in CELLS]
    line = b"| " + b" | ".join(texts) + b" |"
    return line + b"\n|" + b"---|" * len(children) if cells[-1][0].name == "th" else line
