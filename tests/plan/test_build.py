"""From a file to a plan: order, chains, keys, columns, places."""

from pathlib import Path

from curate.plan.build import build


def test_small(folder: Path) -> None:
    plan = build("pipeline.yaml")
    assert [source.name for source in plan.sources] == ["web", "notes"]
