"""The Python API: the same plan as the file's, errors that name keys, a run like the command's."""

import ast
import importlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

import curate
from curate.plan.build import build
from manifests.verify import verify
from tests.plan.conftest import SMALL, folder, tokenizer_model

__all__ = ["folder", "tokenizer_model"]  # fixtures

ROOT = Path(__file__).parents[1]


def small() -> dict[str, Any]:
    values: dict[str, Any] = yaml.safe_load(SMALL)
    return values


@pytest.mark.usefixtures("folder")
def test_values_give_the_plan_that_the_file_gives() -> None:
    assert curate.plan(small()).plan_id == build("pipeline.yaml").plan_id == curate.load("pipeline.yaml").plan_id


@pytest.mark.usefixtures("folder")
def test_use_may_be_the_class_itself() -> None:
    tiny_stages = importlib.import_module("tiny_stages")
    values = small()
    values["documents"]["corpus"]["steps"] = [tiny_stages.Repair]
    values["documents"]["web"]["steps"][2] = {"use": tiny_stages.Keep, "min_words": 5}
    assert curate.plan(values).plan_id == build("pipeline.yaml").plan_id


def test_relative_paths_begin_at_the_folder(folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    expected = build("pipeline.yaml").sources
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    plan = curate.plan(small(), folder=folder, output=str(tmp_path / "out"))
    assert plan.sources == expected
    assert plan.output == str(tmp_path / "out")


def broken(keys: str, value: Any) -> dict[str, Any]:
    """The small pipeline with another value at these keys."""
    values = small()
    inner: Any = values
    *path, last = [int(key) if key.isdigit() else key for key in keys.split("/")]
    for key in path:
        inner = inner[key]
    inner[last] = value
    return values


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("keys", "value", "message"),
    [
        (
            "documents/web/steps/2/min_words",
            "many",
            "documents.web.steps[2].min_words: min_words of tiny_stages.Keep must be a whole number, "
            "not the text 'many'",
        ),
        (
            "documents/web/steps/2",
            {"use": "tiny_stages.Keep", "min_word": 5},
            "documents.web.steps[2].min_word: unknown option of tiny_stages.Keep: 'min_word'; "
            "did you mean 'min_words'?",
        ),
        ("seed", 1.5, "seed: seed of the pipeline must be a whole number, not '1.5'"),
        ("seed", {1, 2}, "seed: a set has no form in pipeline.yaml; want texts, numbers, lists and mappings"),
        ("documents/corpus/from", "nowhere", "documents.corpus.from: 'from' of node 'corpus' names 'nowhere'"),
        ("dataset/rows/length", float("nan"), "dataset.rows.length: length of dataset.rows must be a whole number"),
        ("documents/corpus/from", ["web", "web"], "(also on documents.corpus.from[0])"),
    ],
)
def test_an_error_names_the_keys(keys: str, value: Any, message: str) -> None:
    with pytest.raises(curate.CurateError) as caught:
        curate.plan(broken(keys, value))
    assert message in str(caught.value)
    assert caught.value.exit_code == 2


@pytest.mark.usefixtures("folder")
def test_a_class_that_workers_cannot_import_is_refused() -> None:
    def made() -> type:
        class Inner:
            pass

        return Inner

    for cls in (made(), type("Typed", (), {"__module__": "__main__"})):
        with pytest.raises(curate.CurateError, match="cannot be imported by workers"):
            curate.plan(broken("documents/corpus/steps", [cls]))


def test_what_is_no_mapping_is_refused() -> None:
    with pytest.raises(curate.CurateError, match="must be a mapping"):
        curate.plan("pipeline.yaml")  # type: ignore[arg-type]
    with pytest.raises(curate.CurateError, match="a key must be a text, not 1"):
        curate.plan({1: 2})  # type: ignore[dict-item]
    endless: dict[str, Any] = {}
    endless["documents"] = endless
    with pytest.raises(curate.CurateError, match="nested deeper"):
        curate.plan(endless)


def test_a_run_from_python_gives_the_bytes_of_the_command(folder: Path) -> None:
    lines = [json.dumps({"id": f"n{number}", "text": f"the cell divides {number}"}) for number in range(40)]
    (folder / "notes.jsonl").write_text("\n".join(lines) + "\n")
    pipeline = {
        "curate": 1,
        "documents": {"notes": {"read": {"use": "stages.jsonl.ReadJsonl", "paths": "*.jsonl", "id": "id"}}},
        "dataset": {
            "from": "notes",
            "tokenizer": {"model": folder / "models" / "tiny.model"},
            "rows": {"length": 16, "per_shard": 64},
        },
    }
    plan = curate.plan(pipeline, output=str(folder / "python"))
    curate.run(plan, on="local", workers=1)
    (folder / "p.yaml").write_text(json.dumps(pipeline, default=str))  # JSON is YAML
    curate.run(curate.load("p.yaml", str(folder / "file")), on="local", workers=1)
    made, expected = verify(str(folder / "python")), verify(str(folder / "file"))
    assert made["ok"] and made["splits"] == expected["splits"]
    assert made["splits"]["train"]["rows"] > 0


def test_plan_can_be_called_whatever_was_imported_before() -> None:
    for first in ("import curate.plan.build", "from curate.plan import build", "curate.load"):
        code = f"import curate; {first}; print(callable(curate.plan), curate.plan.__name__)"
        done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True, text=True)
        assert done.stdout == "True curate.plan\n"


def test_the_stub_has_what_the_module_resolves() -> None:
    tree = ast.parse((ROOT / "curate" / "__init__.pyi").read_text("utf-8"))
    stubbed = {
        name.asname: (node.module, name.name)
        for node in tree.body
        if isinstance(node, ast.ImportFrom)
        for name in node.names
    }
    assert set(stubbed) == {"CurateError", "Plan", "load", "plan", "run"} <= set(dir(curate))
    for name, (module, attribute) in stubbed.items():
        found = getattr(importlib.import_module(str(module)), attribute)
        assert getattr(curate, str(name)) is (sys.modules["curate.plan"] if name == "plan" else found)


def test_types_are_seen_by_a_checker(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "import curate\nplan = curate.plan({'curate': 1})\nreveal_type(plan.name)\ncurate.run(plan, workers='2')\n"
    )
    command = [sys.executable, "-m", "mypy", "--config-file", str(ROOT / "pyproject.toml"), str(tmp_path / "mine.py")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert 'Revealed type is "str"' in done.stdout.replace("builtins.", "")
    assert 'Argument "workers" to "run" has incompatible type "str"' in done.stdout
