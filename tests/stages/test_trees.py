"""The compiled walk of trees, against plain Python and against the trainer's own answers."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stages.kernels.trees import CONTEXT, Trees, probabilities, surroundings
from stages.main_text import NO_CONTEXT, load_model
from tests.stages import reference_trees

VALUES = st.floats(-2, 2, width=32)


@st.composite
def trees(draw: st.DrawFn) -> Trees:
    """A few random trees over four features."""
    nodes: list[list[float]] = []

    def grow(depth: int) -> int:
        number = len(nodes)
        nodes.append([-1, draw(VALUES), 0, 0])
        if depth and draw(st.booleans()):
            nodes[number][0] = draw(st.integers(0, 3))
            nodes[number][2:] = grow(depth - 1), grow(depth - 1)
        return number

    roots = [grow(4) for _ in range(draw(st.integers(0, 3)))]
    columns = np.array(nodes or [[-1, 0, 0, 0]], np.float64).T
    features, left, right = (columns[k].astype(np.int16) for k in (0, 2, 3))
    return Trees(features, columns[1].astype(np.float32), left, right, np.array(roots, np.int16))


@settings(max_examples=100, deadline=None)
@given(trees(), st.lists(st.tuples(VALUES, VALUES, VALUES, VALUES), max_size=4), st.integers(0, 4))
def test_the_walk_is_as_in_plain_python(model: Trees, rows: list[tuple[float, ...]], cut: int) -> None:
    table = np.array(rows, np.float32).reshape(-1, 4)
    features, context = np.ascontiguousarray(table[:, :cut]), np.ascontiguousarray(table[:, cut:])
    wanted = [reference_trees.probability(model, row) for row in table.tolist()]
    assert probabilities(model, features, context).tolist() == pytest.approx(wanted, rel=1e-6)


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 900), st.lists(st.integers(0, 3), min_size=4, max_size=4), st.floats(0, 1, width=32))
    )
)
def test_surroundings_are_as_in_plain_python(rows: list[tuple[int, list[int], float]]) -> None:
    features = np.array([[row[0]] for row in rows], np.float32).reshape(-1, 1)
    groups = np.array([row[1] for row in rows], np.int64).reshape(-1, 4)
    context = surroundings(features, groups, np.array([row[2] for row in rows], np.float32))
    wanted = reference_trees.surroundings([float(row[0]) for row in rows], groups.tolist(), [row[2] for row in rows])
    assert context.shape == (len(rows), len(CONTEXT))
    assert context.ravel().tolist() == pytest.approx([value for row in wanted for value in row], rel=1e-5, abs=1e-6)


def test_the_walk_equals_the_trainer() -> None:
    """To 1e-6, on values that lie on thresholds, too."""
    lightgbm = pytest.importorskip("lightgbm", reason="needs the trainer: pip install --group train")
    from benchmarks.main_text.train import PARAMETERS, to_trees

    generator = np.random.default_rng(5)
    rows = generator.integers(0, 50, (3000, 6)).astype(np.float32) / np.float32(7)
    wanted = (rows[:, 0] * rows[:, 1] + rows[:, 2] > 14).astype(np.int8)
    booster = lightgbm.train(PARAMETERS, lightgbm.Dataset(rows, wanted), 40)
    found = probabilities(to_trees(booster), rows, NO_CONTEXT)
    assert np.abs(found - booster.predict(rows)).max() < 1e-6
    assert found.std() > 0.1


def test_the_model_is_sound() -> None:
    """What the walk relies on: it ends at a leaf, and reads no feature that is not there."""
    model = load_model()
    for stage, num_features in ((model.first, 204), (model.second, 204 + len(CONTEXT))):
        inner = stage.features >= 0
        numbers = np.arange(len(stage.features))
        assert stage.features.max() < num_features
        assert (stage.left[inner] > numbers[inner]).all() and (stage.right[inner] > numbers[inner]).all()
        assert max(stage.left.max(), stage.right.max(), stage.roots.max()) < len(numbers)
    assert (np.diff(model.uncertainties) <= 0).all() and 0 <= model.limit(0.05) < model.limit(0.02) <= 1
