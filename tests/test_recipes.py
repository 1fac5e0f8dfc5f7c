"""Each recipe is a YAML file and nothing more; it plans and runs once its data are there, and never overwrites."""

import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from curate.core.errors import PlanError
from curate.plan.build import build
from curate.recipes import recipes, write_recipe
from manifests.verify import verify
from tests.command import manifest_of

QUICKSTART = Path(__file__).parents[1] / "examples" / "quickstart"
Curate = Callable[..., subprocess.CompletedProcess[str]]

# What a person with the quickstart's data would put where the recipe looks.
DATA = {
    "data/pmc": ["pmc/articles.tar.gz"],
    "data/baseline": ["medline/pubmed26n0001.xml.gz"],
    "data/updatefiles": ["medline/pubmed26n0002.xml.gz"],
    "data/general": ["general/speeches.jsonl"],
    "data": ["general/speeches.jsonl"],
    ".": ["tokenizer/tokenizer.model"],
}


def with_data(folder: Path) -> None:
    for place, files in DATA.items():
        (folder / place).mkdir(parents=True, exist_ok=True)
        for file in files:
            shutil.copy(QUICKSTART / file, folder / place)


@pytest.mark.parametrize("name", recipes())
def test_a_recipe_runs_once_its_data_are_there(name: str, curate: Curate, tmp_path: Path) -> None:
    said = curate("init", tmp_path / "mine", "--recipe", name).stdout
    path = tmp_path / "mine" / "pipeline.yaml"
    assert said == f"wrote {path}: change the lines marked <-, then\n  curate plan {path}\n"
    with_data(path.parent)
    curate("run", path, "--workers", "1")
    output = path.parent / "out"
    assert verify(str(output))["ok"]
    assert manifest_of(output)["splits"]["train"]["rows"] > 0


@pytest.mark.parametrize("name", recipes())
def test_a_recipe_says_what_it_is_for_and_what_to_change(name: str) -> None:
    assert 20 < len(recipes()[name]) < 100
    text = (Path(__file__).parents[1] / "curate" / "recipes" / f"{name}.yaml").read_text("utf-8")
    marked = "\n".join(line for line in text.splitlines() if "<-" in line)
    assert "paths:" in marked and "output:" in marked
    assert all("<-" in line for line in text.splitlines() if "paths:" in line)


@pytest.mark.parametrize("name", recipes())
def test_each_number_of_a_recipe_has_its_reason(name: str) -> None:
    """A line with a number that decides about records has a comment, there or on the lines before it."""
    lines = (Path(__file__).parents[1] / "curate" / "recipes" / f"{name}.yaml").read_text("utf-8").splitlines()
    for before, line in zip(["", *lines], lines, strict=False):
        code, _, comment = line.partition("#")
        if re.search(r": \d", code):
            assert comment or before.lstrip().startswith("#"), line


def test_before_its_data_are_there_the_plan_says_what_is_missing(curate: Curate, tmp_path: Path) -> None:
    path = write_recipe(str(tmp_path / "mine"), "jsonl")
    line = 1 + next(i for i, text in enumerate(path.read_text().splitlines()) if "paths:" in text)
    with pytest.raises(PlanError, match=r":\d+: model of dataset.tokenizer: 'tokenizer.model' cannot be read"):
        build(path)
    shutil.copy(QUICKSTART / "tokenizer" / "tokenizer.model", path.parent)
    said = curate("plan", path, code=2).stderr
    assert said == f"{path}:{line}: no file matches 'data/*.jsonl'; there is no folder '{path.parent}/data'\n"
    (path.parent / "data").mkdir()
    assert curate("plan", path, code=2).stderr == f"{path}:{line}: no file matches 'data/*.jsonl'\n"


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    path = write_recipe(str(tmp_path), "jsonl")
    before = path.read_bytes()
    with pytest.raises(PlanError, match=r"is there already, and is not overwritten; name another folder"):
        write_recipe(str(tmp_path), "pubmed-cpt")
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("folder", "message"),
    [
        ("file", "is in no folder"),
        ("file/inner", "cannot be written"),
        ("nul\0", "cannot be written"),
        ("s3://b/x", "is no folder of"),
    ],
)
def test_a_folder_that_cannot_be_is_an_error(
    folder: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(PlanError, match=message):
        write_recipe(folder, "jsonl")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file"]


def test_without_a_recipe_or_with_an_unknown_one_all_are_listed(curate: Curate, tmp_path: Path) -> None:
    for arguments, message in (
        ([], "curate init: --recipe is missing. There are\n"),
        (
            ["--recipe", "pubmd-cpt"],
            "curate init: there is no recipe 'pubmd-cpt'; did you mean 'pubmed-cpt'. There are\n",
        ),
    ):
        said = curate("init", tmp_path / "new", *arguments, code=2).stderr
        assert said.startswith(message)
        assert all(f"  --recipe {name}" in said and purpose in said for name, purpose in recipes().items())
    assert not (tmp_path / "new").exists()
