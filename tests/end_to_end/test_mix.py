"""Splits, mix and export through the real command: every count once more, from the sidecars."""

import json
import shutil
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pytest

from manifests.rows import open_rows
from tests.command import command
from tests.end_to_end.recount import check_share, groups_of, ledger_of, pieces_of

DATASET = """\
  splits: {validation: 0.05, test: 0.05}
  mix:
    domain: {sources: [articles, web], take: all}
    general: {sources: [general], share: 0.1}
  exports: [hf]
limits:"""


def pipeline(corpus: Any, share: str = "0.1", **changes: Any) -> Path:
    path: Path = corpus.pipeline(replace=("limits:", DATASET.replace("0.1}", f"{share}}}")), **changes)
    return path


@pytest.fixture(scope="module")
def mixed(corpus: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The output of a run with a mix, splits and the export."""
    output = tmp_path_factory.mktemp("mixed") / "out"
    run = command("run", pipeline(corpus), "--output", output, "--on", "local", "--workers", 1)
    done = subprocess.run(run, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return output


def test_the_sidecars_have_the_rows_of_the_share_in_every_prefix(mixed: Path, read_manifest: Any) -> None:
    manifest = read_manifest(mixed)
    groups = groups_of(mixed, manifest, "train")
    assert check_share(groups, "0.1") >= 20
    assert manifest["splits"]["train"]["rows_by_group"] == Counter(groups)


@pytest.mark.parametrize("split", ["validation", "test"])
def test_validation_and_test_keep_groups_apart(split: str, mixed: Path, read_manifest: Any) -> None:
    groups = groups_of(mixed, read_manifest(mixed), split)
    assert set(groups) == {"domain", "general"}
    assert groups == sorted(groups)  # in the order of the mix


def test_a_document_is_in_one_split_and_a_row_that_is_not_needed_leaves_documents_behind(
    mixed: Path, read_manifest: Any
) -> None:
    manifest = read_manifest(mixed)
    in_rows = {split: {line["id"] for line in pieces_of(mixed, manifest, split)} for split in manifest["splits"]}
    assert sum(map(len, in_rows.values())) == len(set().union(*in_rows.values()))
    fates: dict[bytes, list[dict[str, Any]]] = {}
    for line in ledger_of(mixed, manifest):
        fates.setdefault(line["id"], []).append(line)
    kept = {one for one, lines in fates.items() if "kept" in [line["fate"] for line in lines]}
    assert kept == set().union(*in_rows.values())
    left = {one for one, lines in fates.items() if "not_needed" in [line["reason"] for line in lines]}
    assert left and left.isdisjoint(kept)
    assert manifest["drops"]["mix"] == {"not_needed": len(left)}
    assert {line["source"] for one in left for line in fates[one]} == {"general"}
    for split, ids in in_rows.items():
        assert manifest["splits"][split]["documents"] == len(ids)


def test_tokens_are_in_rows_or_not_needed_or_left_over(mixed: Path, read_manifest: Any) -> None:
    manifest = read_manifest(mixed)
    tokens = manifest["tokens"]
    lines = [line for split in manifest["splits"] for line in pieces_of(mixed, manifest, split)]
    assert sum(line["length"] for line in lines) == tokens["in_rows"]
    assert tokens["not_needed"] > 0 and tokens["repeated"] == 0
    fates = ("in_rows", "not_needed", "tail", "merged", "quarantined")
    assert tokens["sent"] == sum(tokens[name] for name in fates)


def test_it_verifies_and_the_commands_speak_of_it(mixed: Path, curate: Any) -> None:
    assert json.loads(curate("verify", mixed, "--json").stdout)["ok"]
    report = json.loads(curate("report", mixed, "--json").stdout)
    assert report["balanced"]
    assert report["splits"]["train"]["rows_by_group"]["general"] > 0


@pytest.mark.parametrize(("changes", "options"), [({}, ["--workers", 2]), ({"unit_bytes": "16 KiB"}, ["--workers", 2])])
def test_how_the_work_is_cut_does_not_matter(
    changes: dict[str, Any],
    options: list[Any],
    corpus: Any,
    mixed: Path,
    curate: Any,
    read_manifest: Any,
    tmp_path: Path,
) -> None:
    curate("run", pipeline(corpus, **changes), "--output", tmp_path / "out", "--on", "local", *options)
    assert read_manifest(tmp_path / "out") == read_manifest(mixed)


def test_one_percent(corpus: Any, mixed: Path, curate: Any, read_manifest: Any, units_run: Any, tmp_path: Path) -> None:
    output = shutil.copytree(mixed, tmp_path / "out")
    curate("run", pipeline(corpus, share="0.01"), "--output", output, "--on", "local", "--workers", 1, "--replace")
    assert not any(name.startswith("documents") for name in units_run(output)[-1])  # their seals are taken as they are
    manifest = read_manifest(output)
    assert check_share(groups_of(output, manifest, "train"), "0.01") >= 5
    assert json.loads(curate("verify", output, "--json").stdout)["ok"]


def test_too_few_rows_of_a_share_are_a_plan_error_and_epochs_repeat_them(
    corpus: Any, mixed: Path, curate: Any, read_manifest: Any, tmp_path: Path
) -> None:
    output = shutil.copytree(mixed, tmp_path / "out")
    before = (output / "MANIFEST").read_bytes()
    done = curate("run", pipeline(corpus, share="0.5"), "--output", output, "--on", "local", "--replace", code=2)
    assert "mix group 'general' has " in done.stderr and "set its epochs to 4" in done.stderr
    assert (output / "MANIFEST").read_bytes() == before
    curate(
        "run",
        pipeline(corpus, share="0.5, epochs: 4"),
        "--output",
        output,
        "--on",
        "local",
        "--workers",
        1,
        "--replace",
    )
    manifest = read_manifest(output)
    groups = groups_of(output, manifest, "train")
    check_share(groups, "0.5")
    assert manifest["tokens"]["repeated"] > 0
    lines = pieces_of(output, manifest, "train")
    times = Counter((line["id"], line["token_offset"]) for line in lines if line["group"] == "general")
    assert set(times.values()) == {3, 4}  # the first rows once more than the others
    assert json.loads(curate("verify", output, "--json").stdout)["ok"]


def test_the_export_opens_with_datasets_and_has_the_rows(mixed: Path, read_manifest: Any, tmp_path: Path) -> None:
    datasets.disable_progress_bars()
    manifest, rows = read_manifest(mixed), open_rows(str(mixed))
    assert set(manifest["exports"]["hf"]) == {"train", "validation", "test"}
    for split, exported in manifest["exports"]["hf"].items():
        folder = mixed / manifest["dataset_id"][:12] / "exports/hf" / split
        assert json.loads((folder / "state.json").read_bytes()) == exported["state"]
        assert len(exported["files"]) == len(manifest["splits"][split]["shards"])
        # The stored format is torch, which the tests do without: the same folder with another format.
        copy = tmp_path / split
        copy.mkdir()
        for file in folder.iterdir():
            (copy / file.name).symlink_to(file)
        (copy / "state.json").unlink()
        (copy / "state.json").write_text(json.dumps(exported["state"] | {"_format_type": "numpy"}))
        found = datasets.load_from_disk(str(copy))
        assert len(found) == rows.splits[split]
        for number in range(len(found)):
            row = rows.row(split, number)
            assert (found[number]["input_ids"] == row).all()
            assert (found[number]["labels"] == row).all()
            assert (found[number]["attention_mask"] == np.ones(len(row))).all()
