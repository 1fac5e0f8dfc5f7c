"""The main text of a page by compiled kernels and boosted trees: what `extractor: fast` of stages.html is made of.

Bytes are scanned into blocks of text, each block is described by numbers, and two stages of small trees decide which
blocks are the main text; the second sees what the first says of the blocks around. What the model is made of and how
good it is: stages/models/main_text.md.
"""

import functools
import json
import re
from html import unescape
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stages.kernels.html_features import describe
from stages.kernels.html_names import TAG, names
from stages.kernels.html_page import Block, Node, Page
from stages.kernels.html_scan import scan
from stages.kernels.html_write import write
from stages.kernels.trees import Trees, probabilities, surroundings

MODEL = Path(__file__).parent / "models" / "main_text.npz"
THRESHOLD = 0.5  # fixed before anything was measured
PRIOR_CHARS = 200.0  # that count as sure, so that a page with next to no text is
NO_CONTEXT = np.zeros((0, 0), np.float32)
_SITE = re.compile(r"\s+[|\u2013\u2014\u00bb\u00b7-]\s+")
_NO_BREAK_SPACES = re.compile(r" *\u00a0[ \u00a0]*")
MIN_CHARS = 200  # of a text; where there are fewer, JSON-LD may have what is to be shown
_JSON_BODY = re.compile(rb'"articleBody"\s*:\s*("[^"\\]*(?:\\.[^"\\]*)*")')


class Model(NamedTuple):
    """Two stages of trees; uncertainties[k] is exceeded by k percent of the pages, judged by other folds."""

    first: Trees
    second: Trees
    uncertainties: NDArray[np.float64]

    def limit(self, share: float) -> float:
        """The uncertainty that this share of the pages exceeds."""
        return float(np.interp(100 * share, np.arange(len(self.uncertainties)), self.uncertainties))


class Extraction(NamedTuple):
    """The main text of a page and its title; `uncertainty` in [0, 1]."""

    text: str
    title: str | None
    uncertainty: float


@functools.cache
def load_model(path: Path = MODEL) -> Model:
    """The model of a file, loaded once a process."""
    with np.load(path, allow_pickle=False) as arrays:
        first, second = (Trees(*(arrays[f"{stage}_{name}"] for name in Trees._fields)) for stage in ("first", "second"))
        return Model(first, second, arrays["uncertainties"])


def save_model(model: Model, path: Path) -> None:
    """Write a model as arrays, the same bytes for the same model."""
    stages = {"first": model.first, "second": model.second}
    arrays = {f"{stage}_{name}": array for stage, trees in stages.items() for name, array in trees._asdict().items()}
    np.savez_compressed(path, allow_pickle=False, uncertainties=model.uncertainties, **arrays)


def read_page(content: bytes, model: Model) -> Extraction:
    """The main text of a page in UTF-8."""
    page = scan(content, names())
    chars, answers = judge(page, model)
    text = text_of(page, answers >= THRESHOLD)
    if len(text) < MIN_CHARS and b'"articleBody"' in content:
        text = max(text, _body_of_json(content), key=len)
    return Extraction(text, title_of(page), uncertainty(chars, answers))


def judge(page: Page, model: Model) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """For each block its letters, and the probability that it is main text."""
    features, groups = describe(page, names())
    first = probabilities(model.first, features, NO_CONTEXT)
    context = surroundings(features, groups, first)
    return features[:, 0], probabilities(model.second, features, context)


def uncertainty(chars: NDArray[np.float32], answers: NDArray[np.float32]) -> float:
    """How much text might be on the other side, by how much is kept; at most 1."""
    doubtful = float((chars * np.minimum(answers, 1 - answers)).sum(dtype=np.float64))
    kept = float(chars[answers >= THRESHOLD].sum(dtype=np.float64))
    return min(1.0, doubtful / (kept + PRIOR_CHARS))


def text_of(page: Page, kept: NDArray[np.bool_]) -> str:
    """The text of some blocks, with entities replaced."""
    return _decoded(write(page, names(), kept))


def _body_of_json(content: bytes) -> str:
    """The articleBody that a page states as JSON-LD; empty without."""
    for found in _JSON_BODY.finditer(content):
        try:
            body = json.loads(found[1], strict=False)
        except ValueError:  # it only looks like JSON
            continue
        page = scan(body.encode("utf-8", "replace"), names())
        return text_of(page, np.ones(page.num_blocks, np.bool_))
    return ""


def title_of(page: Page) -> str | None:
    """The only h1 of a page; else og:title or the title element, without the name of the site."""
    owners = page.blocks[:-1, Block.OWNER]
    headings = page.nodes[owners, Node.TAG] == TAG["h1"]
    if len(np.unique(owners[headings])) == 1 and (heading := text_of(page, headings)):
        return heading
    for start, stop in (page.meta_title, page.title):
        title = " ".join(_decoded(page.data[max(start, 0) : max(stop, 0)].tobytes()).split())
        if title:
            return _without_site(title)
    return None


def _without_site(title: str) -> str:
    """The longest part of a title between bars or dashes, where it is much longer than the others."""
    longest = max(_SITE.split(title), key=len)
    return longest if 2 * len(longest) >= len(title) else title


def _decoded(text: bytes) -> str:
    decoded = text.decode("utf-8", "replace")
    if "&" in decoded:
        decoded = unescape(decoded)
    return _NO_BREAK_SPACES.sub(" ", decoded) if "\u00a0" in decoded else decoded
