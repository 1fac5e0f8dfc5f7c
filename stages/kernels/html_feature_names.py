"""The features by name and by place, and what is counted for them."""

from enum import IntEnum
from typing import NamedTuple

import numpy as np
from numba import types
from numpy.typing import NDArray

from stages.kernels.compiling import Bytes
from stages.kernels.html_page import BASIS, TEXT_SALT

NUM_TEXT_WORDS = 11  # groups of html_names.TEXT_WORDS
NUM_WORD_BITS = 48  # of html_scan.Node.WORDS
NUM_NEAR_TAGS = 29  # of html_names.NEAR_TAGS
NUM_LEVELS = 6
NUM_STEPS = 14  # upwards, as far as class words and tags are looked for
FAR = 15  # what is not found
GRAM_WORDS = 4
TEXT_NAMES = [
    "chars",
    "words",
    "link_share",
    "link_chars",
    "commas",
    "stops",
    "exclamations",
    "digit_share",
    "upper_share",
    "ampersands",
    "pipes",
    "copyrights",
    "ats",
    "starts_sentence",
    "ends_sentence",
    "ends_colon",
    "breaks",
    "spans",
    "word_chars",
    "title_share",
    "text_word_share",
    "cjk_share",
    "punctuation_per_word",
    "starts_digit",
    "quotes",
    "repeated_share",
]
PLACE_NAMES = [
    "tag",
    "depth",
    "position",
    "char_position",
    "good_position",
    "after_h1",
    "has_h1",
    "in_best",
    "best_up",
    "best_down",
    "best_distance",
    "alike_blocks",
    "alike_chars",
    "alike_link_share",
    "alike_good_share",
    "alike_share",
]
LEVEL_NAMES = ["chars", "good_share", "link_share", "blocks", "children"]
NEIGHBORS = (-3, -2, -1, 1, 2, 3)
NEIGHBOR_NAMES = ["chars", "link_share", "stops", "tag", "kin"]
WINDOW_NAMES = ["good_5", "link_share_5", "good_10", "next_good", "previous_good"]
PAGE_NAMES = [
    "page_chars",
    "page_good",
    "page_blocks",
    "page_paragraphs",
    "page_link_share",
    "best_share",
    "best_link_share",
    "best_blocks",
]
FEATURES = (
    *TEXT_NAMES,
    *(f"text_words_{number}" for number in range(NUM_TEXT_WORDS)),
    *PLACE_NAMES,
    *(f"class_words_{number}" for number in range(NUM_WORD_BITS)),
    *(f"tag_{number}" for number in range(NUM_NEAR_TAGS)),
    *(f"level_{level}_{name}" for level in range(NUM_LEVELS) for name in LEVEL_NAMES),
    *(f"neighbor_{number}_{name}" for number in NEIGHBORS for name in NEIGHBOR_NAMES),
    *WINDOW_NAMES,
    *PAGE_NAMES,
)


class Byte(IntEnum):
    """What a byte of text is; also columns of counts, with those below."""

    SPACE = 0
    OTHER = 1
    LETTER = 2
    UPPER = 3
    DIGIT = 4
    HIGH = 5  # of a character beyond ASCII
    COMMA = 6
    STOP = 7
    EXCLAMATION = 8
    AMPERSAND = 9
    PIPE = 10
    AT = 11
    QUOTE = 12


class Count(IntEnum):
    """Further columns of counts."""

    CHARS = 13
    LINK_CHARS = 14
    CJK = 15
    COPYRIGHT = 16
    FIRST = 17  # byte
    LAST = 18


class Blocks(NamedTuple):
    """Features of the blocks of a page, and what the second stage groups them by.

    Shapes: features (blocks, len(FEATURES)); groups (blocks, 4): blocks alike, owner, its parent, the parent's parent.
    """

    features: NDArray[np.float32]
    groups: NDArray[np.int64]


MAX_TITLE_BYTES = 600
MAX_LEXICAL_WORDS = 60  # of a block that are looked up
_NUM_COUNTS = 19


def _kinds() -> NDArray[np.uint8]:
    kinds = np.full(256, Byte.OTHER, np.uint8)
    kinds[:33], kinds[128:] = Byte.SPACE, Byte.HIGH
    kinds[48:58], kinds[65:91], kinds[97:123] = Byte.DIGIT, Byte.UPPER, Byte.LETTER
    for characters, kind in (
        (",", Byte.COMMA),
        (".", Byte.STOP),
        ("!?", Byte.EXCLAMATION),
        ("&", Byte.AMPERSAND),
        ("|", Byte.PIPE),
        ("@", Byte.AT),
        ('"', Byte.QUOTE),
    ):
        kinds[list(characters.encode())] = kind
    return kinds


_KINDS = _kinds()
_BASIS, _TEXT_SALT = np.uint64(BASIS), np.uint64(TEXT_SALT)
_SHIFT, _ZERO = np.uint64(40), np.uint64(0)
_P, _HTML, _BODY, _H1 = 3, 4, 5, 11  # places in html_scan.KNOWN_TAGS
_T, _W = 0, len(TEXT_NAMES)
_PLACE = _W + NUM_TEXT_WORDS
_DISTANCE = _PLACE + len(PLACE_NAMES)
_LEVEL = _DISTANCE + NUM_WORD_BITS + NUM_NEAR_TAGS
_NEIGHBOR = _LEVEL + NUM_LEVELS * len(LEVEL_NAMES)
_WINDOW = _NEIGHBOR + len(NEIGHBORS) * len(NEIGHBOR_NAMES)
_PAGE = _WINDOW + len(WINDOW_NAMES)
_CHARS, _LINK_CHARS, _CJK, _COPYRIGHT, _FIRST, _LAST = 13, 14, 15, 16, 17, 18
_SUM_CHARS, _SUM_LINK, _SUM_GOOD, _SUM_BLOCKS, _SUM_SCORE = range(5)

_Kinds = Bytes
_Keys = types.uint64[::1]
_Values = types.int32[::1]
_Longs = types.int64[::1]
_Table = types.int64[:, ::1]
_Spans = types.int32[:, ::1]
_Features = types.float32[:, ::1]
_Row = types.float32[::1]
_Doubles = types.float64[::1]
_Sums = types.float64[:, ::1]
