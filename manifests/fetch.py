"""Copying a finished dataset to a local folder, every byte checked; a dataset of its own afterwards."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

from curate.core.errors import PlanError, StorageError
from curate.core.hashing import canonical_json, sha256
from curate.core.storage import Storage, open_storage
from manifests.cache import checked
from manifests.exports import hf
from manifests.manifest import POINTER, Dataset, open_dataset
from manifests.shape import Json

NUM_THREADS = 4  # each holds one file in memory


def fetch(url: str, folder: str) -> Json:
    """Copy the dataset at `url` to `folder`; files that are there already are checked and kept.

    `{"dataset_id", "files", "copied", "bytes_copied"}`. MANIFEST comes last, so a copy that was cut
    short is no dataset, and the same call goes on with it.

    Raises: PlanError where another dataset lies in `folder`; StorageError where a file is damaged.
    """
    dataset, target = open_dataset(url), open_storage(folder)
    pointer = dataset.storage.read(POINTER)
    there = target.read(POINTER) if target.stat(POINTER) else pointer
    if there != pointer:
        raise PlanError(f"{folder}: another dataset lies there; name an empty folder")
    files = list(_files(dataset.manifest))
    with ThreadPoolExecutor(NUM_THREADS) as threads:
        sizes = list(threads.map(lambda file: _copied(dataset, target, file), files))
    for kind in dataset.manifest["exports"].values():
        for split, export in kind.items():
            for name, value in ((hf.INFO, export["info"]), (hf.STATE, export["state"])):
                target.put(dataset.key(hf.folder(split) + name), canonical_json(value))
    target.put(dataset.key("manifest.json"), dataset.storage.read(dataset.key("manifest.json")))
    target.put(POINTER, pointer)
    return {
        "dataset_id": dataset.manifest["dataset_id"],
        "files": len(files),
        "copied": sum(size > 0 for size in sizes),
        "bytes_copied": sum(sizes),
    }


def _files(manifest: Json) -> Iterator[Json]:
    """Every file that the manifest names with its digest."""
    for split in manifest["splits"].values():
        for shard in split["shards"]:
            yield from (shard["rows"], shard["docs"], shard["cu"])
    yield from (*manifest["ledger"]["parts"], *manifest["names"]["parts"])
    for kind in manifest["exports"].values():
        for export in kind.values():
            yield from export["files"]


def _copied(dataset: Dataset, target: Storage, file: Json) -> int:
    """Bytes that were copied; 0 for a file that is there as it should be."""
    key = dataset.key(file["key"])
    if target.stat(key) is not None:
        if sha256(target.read(key)) == file["sha256"]:
            return 0
        target.delete(key)
    data = checked(dataset.storage, key, file)
    if not target.put(key, data) and sha256(target.read(key)) != file["sha256"]:
        raise StorageError(f"{target.url}/{key}: another process wrote other bytes there")
    return len(data)
