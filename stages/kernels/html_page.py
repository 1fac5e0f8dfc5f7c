"""What a page is scanned into, and the numbers that the loops over it share."""

from enum import IntEnum, IntFlag
from typing import NamedTuple

import numpy as np
from numba import types
from numpy.typing import NDArray

# Everything below is also imported by html_names, which makes the tables: numba does not notice when a constant that
# comes from another file changes.
MAX_DEPTH = 512  # open elements; what lies deeper counts as text of the deepest
MAX_VALUE_BYTES = 1 << 16  # a quoted value with `<` in it that is longer has lost its closing quote
MAX_CLASS_BYTES = 400  # of a class or id that are read
MAX_WORD_LETTERS = 31
MIN_PREFIX_LETTERS = 4
BASIS, PRIME = 0xCBF29CE484222325, 0x100000001B3  # FNV-1a, 64 bits
ATTRIBUTE_SALT, CLASS_SALT, TEXT_SALT, META_SALT = (0x9E3779B97F4A7C15 * n & (1 << 64) - 1 for n in range(1, 5))
TABLE_SIZE = 4096
KNOWN_TAGS = (
    "a",
    "br",
    "p",
    "html",
    "body",
    "head",
    "title",
    "meta",
    "script",
    "style",
    "h1",
    "pre",
    "th",
)  # tags 1, 2, ... by name


class Group(IntFlag):
    """What a tag is for the rules of nesting."""

    VOID = 1  # has no end tag
    RAW = 2  # skipped up to its end tag
    INLINE = 4  # does not end a block of text
    BLOCK = 8  # any other, but for those below
    PARAGRAPH = 16
    ITEM = 32  # li
    TERM = 64  # dt, dd
    CELL = 128  # td, th
    ROW = 256
    ROWS = 512  # tbody, thead, tfoot, caption, colgroup
    TABLE = 1024
    LIST = 2048  # ul, ol, menu, dl
    OPTION = 4096
    HEADING = 8192
    ANCHOR = 16384
    ENDS_PARAGRAPH = 32768
    FOREIGN = 65536  # `/>` ends it
    NESTS = 131072  # raw, and may lie within itself


class Rule(IntEnum):
    """Columns of the table of rules: what a tag is, and what its start and its end tag close."""

    GROUP = 0
    STARTS_END = 1  # a start tag closes the outermost of these groups ...
    STARTS_STOP = 2  # ... that lies within the innermost of these
    ENDS_STOP = 3  # an end tag finds no partner beyond these


class Attribute(IntEnum):
    """Attributes that are looked at."""

    CLASS = 0
    NAMING = 1  # id, role, itemprop, itemtype
    STYLE = 2
    HIDDEN = 3
    ARIA_HIDDEN = 4
    META_NAME = 5  # property, name
    CONTENT = 6


class Node(IntEnum):
    """Columns of nodes. Node 0 is the root."""

    TAG = 0
    PARENT = 1
    DEPTH = 2
    CHILDREN = 3
    WORDS = 4  # bits of the groups of class words
    CLASS = 5  # hash of the class attribute, 0 without
    NAME = 6  # hash of the tag's name


class Span(IntEnum):
    """Columns of spans: bytes, and whether they are in a link. A line break starts at -1."""

    START = 0
    STOP = 1
    LINKED = 2


class Block(IntEnum):
    """Columns of blocks. Spans go up to the first one of the next block; a last row closes the last block."""

    SPAN = 0
    OWNER = 1  # node
    WORDS = 2  # of the inline elements between the owner and the beginning of the text
    BREAKS = 3


# Numbers of groups of class words that the kernel knows by name.
PAIR_BIT, HIDDEN_BIT, ARIA_HIDDEN_BIT = 45, 46, 47
POST_GROUP = 18
PAIR_FIRST = 1 << 16 | 1 << POST_GROUP | 1 << 20 | 1 << 21  # article, post, main, story
PAIR_SECOND = 1 << 17 | 1 << 19  # content, body


class Names(NamedTuple):
    """Tables that the kernels read. Shapes: keys and values (TABLE_SIZE,), rules (256, len(Rule)), near_tags (256,)."""

    keys: NDArray[np.uint64]
    values: NDArray[np.int32]  # -1: no entry
    rules: NDArray[np.int32]
    near_tags: NDArray[np.int32]  # tag -> number in NEAR_TAGS, else -1


class Page(NamedTuple):
    """What is found in a page.

    Shapes: nodes (nodes, len(Node)), spans (spans, len(Span)), blocks (blocks + 1, len(Block)).
    """

    data: NDArray[np.uint8]
    nodes: NDArray[np.int64]
    spans: NDArray[np.int32]
    blocks: NDArray[np.int64]
    title: tuple[int, int]  # bytes of the title element, (-1, -1) without
    meta_title: tuple[int, int]  # of the content of og:title

    @property
    def num_blocks(self) -> int:
        """How many blocks there are."""
        return len(self.blocks) - 1


# State: counters, what the last start tag said, then the stack, open elements by tag, tags without a further end tag.
_NODES, _SPANS, _BLOCKS, _DEPTH, _OPEN, _LINKS, _BREAKS, _EXCESS, _NO_COMMENT_END = range(9)
_WORDS, _CLASS, _SELF_CLOSED, _IS_TITLE, _CONTENT, _TITLE, _META = 9, 10, 11, 12, 13, 15, 17
_STACK = 20
_OPEN_TAGS = _STACK + MAX_DEPTH
_NO_END = _OPEN_TAGS + 256
_STATE_SIZE = _NO_END + 256

_TAG, _PARENT, _NODE_DEPTH, _CHILDREN, _NODE_WORDS, _NODE_CLASS, _NAME = map(int, Node)
_A, _BR, _P, _HTML, _BODY, _HEAD, _TITLE_TAG, _META_TAG, _SCRIPT, _STYLE_TAG = range(1, 11)
_VOID, _RAW, _INLINE, _FOREIGN, _NESTS = map(int, (Group.VOID, Group.RAW, Group.INLINE, Group.FOREIGN, Group.NESTS))
_HEADING, _IS_P = int(Group.HEADING), int(Group.PARAGRAPH)
_LT, _GT, _SLASH, _BANG, _QUESTION, _DASH, _EQUALS = b"<>/!?-="
_BASIS, _PRIME, _SHIFT = np.uint64(BASIS), np.uint64(PRIME), np.uint64(40)
_ATTRIBUTE_SALT, _CLASS_SALT, _META_SALT = map(np.uint64, (ATTRIBUTE_SALT, CLASS_SALT, META_SALT))
_ZERO = np.uint64(0)

_LOW_BITS, _HIGH_BITS = np.uint64(0x0101010101010101), np.uint64(0x8080808080808080)

_Longs = types.Array(types.uint64, 1, "C", readonly=True)
_Keys = types.uint64[::1]
_Values = types.int32[::1]
_Rules = types.int32[:, ::1]
_Nodes = types.int64[:, ::1]
_Spans = types.int32[:, ::1]
_Blocks = types.int64[:, ::1]
_State = types.int64[::1]
_At = types.int64
