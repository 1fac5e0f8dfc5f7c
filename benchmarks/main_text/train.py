"""Trains the model of `extractor: fast`, and cross-validates it by site.

Two stages: the second one's training rows hold answers of first stages that have not seen the site (nested stacking).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.main_text.labels import Labels, block_texts, label
from benchmarks.main_text.pages import NUM_FOLDS, GoldPage
from stages.encoding import decode
from stages.kernels.html_feature_names import Blocks
from stages.kernels.html_features import describe
from stages.kernels.html_names import names
from stages.kernels.html_page import Page
from stages.kernels.html_scan import scan
from stages.kernels.trees import Trees, probabilities, surroundings
from stages.main_text import NO_CONTEXT, Model, uncertainty

NUM_TREES = 110  # of each stage; the best of six settings, by the same folds that the figures are from
PARAMETERS: dict[str, Any] = {
    "objective": "binary",
    "learning_rate": 0.08,
    "num_leaves": 24,
    "min_data_in_leaf": 60,
    "feature_fraction": 0.3,
    "bagging_fraction": 0.7,
    "bagging_freq": 1,
    "lambda_l2": 5.0,
    "max_bin": 127,
    "num_threads": 1,
    "seed": 1,
    "deterministic": True,
    "force_row_wise": True,
    "verbose": -1,
}
Rows = NDArray[np.bool_]


@dataclass(frozen=True)
class Example:
    """A page as the trainer sees it."""

    page: GoldPage
    scanned: Page
    blocks: Blocks
    labels: Labels


def to_utf8(content: bytes) -> bytes:
    """A page as the stage gives it to the kernels."""
    return decode(content, None, is_html=True).encode("utf-8", "surrogatepass")


def prepare(pages: Sequence[GoldPage], teacher: dict[str, str]) -> list[Example]:
    """Scan, describe and label pages; `teacher` is trafilatura's text by id."""
    examples = []
    for page in pages:
        scanned = scan(to_utf8(page.content), names())
        labels = label(page, block_texts(scanned), teacher[page.id])
        examples.append(Example(page, scanned, describe(scanned, names()), labels))
    return examples


class Trainer:
    """All blocks of some pages, one below the other."""

    def __init__(self, examples: Sequence[Example]) -> None:
        self.examples = examples
        self.features = np.concatenate([example.blocks.features for example in examples])
        self.values = np.concatenate([example.labels.values for example in examples])
        self.weights = np.concatenate([example.labels.weights for example in examples])
        sizes = [len(example.labels.values) for example in examples]
        self.folds = np.repeat([example.page.fold for example in examples], sizes)
        self.ends = np.cumsum(sizes)

    def split(self, rows: NDArray[np.float32]) -> list[NDArray[np.float32]]:
        """Rows page by page."""
        return np.split(rows, self.ends[:-1])

    def context(self, answers: NDArray[np.float32]) -> NDArray[np.float32]:
        """What the second stage sees of answers of the first."""
        parts = zip(self.examples, self.split(answers), strict=True)
        return np.concatenate([surroundings(*example.blocks, part) for example, part in parts])

    def fit(self, rows: Rows, context: NDArray[np.float32]) -> Trees:
        """Trees trained on some rows."""
        return to_trees(self.booster(rows, context))

    def booster(self, rows: Rows, context: NDArray[np.float32]) -> Any:
        """The trainer's own model of some rows."""
        import lightgbm  # not needed to run the product

        features = np.concatenate([self.features[rows], context[rows]], axis=1) if len(context) else self.features[rows]
        data = lightgbm.Dataset(features, self.values[rows], weight=self.weights[rows])
        return lightgbm.train(PARAMETERS, data, NUM_TREES)

    def answer(self, trees: Trees, rows: Rows, context: NDArray[np.float32], into: NDArray[np.float32]) -> None:
        """What trees say of some rows."""
        part = np.ascontiguousarray(context[rows]) if len(context) else NO_CONTEXT
        into[rows] = probabilities(trees, self.features[rows], part)

    def answer_apart(self, part_of: Callable[[int], int], rows: Rows) -> NDArray[np.float32]:
        """First-stage answers for `rows`, each by a model of the rows in other parts; `part_of` a fold."""
        answers = np.zeros(len(self.values), np.float32)
        parts = np.array([part_of(fold) for fold in range(NUM_FOLDS)])[self.folds]
        for part in np.unique(parts[rows]):
            held_out = rows & (parts == part)
            self.answer(self.fit(rows & ~held_out, NO_CONTEXT), held_out, NO_CONTEXT, answers)
        return answers

    def cross_validate(self) -> NDArray[np.float32]:
        """Answers for each block by a model that has not seen its site, in either stage."""
        answers = np.zeros(len(self.values), np.float32)
        for fold in range(NUM_FOLDS):
            held_out = self.folds == fold
            first = self.answer_apart(lambda other, fold=fold: (other - fold) % NUM_FOLDS % 2, ~held_out)  # type: ignore[misc]
            self.answer(self.fit(~held_out, NO_CONTEXT), held_out, NO_CONTEXT, first)
            context = self.context(first)
            self.answer(self.fit(~held_out, context), held_out, context, answers)
        return answers

    def uncertainties(self, answers: NDArray[np.float32]) -> NDArray[np.float64]:
        """Of each page."""
        parts = zip(self.examples, self.split(answers), strict=True)
        return np.array([uncertainty(example.blocks.features[:, 0], part) for example, part in parts])

    def train(self, answers: NDArray[np.float32]) -> Model:
        """The model of all pages; `answers` are those of the cross-validation, which set what counts as unsure."""
        everything = np.ones(len(self.values), np.bool_)
        context = self.context(self.answer_apart(lambda fold: fold, everything))
        limits = np.percentile(self.uncertainties(answers), 100 - np.arange(101))
        return Model(self.fit(everything, NO_CONTEXT), self.fit(everything, context), limits)


def to_trees(booster: Any) -> Trees:
    """A trained model as arrays. Thresholds are rounded down to what float32 holds, which no float32 value notices."""
    nodes: list[tuple[int, float, int, int]] = []
    roots = []
    for tree in booster.dump_model()["tree_info"]:
        roots.append(len(nodes))
        _add_node(tree["tree_structure"], nodes)
    features, thresholds, left, right = (np.array(column) for column in zip(*nodes, strict=True))
    rounded = thresholds.astype(np.float32)
    too_high = (rounded > thresholds) & (features >= 0)
    rounded[too_high] = np.nextafter(rounded[too_high], np.float32(-np.inf))
    shorts = [column.astype(np.int16) for column in (features, left, right, np.array(roots))]
    return Trees(shorts[0], rounded, *shorts[1:])


def _add_node(node: dict[str, Any], nodes: list[tuple[int, float, int, int]]) -> int:
    number = len(nodes)
    if "split_feature" not in node:
        nodes.append((-1, node["leaf_value"], 0, 0))
        return number
    if node["decision_type"] != "<=":
        raise ValueError(f"a split by {node['decision_type']}: the compiled walk knows `<=` only")
    nodes.append((node["split_feature"], node["threshold"], 0, 0))
    left, right = _add_node(node["left_child"], nodes), _add_node(node["right_child"], nodes)
    nodes[number] = (node["split_feature"], node["threshold"], left, right)
    return number
