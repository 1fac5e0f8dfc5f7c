"""The share of a mix group, counted once more."""

from pathlib import Path
from typing import Any

import pytest

from tests.manifests.builder import Tiny, assert_found, problems


def mixed(share: Any) -> Tiny:
    """Its 23 train rows are of one group, `all`."""
    tiny = Tiny()
    tiny.manifest["pipeline"]["mix"] = [{"name": "web", "share": None}, {"name": "all", "share": share}]
    return tiny


def test_rows_of_a_share_are_rounded_of_all_train_rows(tmp_path: Path) -> None:
    assert problems(mixed(0.99).publish(str(tmp_path / "right"))) == []  # 22.77
    mixed(0.5).publish(str(tmp_path / "wrong"))
    assert_found(tmp_path / "wrong", r"train rows of all, 0.5 of all: expected 12, found 23")


@pytest.mark.parametrize("mix", [5, ["general"], [{"name": "all", "share": "1"}], [{"share": 7.0}], {}])
def test_a_mix_that_is_none_is_passed_over(mix: Any, tmp_path: Path) -> None:
    tiny = Tiny()
    tiny.manifest["pipeline"]["mix"] = mix
    assert problems(tiny.publish(str(tmp_path))) == []
