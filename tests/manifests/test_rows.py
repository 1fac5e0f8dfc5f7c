"""The reader of rows: every token where it belongs, on disk and on S3, with numpy alone."""

import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from curate.core.errors import StorageError
from curate.core.storage import open_storage
from manifests.rows import open_rows
from tests.manifests.builder import Tiny


def test_gives_every_row_of_every_split(output_url: str) -> None:
    tiny = Tiny()
    rows = open_rows(tiny.publish(output_url))
    assert rows.splits == {"train": 23, "validation": 4}
    for split, shards in tiny.shards.items():
        expected = np.concatenate([shard.rows for shard in shards])
        found = np.stack([rows.row(split, i) for i in range(rows.splits[split])])
        assert found.dtype == np.int64
        assert (found == expected).all()


def test_a_row_is_a_copy_that_the_caller_owns(tmp_path: Path) -> None:
    rows = open_rows(Tiny().publish(str(tmp_path)))
    row = rows.row("train", 0)
    row[:] = 0
    assert rows.row("train", 0).any()


def test_rows_beyond_the_split_are_an_index_error(tmp_path: Path) -> None:
    rows = open_rows(Tiny().publish(str(tmp_path)))
    for i in (-1, 23):
        with pytest.raises(IndexError, match=f"row {i} of split 'train', which has 23"):
            rows.row("train", i)
    with pytest.raises(KeyError, match="test"):
        rows.row("test", 0)


def test_travels_to_another_process_as_its_url(tmp_path: Path) -> None:
    rows = open_rows(Tiny().publish(str(tmp_path)))
    rows.row("train", 0)
    sent = pickle.dumps(rows)
    assert len(sent) < 1000
    assert (pickle.loads(sent).row("train", 9) == rows.row("train", 9)).all()


@pytest.mark.parametrize(("rows", "shard"), [(22, 2), (24, 2), (25, 2)])
def test_a_manifest_whose_shards_do_not_add_up_is_refused_at_once(tmp_path: Path, rows: int, shard: int) -> None:
    # mosaicml/streaming#399: the index promises other rows than the shard has
    tiny = Tiny()
    tiny.manifest["splits"]["train"]["rows"] = rows
    with pytest.raises(StorageError, match=f"train/rows-0000{shard}"):
        open_rows(tiny.publish(str(tmp_path)))


def test_rows_without_a_shard_are_refused_at_once(tmp_path: Path) -> None:
    tiny = Tiny()
    del tiny.shards["train"][2]
    del tiny.manifest["splits"]["train"]["shards"][2]
    with pytest.raises(StorageError, match="expected shards for 23 rows, found 16"):
        open_rows(tiny.publish(str(tmp_path)))


def test_a_shard_that_was_cut_short_is_refused(output_url: str) -> None:
    tiny = Tiny()
    url = tiny.publish(output_url)
    storage = open_storage(url)
    key = f"{tiny.manifest['dataset_id'][:12]}/{tiny.manifest['splits']['train']['shards'][2]['rows']['key']}"
    storage.delete(key)
    storage.put(key, bytes(100))
    with pytest.raises(StorageError, match=r"rows-00002.*expected .* found"):
        open_rows(url).row("train", 22)


def test_a_missing_shard_is_a_storage_error(tmp_path: Path) -> None:
    rows = open_rows(Tiny().publish(str(tmp_path)))
    (path,) = tmp_path.glob("*/train/rows-00001.*")
    path.unlink()
    assert rows.row("train", 0).any()
    with pytest.raises(StorageError, match="rows-00001"):
        rows.row("train", 8)


def test_needs_the_standard_library_and_numpy_alone(tmp_path: Path) -> None:
    Tiny().publish(str(tmp_path))
    code = """
import sys
for name in ("pyarrow", "boto3", "torch", "ray", "numba", "rich", "yaml", "xxhash", "zstandard", "sentencepiece"):
    sys.modules[name] = None  # an import of it fails
import manifests.layout, manifests.manifest, manifests.verify
from manifests.rows import open_rows
print(open_rows(sys.argv[1]).row("train", 0).sum())
"""
    answer = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=False)
    assert answer.stderr == ""
    assert int(answer.stdout) == int(Tiny().shards["train"][0].rows[0].sum())
