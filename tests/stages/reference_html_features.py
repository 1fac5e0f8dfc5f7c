"""What stages.kernels.html_features does, in plain Python: a dictionary of features for each block."""

import re
from dataclasses import dataclass, field
from typing import Any

from stages.kernels.html_feature_names import FAR, NEIGHBORS, NUM_LEVELS, NUM_STEPS, NUM_WORD_BITS
from stages.kernels.html_names import NEAR_TAGS, TEXT_WORDS
from tests.stages.reference_html import Element, Scanner, TextBlock, ancestors

WORD = re.compile(rb"[A-Za-z0-9\x80-\xff]+")
GROUPS = {word.encode(): number for number, words in enumerate(TEXT_WORDS) for word in words.split()}


@dataclass(eq=False)
class Text:
    """A block with what is counted of it."""

    block: TextBlock
    data: bytes
    linked: bytes
    values: dict[str, float] = field(default_factory=dict)

    @property
    def owner(self) -> Element:
        return self.block.owner

    @property
    def words(self) -> list[bytes]:
        return words_of(self.data)

    @property
    def chars(self) -> int:
        return num_chars(self.data)

    @property
    def link_chars(self) -> int:
        return num_chars(self.linked)

    @property
    def cjk(self) -> int:
        return sum(0xE3 <= byte <= 0xED for byte in self.data)

    @property
    def good(self) -> float:
        v = self.values
        chars = self.chars + 1.5 * self.cjk
        enough = chars >= 60 and self.link_chars < 0.35 * self.chars
        return chars - self.link_chars if enough and v["stops"] + v["commas"] + v["exclamations"] > 0 else 0.0


def words_of(data: bytes) -> list[bytes]:
    return [re.sub(rb"[A-Z]", lambda letter: letter[0].lower(), word) for word in WORD.findall(data)]


def num_chars(data: bytes) -> int:
    return sum(byte > 32 and byte & 0xC0 != 0x80 for byte in data)


def describe(scanner: Scanner) -> tuple[list[dict[str, float]], list[list[Any]]]:
    texts = [text_of(scanner, block) for block in scanner.blocks]
    title = set(words_of((scanner.title or b"")[:600]))
    seen: set[tuple[bytes, ...]] = set()
    for text in texts:
        text.values = text_values(scanner, text, title, seen)
    page = PageSums(scanner, texts)
    for number, text in enumerate(texts):
        text.values |= page.place(number, text) | page.distances(text) | page.levels(text) | page.whole()
    for number, text in enumerate(texts):
        text.values |= page.beside(number, text) | page.around(number)
    owners = [[page.signature(text.owner), *(id(one) for one in three(text.owner))] for text in texts]
    return [text.values for text in texts], owners


def three(owner: Element) -> list[Element]:
    parent = owner.parent or owner
    return [owner, parent, parent.parent or parent]


def text_of(scanner: Scanner, block: TextBlock) -> Text:
    spans = [(scanner.data[span[0] : span[1]], span[2]) if span else (b"\n", False) for span in block.spans]
    return Text(block, b"".join(data for data, _ in spans), b"".join(data for data, linked in spans if linked))


def text_values(scanner: Scanner, text: Text, title: set[bytes], seen: set[tuple[bytes, ...]]) -> dict[str, float]:
    data, words = text.data, text.words
    num = len(words) + 0.5 * text.cjk
    wide = [data.count(mark.encode()) for mark in ("\u3002", "\u3001", "\uff0c", "\u00a9")]
    solid = [byte for byte in data if byte > 32] or [0]
    grams = [tuple(words[at : at + 4]) for at in range(max(len(words) - 3, min(1, len(words))))]
    known = [sum(GROUPS.get(word) == group for word in words[:60]) for group in range(len(TEXT_WORDS))]
    repeated = sum(gram in seen for gram in grams) / max(1, len(grams))
    seen.update(grams)
    chars, num_words = max(1, text.chars), max(1.0, num)
    commas, stops = data.count(b",") + wide[1] + wide[2], data.count(b".") + wide[0]
    return {
        "chars": text.chars,
        "words": num,
        "link_share": text.link_chars / chars,
        "link_chars": text.link_chars,
        "commas": commas,
        "stops": stops,
        "exclamations": data.count(b"!") + data.count(b"?"),
        "digit_share": sum(48 <= byte <= 57 for byte in data) / chars,
        "upper_share": sum(65 <= byte <= 90 for byte in data) / chars,
        "ampersands": data.count(b"&"),
        "pipes": data.count(b"|"),
        "copyrights": wide[3],
        "ats": data.count(b"@"),
        "starts_sentence": 65 <= solid[0] <= 90 or solid[0] >= 128,
        "ends_sentence": solid[-1] in b'.!?"\x82\x9d',
        "ends_colon": solid[-1] == 58,
        "breaks": text.block.num_breaks,
        "spans": len(text.block.spans),
        "word_chars": text.chars / num_words,
        "title_share": sum(word in title for word in words) / num_words,
        "text_word_share": sum(known) / num_words,
        "cjk_share": text.cjk / chars,
        "punctuation_per_word": (commas + stops) / num_words,
        "starts_digit": 48 <= solid[0] <= 57,
        "quotes": data.count(b'"'),
        "repeated_share": repeated,
    } | {f"text_words_{group}": count / num_words for group, count in enumerate(known)}


class PageSums:
    """What needs more than one block."""

    def __init__(self, scanner: Scanner, texts: list[Text]) -> None:
        self.texts = texts
        self.elements = scanner.elements
        self.chars: dict[Element, float] = dict.fromkeys(self.elements, 0.0)
        self.links, self.good, self.blocks = dict(self.chars), dict(self.chars), dict(self.chars)
        self.scores = dict(self.chars)
        for text in texts:
            for element in ancestors(text.owner):
                self.chars[element] += text.chars
                self.links[element] += text.link_chars
                self.good[element] += text.good
                self.blocks[element] += 1
            points = min(text.good, 1000.0)
            shares = (0.2 if text.owner.name == "p" else 1.0, 1.0, 0.55)
            for element, share in zip(ancestors(text.owner)[:3], shares, strict=False):
                self.scores[element] += points * share
        candidates = [element for element in self.elements if element.name not in ("html", "body")]
        self.best = max(candidates, key=lambda one: self.scores[one] * (1 - self.links[one] / max(1, self.chars[one])))
        self.root = self.elements[0]
        inside = [number for number, text in enumerate(texts) if text.good and self.best in ancestors(text.owner)]
        self.first, self.last = (inside[0], inside[-1]) if inside else (-1, -1)
        headings = [number for number, text in enumerate(texts) if text.owner.name == "h1"]
        self.heading = headings[0] if headings else None

    def signature(self, owner: Element) -> tuple[object, ...]:
        levels = ancestors(owner)[:4]
        return tuple((one.tag, one.css_class if level < 3 else b"") for level, one in enumerate(levels))

    def place(self, number: int, text: Text) -> dict[str, float]:
        total, good = max(1.0, self.chars[self.root]), max(1.0, self.good[self.root])
        before = self.texts[:number]
        above = ancestors(self.best)
        common = next(one for one in ancestors(text.owner) if one in above)
        alike = [one for one in self.texts if self.signature(one.owner) == self.signature(text.owner)]
        chars = sum(one.chars for one in alike)
        return {
            "tag": text.owner.tag,
            "depth": text.owner.depth,
            "position": number / len(self.texts),
            "char_position": sum(one.chars for one in before) / total,
            "good_position": sum(one.good for one in before) / good,
            "after_h1": number - self.heading if self.heading is not None else -999,
            "has_h1": self.heading is not None,
            "in_best": common is self.best,
            "best_up": self.best.depth - common.depth,
            "best_down": text.owner.depth - common.depth,
            "best_distance": min(0, number - self.first) + max(0, number - self.last) if self.first >= 0 else 0,
            "alike_blocks": len(alike),
            "alike_chars": chars / len(alike),
            "alike_link_share": sum(one.link_chars for one in alike) / max(1, chars),
            "alike_good_share": sum(one.good for one in alike) / good,
            "alike_share": len(alike) / len(self.texts),
        }

    def distances(self, text: Text) -> dict[str, float]:
        words = {f"class_words_{number}": FAR for number in range(NUM_WORD_BITS)}
        tags = {f"tag_{number}": FAR for number in range(len(NEAR_TAGS))}
        for number in text.block.words:
            words[f"class_words_{number}"] = 0
        for level, element in enumerate(ancestors(text.owner)[:NUM_STEPS], 1):
            if element is self.root:
                break
            for number in element.words if element.name not in ("html", "body") else ():
                words[f"class_words_{number}"] = min(level, words[f"class_words_{number}"])
            if element.name in NEAR_TAGS:
                key = f"tag_{NEAR_TAGS.index(element.name)}"
                tags[key] = min(level, tags[key])
        return {**words, **tags}

    def levels(self, text: Text) -> dict[str, float]:
        found: dict[str, float] = {}
        levels: list[Element | None] = [*ancestors(text.owner), *[None] * NUM_LEVELS]
        for level, element in enumerate(levels[:NUM_LEVELS]):
            values = [0.0] * 5
            if element:
                chars = self.chars[element]
                values = [
                    chars,
                    self.good[element] / max(1.0, self.good[self.root]),
                    self.links[element] / max(1.0, chars),
                    self.blocks[element],
                    element.num_children,
                ]
            names = ("chars", "good_share", "link_share", "blocks", "children")
            found |= {f"level_{level}_{name}": value for name, value in zip(names, values, strict=True)}
        return found

    def whole(self) -> dict[str, float]:
        root, best = self.root, self.best
        return {
            "page_chars": self.chars[root],
            "page_good": self.good[root],
            "page_blocks": len(self.texts),
            "page_paragraphs": sum(text.owner.name == "p" for text in self.texts),
            "page_link_share": self.links[root] / max(1.0, self.chars[root]),
            "best_share": self.good[best] / max(1.0, self.good[root]),
            "best_link_share": self.links[best] / max(1.0, self.chars[best]),
            "best_blocks": self.blocks[best],
        }

    def beside(self, number: int, text: Text) -> dict[str, float]:
        found: dict[str, float] = {}
        for offset in NEIGHBORS:
            values = dict.fromkeys(("chars", "link_share", "stops", "tag", "kin"), -1.0)
            if 0 <= number + offset < len(self.texts):
                other = self.texts[number + offset]
                values |= {name: other.values[name] for name in ("chars", "link_share", "stops")}
                values["tag"] = other.owner.tag
                values["kin"] = 2 if other.owner is text.owner else other.owner.parent is text.owner.parent
            found |= {f"neighbor_{offset}_{name}": value for name, value in values.items()}
        return found

    def around(self, number: int) -> dict[str, float]:
        near, far = (self.texts[max(0, number - reach) : number + reach + 1] for reach in (5, 10))
        after = [one.good > 0 for one in self.texts[number + 1 :]]
        before = [one.good > 0 for one in self.texts[:number][::-1]]
        return {
            "good_5": sum(one.good for one in near),
            "link_share_5": sum(one.link_chars for one in near) / max(1, sum(one.chars for one in near)),
            "good_10": sum(one.good for one in far),
            "next_good": min(99, after.index(True)) if True in after else 99,
            "previous_good": min(99, before.index(True)) if True in before else 99,
        }
