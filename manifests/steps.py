"""How many steps a dataset lasts: what a training engineer asks first."""

from typing import Any

from manifests.manifest import open_dataset


def steps(url: str, global_batch: int, epochs: int = 1) -> dict[str, Any]:
    """Steps of the train split of the dataset at `url`, for `global_batch` rows a step.

    `rows_left_out`: in each epoch, because they do not fill a step.
    """
    manifest = open_dataset(url).manifest
    rows, length = manifest["splits"]["train"]["rows"], manifest["format"]["row_length"]
    steps_per_epoch, left_out = divmod(rows, global_batch)
    return {
        "dataset_id": manifest["dataset_id"],
        "rows": rows,
        "row_length": length,
        "global_batch": global_batch,
        "tokens_per_step": global_batch * length,
        "steps_per_epoch": steps_per_epoch,
        "rows_left_out": left_out,
        "epochs": epochs,
        "steps": steps_per_epoch * epochs,
        "tokens": steps_per_epoch * epochs * global_batch * length,
    }
