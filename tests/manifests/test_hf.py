"""The export `hf`: what `datasets` opens is what the rows say, and verify finds what is not."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pyarrow as pa
import pytest

from curate.core.hashing import canonical_json, digest, sha256
from manifests.exports import hf
from tests.manifests.builder import ROW_LENGTH, Tiny, assert_found, problems, rewrite_manifest

Json = dict[str, Any]
VERSIONS = {"<u2": ("uint16", "int8", "uint16"), "<u4": ("uint32", "int8", "int32")}


@pytest.fixture(autouse=True)
def quiet() -> None:
    datasets.disable_progress_bars()


def some_rows(num_rows: int, length: int, dtype: str) -> Any:
    top = 65_535 if dtype == "<u2" else (1 << 31) - 1
    rows = np.random.default_rng(3).integers(0, top, (num_rows, length), endpoint=True)
    return rows.astype(dtype)


def write(folder: Path, dtype: str, *shards: Any, format_type: str | None = "torch") -> Path:
    """A folder as the engine writes it."""
    folder.mkdir()
    names = [f"data-{i:05d}-of-{len(shards):05d}.{i:064x}.arrow" for i in range(len(shards))]
    for name, rows in zip(names, shards, strict=True):
        (folder / name).write_bytes(hf.encode(rows, dtype))
    state = hf.state(digest("x"), "train", names, dtype) | {"_format_type": format_type}
    (folder / hf.INFO).write_bytes(canonical_json(hf.info(dtype)))
    (folder / hf.STATE).write_bytes(canonical_json(state))
    return folder


@pytest.mark.parametrize("dtype", ["<u2", "<u4"])
@pytest.mark.parametrize("num_rows", [1, 1000, 2001])
def test_record_batches_have_at_most_a_thousand_rows_and_all_columns(dtype: str, num_rows: int) -> None:
    rows = some_rows(num_rows, 8, dtype)
    with pa.ipc.open_stream(hf.encode(rows, dtype)) as stream:
        assert [field.type.value_type for field in stream.schema] == list(map(pa.type_for_alias, VERSIONS[dtype]))
        features = json.loads(stream.schema.metadata[b"huggingface"])["info"]["features"]
        assert {name: feature["_type"] for name, feature in features.items()} == dict.fromkeys(
            ("input_ids", "attention_mask", "labels"), "Sequence"
        )
        batches = list(stream)
    assert [batch.num_rows for batch in batches] == [1000] * (num_rows // 1000) + [num_rows % 1000] * (
        num_rows % 1000 > 0
    )
    for first, batch in zip(range(0, num_rows, 1000), batches, strict=True):
        found, wanted = hf.decode(batch), rows[first : first + 1000]
        assert (found["input_ids"] == wanted).all()
        assert (found["labels"] == wanted).all()
        assert (found["attention_mask"] == 1).all()


def test_no_batch_has_more_values_than_its_positions_can_count() -> None:
    assert hf.rows_per_batch(4096) == 1000
    assert hf.rows_per_batch(1 << 24) == 127
    assert 127 * (1 << 24) < 1 << 31 <= 128 * (1 << 24)


@pytest.mark.parametrize(("dtype", "width"), [("<u2", 5), ("<u4", 9)])
def test_bytes_of_a_token(dtype: str, width: int) -> None:
    assert hf.token_bytes(dtype) == width
    assert 0 < len(hf.encode(some_rows(1000, 512, dtype), dtype)) - 512_000 * width < 20_000


def test_a_token_beyond_the_type_of_labels_is_refused() -> None:
    with pytest.raises(pa.ArrowInvalid):
        hf.encode(np.full((1, 4), 1 << 31, np.uint32), "<u4")


@pytest.mark.parametrize("dtype", ["<u2", "<u4"])
@pytest.mark.parametrize("format_type", ["numpy", None])
def test_datasets_opens_the_folder_and_gives_the_rows(dtype: str, format_type: str | None, tmp_path: Path) -> None:
    shards = [some_rows(1500, 32, dtype), some_rows(3, 32, dtype)]
    found = datasets.load_from_disk(str(write(tmp_path / "hf", dtype, *shards, format_type=format_type)))
    assert (len(found), found.split, found.column_names) == (1503, "train", ["input_ids", "attention_mask", "labels"])
    assert [found.features[name].feature.dtype for name in found.column_names] == list(VERSIONS[dtype])
    whole = found.with_format("numpy")[:]
    assert (whole["input_ids"] == np.concatenate(shards)).all()
    assert (whole["labels"] == np.concatenate(shards)).all()
    assert (whole["attention_mask"] == 1).all()
    assert list(found[1499]["input_ids"]) == shards[0][1499].tolist()
    assert list(found[1500]["labels"]) == shards[1][0].tolist()


@pytest.mark.parametrize("dtype", ["<u2", "<u4"])
def test_datasets_opens_the_folder_unchanged_as_int64_tensors(dtype: str, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="the stored format is torch, and torch is not installed here")
    rows = some_rows(10, 32, dtype)
    found = datasets.load_from_disk(str(write(tmp_path / "hf", dtype, rows)))
    assert found[3]["input_ids"].dtype == found[3]["labels"].dtype == found[3]["attention_mask"].dtype == torch.int64
    assert (found[3]["input_ids"].numpy() == rows[3]).all()


def export(tiny: Tiny, url: Path) -> Path:
    """Publish a dataset with its export; `exports` of the manifest describes it."""
    folder: Path = url / tiny.manifest["dataset_id"][:12]
    exports: Json = {}
    for split, shards in tiny.shards.items():
        files = []
        for i, shard in enumerate(shards):
            data = bytes(hf.encode(shard.rows, "<u2"))
            key = f"{hf.file_stem(split, i, len(shards))}{sha256(data)}.arrow"
            (folder / key).parent.mkdir(parents=True, exist_ok=True)
            (folder / key).write_bytes(data)
            files.append({"key": key, "bytes": len(data), "sha256": sha256(data), "rows": len(shard.rows)})
        keys = [str(file["key"]) for file in files]
        state = hf.state(tiny.manifest["dataset_id"], split, keys, "<u2")
        exports[split] = {"files": files, "state": state, "info": hf.info("<u2")}
        for name, value in ((hf.INFO, exports[split]["info"]), (hf.STATE, state)):
            (folder / hf.folder(split) / name).write_bytes(canonical_json(value))
    tiny.manifest["exports"] = {"hf": exports}
    tiny.publish(str(url))
    return folder


def test_a_sound_export_verifies(tmp_path: Path) -> None:
    export(Tiny(), tmp_path)
    assert problems(tmp_path) == []


def data_files(folder: Path) -> list[Path]:
    return sorted((folder / "exports/hf/train").glob("*.arrow"))


def other_rows(folder: Path) -> None:
    """A well-formed file of other rows, named and described as it is."""
    rows = np.full((8, ROW_LENGTH), 7, np.uint16)
    data = bytes(hf.encode(rows, "<u2"))
    old = data_files(folder)[0]
    new = old.with_name(f"{old.name[:20]}.{sha256(data)}.arrow")
    new.write_bytes(data)

    def describe(manifest: Json) -> None:
        exported = manifest["exports"]["hf"]["train"]
        entry = exported["files"][0]
        entry |= {"key": f"exports/hf/train/{new.name}", "sha256": sha256(data), "bytes": len(data)}
        exported["state"]["_data_files"][0]["filename"] = new.name
        (folder / "exports/hf/train/state.json").write_bytes(canonical_json(exported["state"]))

    rewrite_manifest(folder.parent, describe)


def flip(folder: Path) -> None:
    path = data_files(folder)[0]
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def only_train(folder: Path) -> None:
    rewrite_manifest(folder.parent, lambda manifest: manifest["exports"]["hf"].pop("validation"))


def padded(folder: Path) -> None:
    """Masks that are not ones."""
    path = data_files(folder)[0]
    with pa.ipc.open_stream(path.read_bytes()) as stream:
        schema, batches = stream.schema, list(stream)
    zeros = pa.ListArray.from_arrays(batches[0].column(1).offsets, pa.array(np.zeros(8 * ROW_LENGTH, np.int8)))
    with pa.ipc.new_stream(path, schema) as stream:
        stream.write_batch(pa.RecordBatch.from_arrays([batches[0][0], zeros, batches[0][2]], schema=schema))


@pytest.mark.parametrize(
    ("damage", "line"),
    [
        (flip, r"data-00000\S+: sha256: expected \w+, found \w+"),
        (other_rows, r"data-00000\S+: input_ids: row 0: expected that of the shard, found another"),
        (padded, r"data-00000\S+: attention_mask: row 0: expected that of the shard, found another"),
        (only_train, r"exports.hf, splits that have rows: expected \['train', 'validation'\], found \['train'\]"),
        (lambda folder: data_files(folder)[1].unlink(), r"data-00001\S+: expected \d+ bytes, found no such file"),
        (lambda folder: data_files(folder)[1].write_bytes(b"nothing"), r"data-00001\S+: bytes: expected \d+, found 7"),
        (
            lambda folder: data_files(folder)[1].write_bytes(b"nothing"),
            r"data-00001\S+: expected an Arrow stream of rows",
        ),
        (
            lambda folder: (folder / "exports/hf/train/state.json").write_bytes(b"{}"),
            r"train/state.json: expected what the manifest says, found other values",
        ),
        (
            lambda folder: (folder / "exports/hf/train/dataset_info.json").unlink(),
            r"train/dataset_info.json: expected what the manifest says, found no such file",
        ),
        (
            lambda folder: rewrite_manifest(
                folder.parent, lambda manifest: manifest["exports"]["hf"]["train"]["files"].reverse()
            ),
            r"exports.hf.train.files\[0\].key: expected",
        ),
        (
            lambda folder: rewrite_manifest(folder.parent, lambda manifest: manifest["exports"]["hf"].pop("train")),
            r"exports.hf, splits that have rows",
        ),
    ],
)
def test_verify_finds(damage: Callable[[Path], object], line: str, tmp_path: Path) -> None:
    damage(export(Tiny(), tmp_path))
    assert_found(tmp_path, line)
