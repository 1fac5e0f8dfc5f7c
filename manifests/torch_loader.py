"""Batches as torch tensors, and the stand-in for AWS's own way to open a dataset.

In the Llama example of neuronx-distributed, `from training_utils import create_llama_pretraining_dataset`
becomes `from manifests.torch_loader import create_llama_pretraining_dataset`: the same arguments, the same
tensors, the folder of a run (or s3://) instead of one that `datasets` saved, and a restart that goes on
with the row it had come to.
"""

from collections.abc import Iterator
from typing import Any

from manifests.loader import RowLoader
from manifests.rows import open_rows


class TorchLoader:
    """A RowLoader whose batches are torch tensors; what a trainer takes for its DataLoader."""

    def __init__(self, loader: RowLoader) -> None:
        self.loader = loader

    def __len__(self) -> int:
        return len(self.loader)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        import torch  # trainers bring their own, of any age

        for batch in self.loader:
            yield {name: torch.from_numpy(values) for name, values in batch.items()}

    def state_dict(self) -> dict[str, Any]:
        """See `RowLoader.state_dict`."""
        return self.loader.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """See `RowLoader.load_state_dict`."""
        self.loader.load_state_dict(state)


def create_llama_pretraining_dataset(
    data_dir: str,
    mini_batch_size: int,
    dp_size: int,
    dp_rank: int,
    seed: int,
    *,
    resume_samples: int = 0,
    order: str = "disk",
    cache_dir: str | None = None,
) -> tuple[TorchLoader, None]:
    """(loader, None), as neuronx-distributed's function of this name, for the train rows of a run's output.

    `resume_samples`: rows that all ranks together have trained on already. `order="disk"` gives each
    rank the rows that AWS's own loader gives it; the others use `seed`.
    """
    loader = RowLoader(
        open_rows(data_dir, cache_dir),
        global_batch=mini_batch_size * dp_size,
        micro_batch=mini_batch_size,
        rank=dp_rank,
        num_ranks=dp_size,
        seed=seed,
        order=order,
    )
    loader.seek(resume_samples)
    return TorchLoader(loader), None
