"""What is known of each block of a page: 203 numbers that the trees read.

Its text, its place, what lies above it (words of class names and tags by distance, sums of six levels), beside it, and
the whole page. "Good" is a block of 60 letters or more with some punctuation of which few are links.
tests/stages/reference_html_features.py is the same in plain Python.
Source: the families are those of readability and boilerpipe (Kohlschuetter et al. 2010, "Boilerplate Detection using
Shallow Text Features"), put as features, not as rules; what each is worth is in docs/extraction.md.
"""

from typing import Any

import numpy as np
from numba import types

from stages.kernels.compiling import Bytes, compiled
from stages.kernels.html_attributes import fold, look_up
from stages.kernels.html_feature_names import (
    _BASIS,
    _BODY,
    _CHARS,
    _CJK,
    _COPYRIGHT,
    _DISTANCE,
    _FIRST,
    _H1,
    _HTML,
    _KINDS,
    _LAST,
    _LEVEL,
    _LINK_CHARS,
    _NEIGHBOR,
    _NUM_COUNTS,
    _P,
    _PAGE,
    _PLACE,
    _TEXT_SALT,
    _W,
    _WINDOW,
    _ZERO,
    FAR,
    FEATURES,
    MAX_LEXICAL_WORDS,
    MAX_TITLE_BYTES,
    NUM_LEVELS,
    NUM_STEPS,
    NUM_TEXT_WORDS,
    NUM_WORD_BITS,
    Blocks,
    _Doubles,
    _Features,
    _Keys,
    _Kinds,
    _Longs,
    _Row,
    _Spans,
    _Sums,
    _Table,
    _Values,
)
from stages.kernels.html_page import Names, Page
from stages.kernels.html_repeats import _place, _repeats, _size_for


def describe(page: Page, names: Names) -> Blocks:
    """The features of each block."""
    num_blocks = page.num_blocks
    features, groups = np.zeros((num_blocks, len(FEATURES)), np.float32), np.zeros((num_blocks, 4), np.int64)
    counts = np.zeros((num_blocks + 1, _NUM_COUNTS), np.int64)
    words, firsts = np.empty(page.data.size // 2 + num_blocks + 2, np.uint64), np.zeros(num_blocks + 2, np.int64)
    start, stop = page.title
    _describe(
        page.data,
        names.keys,
        names.values,
        names.near_tags,
        _KINDS,
        page.nodes,
        page.spans,
        page.blocks,
        max(start, 0),
        min(max(stop, 0), max(start, 0) + MAX_TITLE_BYTES),
        counts,
        words,
        firsts,
        features,
        groups,
    )
    return Blocks(features, groups)


@compiled(Bytes, types.int64, types.int64, _Longs)
def _count_wide(data: Any, at: int, stop: int, count: Any) -> None:
    """Punctuation of several bytes, by its first: a copyright sign, ideographic full stop and commas."""
    if data[at] == 0xC2:
        count[_COPYRIGHT] += at + 1 < stop and data[at + 1] == 0xA9
    elif at + 2 < stop and data[at] == 0xE3 and data[at + 1] == 0x80:
        count[7] += data[at + 2] == 0x82
        count[6] += data[at + 2] == 0x81
    elif at + 2 < stop and data[at] == 0xEF and data[at + 1] == 0xBC:
        count[6] += data[at + 2] == 0x8C


@compiled(Bytes, _Kinds, types.int64, types.int64, types.int64, _Longs, _Keys, types.int64, types.uint64)
def _read_span(
    data: Any, kinds: Any, start: int, stop: int, linked: int, count: Any, words: Any, num: int, word: Any
) -> tuple[int, Any]:
    """Count the bytes of a span and hash its words; the number of words so far, and the word that may go on."""
    for at in range(start, stop):
        byte = np.int64(data[at])
        kind = kinds[byte]
        count[kind] += 1
        if byte > 32:
            if byte & 0xC0 != 0x80:
                count[_CHARS] += 1
                count[_LINK_CHARS] += linked
            if not count[_FIRST]:
                count[_FIRST] = byte
            count[_LAST] = byte
        if 2 <= kind <= 5:
            word = fold(word if word else _BASIS, byte | 32 if kind == 3 else byte)
            if byte >= 0xC2:
                count[_CJK] += 0xE3 <= byte <= 0xED
                _count_wide(data, at, stop, count)
        elif word:
            words[num] = word
            num += 1
            word = _ZERO
    return num, word


@compiled(Bytes, _Kinds, _Spans, _Table, _Table, _Keys, _Longs)
def _read_blocks(data: Any, kinds: Any, spans: Any, blocks: Any, counts: Any, words: Any, firsts: Any) -> None:
    """Counts of each block, and its words: words[firsts[b] : firsts[b + 1]]."""
    num = firsts[0]
    for block in range(len(blocks) - 1):
        firsts[block] = num
        word = _ZERO
        for at in range(blocks[block, 0], blocks[block + 1, 0]):
            start, stop, linked = np.int64(spans[at, 0]), np.int64(spans[at, 1]), np.int64(spans[at, 2])
            if start >= 0:
                num, word = _read_span(data, kinds, start, stop, linked, counts[block], words, num, word)
            elif word:
                words[num] = word
                num += 1
                word = _ZERO
        if word:
            words[num] = word
            num += 1
    firsts[len(blocks) - 1] = num


@compiled(_Keys, _Values, _Keys, types.int64, types.int64, _Keys, _Row)
def _look_words_up(keys: Any, values: Any, words: Any, start: int, stop: int, title: Any, row: Any) -> None:
    """Words of the title, and of the groups of text words, in a block."""
    for at in range(start, stop):
        row[19] += title[_place(title, words[at])] != _ZERO
        if at - start < MAX_LEXICAL_WORDS:
            group = look_up(keys, values, words[at] ^ _TEXT_SALT)
            if group >= 0:
                row[_W + group] += 1


@compiled(_Longs, _Table, types.int64, types.float64, _Row)
def _fill_text(count: Any, blocks: Any, block: int, num_words: float, row: Any) -> None:
    """Text features from counts; words of the title and of groups are counted in the row already."""
    chars = max(1, count[_CHARS])
    words = max(1.0, num_words)
    known = 0.0
    for group in range(NUM_TEXT_WORDS):
        known += row[_W + group]
        row[_W + group] = row[_W + group] / words
    first, last = count[_FIRST], count[_LAST]
    row[0], row[1], row[2], row[3] = count[_CHARS], num_words, count[_LINK_CHARS] / chars, count[_LINK_CHARS]
    row[4], row[5], row[6], row[7], row[8] = count[6], count[7], count[8], count[4] / chars, count[3] / chars
    row[9], row[10], row[11], row[12] = count[9], count[10], count[_COPYRIGHT], count[11]
    row[13] = 65 <= first <= 90 or first >= 128
    row[14] = last == 46 or last == 33 or last == 63 or last == 0x82 or last == 34 or last == 0x9D
    row[15], row[16], row[17] = last == 58, blocks[block, 3], blocks[block + 1, 0] - blocks[block, 0]
    row[18], row[19], row[20], row[21] = count[_CHARS] / words, row[19] / words, known / words, count[_CJK] / chars
    row[22], row[23], row[24] = (count[6] + count[7]) / words, 48 <= first <= 57, count[12]


@compiled(_Keys, _Longs, types.int64)
def _word_set(words: Any, firsts: Any, num: int) -> Any:
    """An open table of the first words."""
    table = np.zeros(_size_for(num), np.uint64)
    for at in range(num):
        table[_place(table, words[at])] = words[at]
    return table


@compiled(_Longs)
def _goodness(count: Any) -> Any:
    """The letters of a good block that are no links, else 0; an ideograph counts as 2.5."""
    chars = count[_CHARS] + 1.5 * count[_CJK]
    if chars >= 60 and count[_LINK_CHARS] < 0.35 * count[_CHARS] and count[6] + count[7] + count[8] > 0:
        return chars - count[_LINK_CHARS]
    return 0.0


@compiled(_Table, _Table, _Table, _Doubles, _Sums)
def _sum_up(nodes: Any, blocks: Any, counts: Any, good: Any, sums: Any) -> None:
    """Sums of the blocks in each node, and a score for good text near by."""
    for block in range(len(good)):
        node = blocks[block, 1]
        sums[node, 0] += counts[block, _CHARS]
        sums[node, 1] += counts[block, _LINK_CHARS]
        sums[node, 2] += good[block]
        sums[node, 3] += 1
        points = min(good[block], 1000.0)
        sums[node, 4] += points * 0.2 if nodes[node, 0] == _P else points
        parent = nodes[node, 1]
        if parent >= 0:
            sums[parent, 4] += points
            if nodes[parent, 1] >= 0:
                sums[nodes[parent, 1], 4] += points * 0.55
    for node in range(len(nodes) - 1, 0, -1):
        for k in range(4):
            sums[nodes[node, 1], k] += sums[node, k]


@compiled(_Table, _Sums)
def _best_node(nodes: Any, sums: Any) -> int:
    """The node with the highest score, links off."""
    best, best_score = 0, -1.0
    for node in range(len(nodes)):
        score = sums[node, 4] * (1 - sums[node, 1] / max(1.0, sums[node, 0]))
        if score > best_score and nodes[node, 0] != _BODY and nodes[node, 0] != _HTML:
            best, best_score = node, score
    return best


@compiled(_Table, _Table, _Doubles, types.int64, _Features)
def _place_by_best(nodes: Any, blocks: Any, good: Any, best: int, features: Any) -> None:
    """Whether a block lies in the best node, how far up and down it is from there, how far outside of its good text."""
    above, inside = np.zeros(len(nodes), np.bool_), np.zeros(len(nodes), np.bool_)
    node = best
    while node >= 0:
        above[node] = True
        node = nodes[node, 1]
    inside[best] = True
    for node in range(best + 1, len(nodes)):
        inside[node] = inside[nodes[node, 1]]
    first = last = -1
    for block in range(len(good)):
        if good[block] > 0 and inside[blocks[block, 1]]:
            first, last = block if first < 0 else first, block
    for block in range(len(good)):
        row = features[block, _PLACE + 7 : _PLACE + 11]
        row[0] = inside[blocks[block, 1]]
        node, down = blocks[block, 1], 0
        while not above[node]:
            node, down = nodes[node, 1], down + 1
        row[1], row[2] = nodes[best, 2] - nodes[node, 2], down
        if first >= 0:
            row[3] = min(block - first, 0) + max(block - last, 0)


@compiled(_Table, types.int64)
def _signature(nodes: Any, node: int) -> Any:
    """Hash of tags of four levels and classes of three; never 0."""
    value = _BASIS
    for level in range(4):
        value = fold(value, nodes[node, 0])
        if level < 3:
            value = (value ^ np.uint64(nodes[node, 5])) * np.uint64(0x9E3779B97F4A7C15)
        node = nodes[node, 1]
        if node < 0:
            break
    return value if value else _BASIS


@compiled(_Table, _Table, _Table, _Doubles, _Features, _Table)
def _place_by_alikes(nodes: Any, blocks: Any, counts: Any, good: Any, features: Any, groups: Any) -> None:
    """How many blocks have the signature of a block, and what they are like; groups."""
    num_blocks = len(good)
    table = np.zeros(_size_for(num_blocks + 1), np.uint64)
    sums = np.zeros((len(table), 4), np.float64)
    total = max(1.0, good.sum())
    for block in range(num_blocks):
        node = blocks[block, 1]
        signature = _signature(nodes, node)
        at = _place(table, signature)
        table[at] = signature
        sums[at, 0] += 1
        sums[at, 1] += counts[block, _CHARS]
        sums[at, 2] += counts[block, _LINK_CHARS]
        sums[at, 3] += good[block]
        parent = max(nodes[node, 1], 0)
        groups[block, 0], groups[block, 1], groups[block, 2] = at, node, parent
        groups[block, 3] = max(nodes[parent, 1], 0)
    for block in range(num_blocks):
        alike, row = sums[groups[block, 0]], features[block, _PLACE + 11 : _PLACE + 16]
        row[0], row[1], row[2] = alike[0], alike[1] / alike[0], alike[2] / max(1.0, alike[1])
        row[3], row[4] = alike[3] / total, alike[0] / num_blocks


@compiled(_Table, _Table, _Table, _Doubles, _Features)
def _place_in_page(nodes: Any, blocks: Any, counts: Any, good: Any, features: Any) -> None:
    """Tag, depth, and how far down the page a block is."""
    num_blocks = len(good)
    all_chars, all_good = max(1.0, float(counts[:num_blocks, _CHARS].sum())), max(1.0, good.sum())
    heading, chars, letters = -1, 0.0, 0.0
    for block in range(num_blocks):
        if heading < 0 and nodes[blocks[block, 1], 0] == _H1:
            heading = block
    for block in range(num_blocks):
        row, node = features[block, _PLACE : _PLACE + 7], nodes[blocks[block, 1]]
        row[0], row[1], row[2] = node[0], node[2], block / num_blocks
        row[3], row[4] = chars / all_chars, letters / all_good
        row[5], row[6] = block - heading if heading >= 0 else -999, heading >= 0
        chars += counts[block, _CHARS]
        letters += good[block]


@compiled(_Table, _Table, _Values, _Features)
def _measure_distances(nodes: Any, blocks: Any, near_tags: Any, features: Any) -> None:
    """How many levels above a block the nearest class word of each group is, and the nearest of some tags."""
    for block in range(len(features)):
        row = features[block, _DISTANCE:_LEVEL]
        row[:] = FAR
        words, node = blocks[block, 2], blocks[block, 1]
        for step in range(NUM_STEPS + 1):
            number = 0
            while words:
                if words & 1 and row[number] > step:
                    row[number] = step
                words >>= 1
                number += 1
            if node <= 0 or step == NUM_STEPS:
                break
            tag = nodes[node, 0]
            near = near_tags[tag]
            if near >= 0 and row[NUM_WORD_BITS + near] > step + 1:
                row[NUM_WORD_BITS + near] = step + 1
            words = 0 if tag in (_BODY, _HTML) else nodes[node, 4]
            node = nodes[node, 1]


@compiled(_Table, _Table, _Sums, types.float64, _Features)
def _climb(nodes: Any, blocks: Any, sums: Any, all_good: float, features: Any) -> None:
    """Sums of the owner and the five levels above it."""
    for block in range(len(features)):
        node, at = blocks[block, 1], _LEVEL
        for _ in range(NUM_LEVELS):
            if node < 0:
                break
            row, own = features[block], sums[node]
            row[at], row[at + 1], row[at + 2] = own[0], own[2] / all_good, own[1] / max(1.0, own[0])
            row[at + 3], row[at + 4] = own[3], nodes[node, 3]
            node, at = nodes[node, 1], at + 5


@compiled(_Table, _Table, _Features)
def _look_aside(nodes: Any, blocks: Any, features: Any) -> None:
    """Three blocks on each side."""
    num_blocks = len(features)
    for block in range(num_blocks):
        at, owner = _NEIGHBOR, blocks[block, 1]
        for offset in (-3, -2, -1, 1, 2, 3):
            other = block + offset
            row = features[block, at : at + 5]
            row[:] = -1
            if 0 <= other < num_blocks:
                node = blocks[other, 1]
                row[0], row[1], row[2] = features[other, 0], features[other, 2], features[other, 5]
                row[3] = nodes[node, 0]
                row[4] = 2 if node == owner else nodes[node, 1] == nodes[owner, 1]
            at += 5


@compiled(_Table, _Doubles, _Features)
def _look_around(counts: Any, good: Any, features: Any) -> None:
    """Windows of five and ten blocks on each side; how far the next and the last good one are, up to 99."""
    num_blocks = len(good)
    sums = np.zeros((num_blocks + 1, 3), np.float64)
    for block in range(num_blocks):
        sums[block + 1, 0] = sums[block, 0] + good[block]
        sums[block + 1, 1] = sums[block, 1] + counts[block, _LINK_CHARS]
        sums[block + 1, 2] = sums[block, 2] + counts[block, _CHARS]
    since = 99
    for block in range(num_blocks):
        row = features[block, _WINDOW : _WINDOW + 5]
        first, last = sums[max(0, block - 5)], sums[min(num_blocks, block + 6)]
        row[0], row[1] = last[0] - first[0], (last[1] - first[1]) / max(1.0, last[2] - first[2])
        row[2] = sums[min(num_blocks, block + 11), 0] - sums[max(0, block - 10), 0]
        row[4] = since
        since = 0 if good[block] > 0 else min(since + 1, 99)
    since = 99
    for block in range(num_blocks - 1, -1, -1):
        features[block, _WINDOW + 3] = since
        since = 0 if good[block] > 0 else min(since + 1, 99)


@compiled(_Table, _Table, _Sums, types.int64, _Features)
def _fill_page(nodes: Any, blocks: Any, sums: Any, best: int, features: Any) -> None:
    """What is the same for all blocks."""
    num_paragraphs = 0
    for block in range(len(features)):
        num_paragraphs += nodes[blocks[block, 1], 0] == _P
    total, own = sums[0], sums[best]
    for block in range(len(features)):
        row = features[block, _PAGE : _PAGE + 8]
        row[0], row[1], row[2], row[3] = total[0], total[2], len(features), num_paragraphs
        row[4], row[5] = total[1] / max(1.0, total[0]), own[2] / max(1.0, total[2])
        row[6], row[7] = own[1] / max(1.0, own[0]), own[3]


@compiled(
    Bytes,
    _Keys,
    _Values,
    _Values,
    _Kinds,
    _Table,
    _Spans,
    _Table,
    types.int64,
    types.int64,
    _Table,
    _Keys,
    _Longs,
    _Features,
    _Table,
)
def _describe(
    data: Any,
    keys: Any,
    values: Any,
    near_tags: Any,
    kinds: Any,
    nodes: Any,
    spans: Any,
    blocks: Any,
    title_start: int,
    title_stop: int,
    counts: Any,
    words: Any,
    firsts: Any,
    features: Any,
    groups: Any,
) -> None:
    num_blocks = len(features)
    num, word = _read_span(data, kinds, title_start, title_stop, 0, counts[num_blocks], words, 0, _ZERO)
    if word:
        words[num] = word
        num += 1
    title = _word_set(words, firsts, num)
    firsts[0] = num
    _read_blocks(data, kinds, spans, blocks, counts, words, firsts)
    _repeats(words, firsts, features)
    good, sums = np.zeros(num_blocks, np.float64), np.zeros((len(nodes), 5), np.float64)
    for block in range(num_blocks):
        start, stop = firsts[block], firsts[block + 1]
        _look_words_up(keys, values, words, start, stop, title, features[block])
        _fill_text(counts[block], blocks, block, stop - start + 0.5 * counts[block, _CJK], features[block])
        good[block] = _goodness(counts[block])
    _sum_up(nodes, blocks, counts, good, sums)
    best = _best_node(nodes, sums)
    _place_in_page(nodes, blocks, counts, good, features)
    _place_by_best(nodes, blocks, good, best, features)
    _place_by_alikes(nodes, blocks, counts, good, features, groups)
    _measure_distances(nodes, blocks, near_tags, features)
    _climb(nodes, blocks, sums, max(1.0, sums[0, 2]), features)
    _look_aside(nodes, blocks, features)
    _look_around(counts, good, features)
    _fill_page(nodes, blocks, sums, best, features)
