"""Exports against readers written here from the description of each format."""

import csv
import gzip
import hashlib
import io
import json
import struct
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from curate.core.errors import PlanError, StorageError
from curate.core.storage import open_storage
from manifests.export import FORMATS, export
from manifests.rows import open_rows
from tests.manifests.builder import Tiny


@pytest.fixture
def url(output_url: str) -> str:
    return Tiny().publish(output_url)


def rows_of(url: str, split: str = "train") -> NDArray[np.int64]:
    rows = open_rows(url)
    return rows.read(split, np.arange(rows.splits[split])).astype(np.int64)


def piece_ends(url: str, split: str = "train") -> list[int]:
    """Where documents, or pieces of them, end, in tokens of the split."""
    rows = open_rows(url)
    begins = [i * rows.row_length + int(at) for i in range(rows.splits[split]) for at in rows.starts(split, i)]
    return [*begins[1:], rows.splits[split] * rows.row_length]


def test_megatron_by_its_layout(url: str, tmp_path: Path) -> None:
    assert export(url, "megatron", "train", str(tmp_path)) == ["train.bin", "train.idx"]
    wanted = rows_of(url)
    data = (tmp_path / "train.idx").read_bytes()
    assert data[:9] == b"MMIDIDX\x00\x00"
    version, code, sequences, documents = struct.unpack_from("<QBQQ", data, 9)
    assert (version, code, sequences, documents) == (1, 8, len(wanted), len(wanted) + 1)
    lengths = np.frombuffer(data, "<i4", sequences, 34)
    pointers = np.frombuffer(data, "<i8", sequences, 34 + 4 * sequences)
    indices = np.frombuffer(data, "<i8", documents, 34 + 12 * sequences)
    assert len(data) == 34 + 12 * sequences + 8 * documents
    tokens = (tmp_path / "train.bin").read_bytes()
    for i, (length, pointer) in enumerate(zip(lengths.tolist(), pointers.tolist(), strict=True)):
        assert np.frombuffer(tokens, "<u2", length, pointer).tolist() == wanted[i].tolist()
    assert indices.tolist() == list(range(len(wanted) + 1))


def test_nanotron_by_its_layout(url: str, tmp_path: Path) -> None:
    names = export(url, "nanotron", "train", str(tmp_path))
    assert names[:3] == ["00000_train.ds", "00000_train.ds.index", "00000_train.ds.metadata"]
    tokens, ends, size = [], [], 0
    for name in sorted(name for name in names if name.endswith(".ds")):
        part = np.fromfile(tmp_path / name, "<u2")
        ends += (np.fromfile(tmp_path / f"{name}.index", "<u8") + size).tolist()
        tokens += part.tolist()
        size += len(part)
        meaning, count, _ = (tmp_path / f"{name}.metadata").read_text().split("\n")
        assert (meaning.rpartition("|")[2], int(count)) == ("2", len(part))
    assert tokens == rows_of(url).ravel().tolist()
    assert ends == piece_ends(url)


def test_olmo_by_its_layout(url: str, tmp_path: Path) -> None:
    names = export(url, "olmo", "validation", str(tmp_path))
    assert names == ["validation-00000.npy", "validation-00000.csv.gz"]
    wanted = rows_of(url, "validation")
    assert np.memmap(tmp_path / names[0], "<u2", "r").reshape(wanted.shape).tolist() == wanted.tolist()
    lines = list(csv.reader(io.StringIO(gzip.decompress((tmp_path / names[1]).read_bytes()).decode())))
    assert [int(end) for _, end in lines] == piece_ends(url, "validation")
    assert [int(start) for start, _ in lines] == [0, *piece_ends(url, "validation")[:-1]]


def test_mds_by_its_layout(url: str, tmp_path: Path) -> None:
    names = export(url, "mds", "train", str(tmp_path))
    assert names[-1] == "train/index.json"
    index = json.loads((tmp_path / "train/index.json").read_text())
    found = []
    for shard in index["shards"]:
        data = (tmp_path / "train" / shard["raw_data"]["basename"]).read_bytes()
        assert (len(data), hashlib.sha1(data).hexdigest()) == (
            shard["raw_data"]["bytes"],
            shard["raw_data"]["hashes"]["sha1"],
        )
        (count,) = struct.unpack_from("<I", data)
        offsets = np.frombuffer(data, "<u4", count + 1, 4)
        assert (count, int(offsets[-1])) == (shard["samples"], len(data))
        assert json.loads(data[4 + 4 * (count + 1) : int(offsets[0])])["column_names"] == ["tokens"]
        for first, end in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True):
            found.append(np.frombuffer(data[first:end], "<u2").tolist())
    assert found == rows_of(url).tolist()


@pytest.mark.parametrize("name", FORMATS)
def test_files_that_are_there_are_left_alone_and_none_is_left_half_written(name: str, tmp_path: Path) -> None:
    tiny = Tiny()
    url = tiny.publish(str(tmp_path / "out"))
    export(url, name, "train", str(tmp_path / "there"))
    before = {path: path.read_bytes() for path in (tmp_path / "there").rglob("*") if path.is_file()}
    with pytest.raises(PlanError, match="is there already; name an empty folder"):
        export(url, name, "train", str(tmp_path / "there"))
    assert {path: path.read_bytes() for path in (tmp_path / "there").rglob("*") if path.is_file()} == before
    storage = open_storage(url)
    key = f"{tiny.manifest['dataset_id'][:12]}/{tiny.manifest['splits']['train']['shards'][0]['rows']['key']}"
    storage.delete(key)
    storage.put(key, b"damaged")
    with pytest.raises(StorageError, match=r"train/rows-00000.* expected SHA-256"):
        export(url, name, "train", str(tmp_path / "new"))
    assert [path for path in (tmp_path / "new").rglob("*") if path.is_file()] == []


def test_unknown_formats_and_splits_are_named(tmp_path: Path) -> None:
    url = Tiny().publish(str(tmp_path / "out"))
    with pytest.raises(PlanError, match="unknown format 'hdf5'; want one of megatron, mds, nanotron, olmo"):
        export(url, "hdf5", "train", str(tmp_path / "new"))
    with pytest.raises(PlanError, match="no split 'test'; there are train, validation"):
        export(url, "olmo", "test", str(tmp_path / "new"))
