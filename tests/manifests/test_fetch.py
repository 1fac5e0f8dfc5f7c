"""A copy is the dataset: complete, checked, or not there."""

from pathlib import Path

import pytest

from curate.core.errors import PlanError, StorageError
from curate.core.storage import open_storage
from manifests.fetch import fetch
from manifests.verify import verify
from tests.manifests.builder import Tiny


def test_the_copy_verifies_and_a_second_call_copies_nothing(output_url: str, tmp_path: Path) -> None:
    url = Tiny().publish(output_url)
    first = fetch(url, str(tmp_path / "copy"))
    assert verify(str(tmp_path / "copy"))["ok"]
    again = fetch(url, str(tmp_path / "copy"))
    assert first["copied"] == first["files"] == again["files"] == 16
    assert (again["copied"], again["bytes_copied"]) == (0, 0)


def test_a_copy_that_was_cut_short_is_no_dataset_and_goes_on(tmp_path: Path) -> None:
    tiny = Tiny()
    url = tiny.publish(str(tmp_path / "out"))
    storage = open_storage(url)
    key = f"{tiny.manifest['dataset_id'][:12]}/{tiny.manifest['splits']['train']['shards'][2]['rows']['key']}"
    data = storage.read(key)
    storage.delete(key)
    storage.put(key, data[:-1] + b"\0")
    with pytest.raises(StorageError, match=r"train/rows-00002.* expected SHA-256"):
        fetch(url, str(tmp_path / "copy"))
    assert not (tmp_path / "copy/MANIFEST").exists()
    storage.delete(key)
    storage.put(key, data)
    (damaged,) = (tmp_path / "copy").glob("*/train/rows-00000.*")
    damaged.write_bytes(b"other")
    found = fetch(url, str(tmp_path / "copy"))
    assert 0 < found["copied"] < found["files"]
    assert verify(str(tmp_path / "copy"))["ok"]


def test_another_dataset_in_the_folder_is_left_alone(tmp_path: Path) -> None:
    other = Tiny()
    other.manifest["seed"] += 1
    other.publish(str(tmp_path / "there"))
    before = {path: path.read_bytes() for path in (tmp_path / "there").rglob("*") if path.is_file()}
    with pytest.raises(PlanError, match="another dataset lies there"):
        fetch(Tiny().publish(str(tmp_path / "out")), str(tmp_path / "there"))
    assert {path: path.read_bytes() for path in (tmp_path / "there").rglob("*") if path.is_file()} == before
