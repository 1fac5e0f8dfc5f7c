"""Files of other trainers, made on demand from the rows of a finished dataset."""

from collections.abc import Callable

from curate.core.errors import PlanError
from manifests.exports import mds, megatron, nanotron, olmo
from manifests.exports.split import Folder, Split
from manifests.manifest import open_dataset

FORMATS: dict[str, Callable[[Split, Folder], None]] = {
    "megatron": megatron.write,
    "mds": mds.write,
    "nanotron": nanotron.write,
    "olmo": olmo.write,
}


def export(url: str, name: str, split: str, folder: str) -> list[str]:
    """Write the rows of a split of the dataset at `url` to a local folder as the format `name`; the names of the files.

    Raises: PlanError for an unknown format or split, or where such files are there already;
    StorageError where a shard is damaged or the folder cannot be written to.
    """
    if name not in FORMATS:
        raise PlanError(f"unknown format {name!r}; want one of {', '.join(FORMATS)}")
    dataset = open_dataset(url)
    if split not in dataset.manifest["splits"]:
        raise PlanError(f"{url}: no split {split!r}; there are {', '.join(dataset.manifest['splits'])}")
    target = Folder(folder)
    FORMATS[name](Split(dataset=dataset, name=split), target)
    return target.names
