"""The phase `hf`: each shard once more, as the trainers on Trainium open it."""

from collections.abc import Iterator
from typing import Any

from curate.core.errors import OutputError
from curate.core.hashing import canonical_json
from curate.core.storage import Storage
from curate.engine.context import Context, Seal
from curate.engine.phases import split_names
from curate.engine.receipt import Artifact, Result
from curate.engine.units import Unit, later_unit
from curate.plan.plan import Plan
from manifests import layout
from manifests.exports import hf


def hf_units(plan: Plan, dataset: str, shards: Seal) -> list[Unit]:
    """A unit a shard, where the plan asks for the export."""
    return [unit for split in split_names(plan) for unit in _split_units(plan, dataset, shards, split)]


def _split_units(plan: Plan, dataset: str, shards: Seal, split: str) -> Iterator[Unit]:
    receipts = [one for one in shards["units"] if one["spec"]["split"] == split] if hf.KIND in plan.exports else []
    for receipt in receipts:
        place = {"shard": receipt["spec"]["shard"], "shards": len(receipts)}
        spec = {"dataset": dataset, "split": split, "unit": receipt["unit"]} | place
        yield later_unit(hf.KIND, plan.rows.key, _rows_of(receipt)["sha256"], spec, seals=(shards["name"],))


def run_hf(context: Context, unit: Unit) -> Result:
    """Write the rows of one shard as an Arrow stream."""
    spec, rows = unit.spec, context.plan.rows
    receipt = next(one for one in context.seal(unit.seals[0])["units"] if one["unit"] == spec["unit"])
    data = context.storage.read(_rows_of(receipt)["key"])
    matrix = layout.decode_rows(data, rows.dtype, rows.length)
    place = f"{spec['dataset'][:12]}/{hf.file_stem(spec['split'], spec['shard'], spec['shards'])}"
    exported = hf.encode(matrix, rows.dtype)
    return Result(artifacts=[Artifact(role="hf", data=exported, rows=len(matrix), suffix=".arrow", place=place)])


def exports_of(plan: Plan, dataset: str, exported: Seal) -> dict[str, Any]:
    """What the manifest says of the exports, by kind and split: files, state, info. A split without rows has none."""
    if hf.KIND not in plan.exports:
        return {}
    splits: dict[str, Any] = {}
    for unit in exported["units"]:
        output = unit["outputs"][0]
        file = {"key": output["key"].split("/", 1)[1]} | {name: output[name] for name in ("bytes", "sha256", "rows")}
        splits.setdefault(unit["spec"]["split"], {"files": []})["files"].append(file)
    for name, split in splits.items():
        keys = [file["key"] for file in split["files"]]
        split["info"] = hf.info(plan.rows.dtype)
        split["state"] = hf.state(dataset, name, keys, plan.rows.dtype)
    return {hf.KIND: splits}


def finish_exports(storage: Storage, dataset: str, exports: dict[str, Any]) -> None:
    """Put what makes the folders of data files openable, `state.json` last."""
    for name, split in exports.get(hf.KIND, {}).items():
        for file, value in ((hf.INFO, split["info"]), (hf.STATE, split["state"])):
            key = f"{dataset[:12]}/{hf.folder(name)}{file}"
            body = canonical_json(value)
            if not storage.put(key, body) and storage.read(key) != body:
                raise OutputError(f"{storage.url}/{key} is there with other content; remove it and run again")


def _rows_of(receipt: dict[str, Any]) -> dict[str, Any]:
    output: dict[str, Any] = next(output for output in receipt["outputs"] if output["role"] == "rows")
    return output
