"""verify says nothing about a true dataset, and names what is missing or damaged in a stored one."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from curate.core.errors import PlanError
from manifests import ids
from manifests.verify import verify
from tests.manifests.builder import Json, Tiny, assert_found, problems, rewrite_manifest, split_digest

Damage = Callable[[Path], object]


def test_a_true_dataset_has_no_problems(output_url: str) -> None:
    tiny = Tiny()
    found = verify(tiny.publish(output_url))
    assert found == {
        "ok": True,
        "problems": [],
        "splits": {
            "train": {
                "rows": 23,
                "tokens": 23 * 16,
                "digest": split_digest(tiny.manifest, "train"),
                "rows_by_group": {"all": 23},
            },
            "validation": {
                "rows": 4,
                "tokens": 64,
                "digest": split_digest(tiny.manifest, "validation"),
                "rows_by_group": {"all": 4},
            },
        },
    }
    json.dumps(found)


def test_spilling_to_disk_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ids, "IN_MEMORY_BYTES", 1)
    assert problems(Tiny().publish(str(tmp_path))) == []


LEFT_OUT = (("train", 0), ("train", 3), ("train", 8), ("validation", 3))
REPEATED = (("train", 5), ("train", 6), ("train", 5))


def test_a_mix_may_leave_out_rows_and_with_them_parts_of_documents(tmp_path: Path) -> None:
    tiny = Tiny(left_out=LEFT_OUT)
    assert problems(tiny.publish(str(tmp_path / "true"))) == []
    tiny.manifest["tokens"]["not_needed"] = 0
    assert_found(tiny.publish(str(tmp_path / "false")), r"docs: pieces of a document: \w+: expected one at its token 0")


def test_later_epochs_may_repeat_rows(tmp_path: Path) -> None:
    tiny = Tiny(left_out=LEFT_OUT, repeated=REPEATED)
    assert problems(tiny.publish(str(tmp_path / "true"))) == []
    tiny.manifest["tokens"] |= {"repeated": 32, "in_rows": tiny.manifest["tokens"]["in_rows"] + 16}
    assert_found(tiny.publish(str(tmp_path / "false")), r"manifest.json: tokens.repeated: expected 32, found 48")


def one(output: Path, pattern: str) -> Path:
    (path,) = output.glob(f"*/{pattern}")
    return path


def flip(pattern: str, at: int = -3) -> Damage:
    def damage(output: Path) -> None:
        path = one(output, pattern)
        data = bytearray(path.read_bytes())
        data[at] ^= 1
        path.write_bytes(bytes(data))

    return damage


def append(pattern: str, data: bytes) -> Damage:
    return lambda output: one(output, pattern).write_bytes(one(output, pattern).read_bytes() + data)


def truncate(pattern: str) -> Damage:
    return lambda output: one(output, pattern).write_bytes(one(output, pattern).read_bytes()[:-1])


def write(pattern: str, data: bytes) -> Damage:
    return lambda output: one(output, pattern).write_bytes(data)


def remove(pattern: str) -> Damage:
    return lambda output: one(output, pattern).unlink()


def edit(change: Callable[[Json], object], *, pointer: bool = True) -> Damage:
    return lambda output: rewrite_manifest(output, change, pointer=pointer)


def repeat_key(output: Path) -> None:
    path = one(output, "manifest.json")
    path.write_bytes(path.read_bytes().replace(b'"seed":1234', b'"seed":99,"seed":1234'))


def swap_files(output: Path) -> None:
    first, second = one(output, "train/rows-00000.*"), one(output, "train/rows-00001.*")
    content = first.read_bytes()
    first.write_bytes(second.read_bytes())
    second.write_bytes(content)


def swap_entries(manifest: Json) -> None:
    shards = manifest["splits"]["train"]["shards"]
    shards[0], shards[1] = shards[1], shards[0]


def rename_key(manifest: Json) -> None:
    manifest["splits"]["train"]["shards"][0]["rows"]["key"] = "../../elsewhere"


STORED: dict[str, tuple[Damage, str]] = {
    "a byte of rows": (flip("train/rows-00001.*"), r"^train/rows-00001\S+: sha256: expected [0-9a-f]{64}, found"),
    "a byte of docs": (flip("train/docs-00001.*", 40), r"^train/docs-00001\S+: sha256: expected [0-9a-f]{64}, found"),
    "a byte of the footer of docs": (
        flip("train/docs-00001.*"),
        r"^train/docs-00001\S+: expected a Parquet table, found",
    ),
    "a byte of cu": (flip("train/cu-00001.*"), r"^train/cu-00001\S+: sha256: expected"),
    "a byte of the ledger": (flip("ledger/part-00001.*", 40), r"^ledger/part-00001\S+: sha256: expected"),
    "rows missing": (remove("train/rows-00002.*"), r"^train/rows-00002\S+: expected \d+ bytes, found no such file"),
    "docs missing": (remove("validation/docs-*"), r"^validation/docs-00000\S+: expected \d+ bytes, found no such file"),
    "cu missing": (remove("train/cu-00000.*"), r"^train/cu-00000\S+: expected \d+ bytes, found no such file"),
    "a part of the ledger missing": (
        remove("ledger/part-00002.*"),
        r"^ledger/part-00002\S+: expected \d+ bytes, found no such file",
    ),
    "an extra row": (append("train/rows-00002.*", bytes(32)), r"^train/rows-00002\S+: bytes: expected 224, found 256"),
    "rows cut short": (
        truncate("train/rows-00000.*"),
        r"^train/rows-00000\S+: bytes after the last whole row of 32 bytes: expected 0, found 31",
    ),
    "rows emptied": (write("train/rows-00000.*", b""), r"^train/rows-00000\S+: bytes: expected 256, found 0"),
    "docs emptied": (write("train/docs-00000.*", b""), r"^train/docs-00000\S+: expected a Parquet table, found"),
    "cu cut short": (truncate("train/cu-00000.*"), r"^train/cu-00000\S+: expected piece starts of 8 rows, found"),
    "files of two shards swapped": (swap_files, r"^train/rows-00000\S+: sha256: expected"),
    "entries of two shards swapped": (
        edit(swap_entries),
        r"^manifest.json: splits.train.digest: expected [0-9a-f]{64}, found [0-9a-f]{64}",
    ),
    "a key of another shard": (
        edit(swap_entries),
        r"^manifest.json: splits.train.shards\[0\].rows.key: expected train/rows-00000\S+, found train/rows-00001",
    ),
    "a key outside": (
        edit(rename_key),
        r"^\S+manifest.json: splits.train.shards\[0\].rows.key: expected a key below the dataset, found '\.\./",
    ),
    "a manifest changed after the run": (
        edit(lambda m: m.update(seed=1), pointer=False),
        r"^\S+manifest.json: sha256: expected [0-9a-f]{64} by MANIFEST, found",
    ),
    "a seed in the manifest, unseen by the pointer": (
        edit(lambda m: m.update(seed="x")),
        r"seed: expected a whole number, found 'x'",
    ),
    "another dataset id": (
        edit(lambda m: m.update(dataset_id="f" * 64)),
        r"^manifest.json: folder: expected ffffffffffff, found",
    ),
    "a missing key": (
        edit(lambda m: m["splits"]["train"].pop("rows")),
        r"splits.train.rows: expected a whole number, found nothing",
    ),
    "a list that is none": (edit(lambda m: m.update(sums={})), r"sums: expected a list, found dict"),
    "a key that says two things": (
        repeat_key,
        r"manifest.json: key 'seed': expected once in an object, found again",
    ),
    "another seed than the pipeline's": (
        edit(lambda m: m["pipeline"].update(seed=5)),
        r"pipeline.seed: expected 1234, found 5",
    ),
    "other rows than the pipeline's": (
        edit(lambda m: m["pipeline"].update(rows={"length": 17, "bos": "none"})),
        r"pipeline.rows.length: expected 16, found 17",
    ),
    "a manifest that is no JSON": (write("manifest.json", b"{"), r"manifest.json: expected JSON, found"),
    "a manifest of another kind": (write("manifest.json", b"[]"), r"manifest.json: expected an object, found list"),
    "no manifest": (remove("manifest.json"), r"^MANIFEST: expected the manifest \S+, found no such file"),
    "a pointer without digest": (write("../MANIFEST", b"{}"), r"^MANIFEST: sha256: expected text, found nothing"),
}
NO_DATASET: dict[str, tuple[Callable[[Path], object], str]] = {
    "no pointer": (remove("../MANIFEST"), "expected a finished dataset, found no MANIFEST"),
    "nothing at all": (shutil.rmtree, "expected a finished dataset, found no MANIFEST"),
    "a newer version": (
        edit(lambda m: m.update(schema="curate.dataset/2")),
        r"schema: expected curate.dataset/1, found curate.dataset/2; use the curate",
    ),
}


@pytest.mark.parametrize("name", STORED)
def test_changed_files_are_found(name: str, tmp_path: Path) -> None:
    change, pattern = STORED[name]
    output = tmp_path / "output"
    Tiny().publish(str(output))
    change(output)
    assert_found(output, pattern)


@pytest.mark.parametrize("name", NO_DATASET)
def test_where_no_dataset_is_finished_the_path_is_wrong(name: str, tmp_path: Path) -> None:
    change, pattern = NO_DATASET[name]
    Tiny().publish(str(tmp_path / "output"))
    change(tmp_path / "output")
    with pytest.raises(PlanError, match=pattern):
        verify(str(tmp_path / "output"))


def test_each_byte_of_every_file_counts(tmp_path: Path) -> None:
    # mosaicml/streaming#399, #759: an index that disagrees with a shard is found here, not in training.
    Tiny().publish(str(tmp_path))
    for path in sorted(p for p in tmp_path.rglob("*") if p.is_file()):
        whole = path.read_bytes()
        for at in range(0, len(whole), max(1, len(whole) // 3)):
            path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x20]) + whole[at + 1 :])
            assert problems(tmp_path), (path, at)
        path.write_bytes(whole)
    assert problems(tmp_path) == []


def test_many_faults_of_a_kind_are_one_line(tmp_path: Path) -> None:
    tiny = Tiny()
    tiny.shards["train"][1].rows[:] = 0
    lines = [line for line in problems(tiny.publish(str(tmp_path))) if "BOS of documents" in line]
    assert len(lines) == 1
    assert lines[0].endswith("expected 1, found 0 (and 4 more)")


def test_a_place_that_cannot_be_a_dataset_is_a_plan_error() -> None:
    with pytest.raises(PlanError, match="unknown kind of storage"):
        verify("ftp://host/dataset")
