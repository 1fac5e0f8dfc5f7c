"""Whatever is written in a pipeline file, the answer is a Plan or a PlanError of one line."""

import random
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from curate.core.errors import PlanError
from curate.core.hashing import digest
from curate.plan.build import build
from curate.plan.plan import Plan
from tests.plan.conftest import SMALL, folder, tokenizer_model

__all__ = ["folder", "tokenizer_model"]  # fixtures

WORDS = re.findall(r"[\w./*]+", SMALL)
PIECES = [
    *("{", "}", "[", "]", ":", ": ", ",", "- ", "\n", "  ", "#", "&a ", "*a", "!!int ", "'", '"', "|", ">", "?"),
    *("null", "no", "1e999", "-1", "0", ".nan", "<<", "---\n", "%", "@", "~", "\t", "\0", "\x85", "\ufeff", "\ud7ff"),
    *("..", "/", "s3://", "*", "os.path.join", "tiny_stages.NUMBER", "stages.dedup.ExactDedup", "a" * 3000),
]
EDIT = st.tuples(st.integers(0, len(SMALL)), st.integers(0, 12), st.sampled_from([*WORDS, *PIECES]))
VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(1 << 70), 1 << 70),
    st.floats(),
    st.text(max_size=8),
    st.sampled_from(WORDS),
    st.lists(st.sampled_from(WORDS), max_size=3),
    st.dictionaries(st.sampled_from(WORDS), st.sampled_from(WORDS), max_size=3),
)
many = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=200, deadline=None)


def checked(text: str) -> None:
    """Plan `text`; anything but a Plan or a located PlanError of one line fails the test."""
    Path("mutated.yaml").write_bytes(text.encode("utf-8", "surrogatepass"))
    try:
        plan = build("mutated.yaml")
    except PlanError as error:
        assert re.match(r"mutated\.yaml:[0-9]+: \S", str(error)), str(error)
        assert str(error).isprintable(), repr(str(error))
    else:
        assert isinstance(plan, Plan)
        assert plan.plan_id == digest(plan.description)


@pytest.mark.usefixtures("folder")
@many
@given(st.lists(EDIT, max_size=4))
def test_texts(edits: list[tuple[int, int, str]]) -> None:
    text = SMALL
    for start, length, piece in edits:
        text = text[:start] + piece + text[start + length :]
    checked(text)


@pytest.mark.usefixtures("folder")
@many
@given(st.integers(0, 1 << 32), st.lists(VALUES, min_size=1, max_size=3))
def test_values(choice: int, values: list[object]) -> None:
    document = yaml.safe_load(SMALL)
    chance = random.Random(choice)
    for value in values:
        place, key = chance.choice(places(document))
        match chance.randrange(3):
            case 0:
                place[key] = value
            case 1:
                del place[key]
            case _ if isinstance(place, dict):
                place[chance.choice(WORDS)] = value
            case _:
                place.append(value)
    checked(yaml.safe_dump(document, allow_unicode=True))


def places(value: Any) -> list[tuple[Any, Any]]:
    """Every (container, key) in a document."""
    pairs: Iterable[tuple[Any, Any]] = ()
    if isinstance(value, dict | list):
        pairs = value.items() if isinstance(value, dict) else enumerate(value)
    return [found for key, item in pairs for found in [(value, key), *places(item)]]
