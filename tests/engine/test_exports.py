"""The phase `hf` and what the driver adds to it."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from curate.core.errors import OutputError
from curate.core.hashing import digest
from curate.core.storage import LocalStorage
from curate.engine.exports import exports_of, finish_exports, hf_units
from tests.engine.plans import mixed_plan

DATASET = digest("dataset")
PLAN = dataclasses.replace(mixed_plan(), splits=(("validation", 0.1), ("test", 0.1)), exports=("hf",))


def shard(split: str, number: int) -> dict[str, Any]:
    outputs = [{"role": "rows", "key": f"{DATASET[:12]}/{split}/rows-{number}", "sha256": digest([split, number])}]
    return {"unit": digest(["unit", split, number]), "spec": {"split": split, "shard": number}, "outputs": outputs}


SHARDS = {"name": "shards", "units": [shard("train", 0), shard("train", 1), shard("test", 0)]}


def exported() -> dict[str, Any]:
    """The seal of the phase as its units would make it."""
    receipts = []
    for unit in hf_units(PLAN, DATASET, SHARDS):
        key = f"{DATASET[:12]}/exports/hf/{unit.spec['split']}/data-{unit.spec['shard']:05d}.arrow"
        output = {"role": "hf", "key": key, "bytes": 7, "sha256": digest(key), "rows": 4}
        receipts.append({"spec": unit.spec, "outputs": [output]})
    return {"name": "hf", "units": receipts}


def test_a_unit_a_shard_of_each_split_that_has_rows() -> None:
    specs = [unit.spec for unit in hf_units(PLAN, DATASET, SHARDS)]
    assert [(spec["split"], spec["shard"], spec["shards"]) for spec in specs] == [
        ("train", 0, 2),
        ("train", 1, 2),
        ("test", 0, 1),
    ]
    assert len({unit.key for unit in hf_units(PLAN, DATASET, SHARDS)}) == 3


def test_nothing_where_the_plan_asks_for_no_export() -> None:
    plan = dataclasses.replace(PLAN, exports=())
    assert hf_units(plan, DATASET, SHARDS) == []
    assert exports_of(plan, DATASET, {"name": "hf", "units": []}) == {}


def test_the_manifest_names_files_state_and_info_of_each_split() -> None:
    splits = exports_of(PLAN, DATASET, exported())["hf"]
    assert list(splits) == ["train", "test"]
    keys = [file["key"] for file in splits["train"]["files"]]
    assert keys == ["exports/hf/train/data-00000.arrow", "exports/hf/train/data-00001.arrow"]
    state = splits["train"]["state"]
    assert state["_data_files"] == [{"filename": "data-00000.arrow"}, {"filename": "data-00001.arrow"}]
    assert (state["_split"], state["_format_type"]) == ("train", "torch")
    assert state["_fingerprint"] != splits["test"]["state"]["_fingerprint"]


def test_a_state_is_put_last_once_and_never_overwritten(tmp_path: Path) -> None:
    storage = LocalStorage(str(tmp_path))
    exports = exports_of(PLAN, DATASET, exported())
    finish_exports(storage, DATASET, exports)
    finish_exports(storage, DATASET, exports)
    folder = tmp_path / DATASET[:12] / "exports/hf/train"
    assert json.loads((folder / "state.json").read_bytes()) == exports["hf"]["train"]["state"]
    info, state = ((folder / name).stat().st_mtime_ns for name in ("dataset_info.json", "state.json"))
    assert info <= state
    (folder / "state.json").write_bytes(b"{}")
    with pytest.raises(OutputError, match=r"exports/hf/train/state.json is there with other content"):
        finish_exports(storage, DATASET, exports)
