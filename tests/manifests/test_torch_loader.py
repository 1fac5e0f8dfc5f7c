"""The stand-in for AWS's own loader: the same tensors in the same order, and a restart that goes on."""

from pathlib import Path

import pytest

from manifests.rows import open_rows
from tests.manifests.builder import Tiny

torch = pytest.importorskip("torch", reason="gives torch tensors, and torch is not installed here")


def test_gives_each_rank_what_the_stock_loader_gives_it(tmp_path: Path) -> None:
    """neuronx-distributed: load_from_disk, DistributedSampler(shuffle=False, drop_last), default_data_collator."""
    from torch.utils.data import DataLoader, DistributedSampler

    from manifests.torch_loader import create_llama_pretraining_dataset

    url = Tiny().publish(str(tmp_path))
    rows = open_rows(url)
    stock = [{"input_ids": rows.row("train", i), "labels": rows.row("train", i)} for i in range(rows.splits["train"])]
    for rank in range(3):
        sampler = DistributedSampler(stock, num_replicas=3, rank=rank, shuffle=False, drop_last=True)
        wanted = list(DataLoader(stock, sampler=sampler, batch_size=2, drop_last=True))
        loader, _ = create_llama_pretraining_dataset(url, 2, 3, rank, 17)
        found = list(loader)
        assert len(wanted) == len(found) == 3
        for mine, theirs in zip(found, wanted, strict=True):
            assert list(mine) == ["input_ids", "labels", "attention_mask"]
            assert all(values.dtype == torch.int64 for values in mine.values())
            assert torch.equal(mine["input_ids"], theirs["input_ids"])
            assert torch.equal(mine["labels"], theirs["labels"])
            assert bool((mine["attention_mask"] == 1).all())


def test_a_restart_goes_on_where_the_run_had_come_to(tmp_path: Path) -> None:
    from manifests.torch_loader import create_llama_pretraining_dataset

    url = Tiny().publish(str(tmp_path))
    whole, _ = create_llama_pretraining_dataset(url, 1, 2, 1, 17, order="window")
    assert len(whole) == 11
    expected = [batch["input_ids"] for batch in whole]
    rest, _ = create_llama_pretraining_dataset(url, 1, 2, 1, 17, order="window", resume_samples=8)
    assert [one.tolist() for one in expected[4:]] == [batch["input_ids"].tolist() for batch in rest]
    state = rest.state_dict()
    again, _ = create_llama_pretraining_dataset(url, 1, 2, 1, 17, order="window")
    again.load_state_dict(state)
    assert again.state_dict() == state
