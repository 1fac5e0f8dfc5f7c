"""gc: what is needed stays, what nobody needs goes, receipts first; with a run under way it is careful."""

import os
import time
from pathlib import Path
from typing import Any

import pytest

from curate.core.errors import OutputError, PlanError, StorageError
from curate.core.storage import LocalStorage, open_storage
from curate.engine.publish import finished_manifest
from curate.plan.build import build
from curate.report import gc as module
from curate.report.gc import GRACE_SECONDS, KINDS, as_text, gc, kind_of
from curate.report.status import status
from curate.report.why import why
from manifests.verify import verify
from tests.report.small_run import make, write_notes


def keys(url: str) -> set[str]:
    return {stored.key for stored in open_storage(url).list()}


def test_nothing_goes_from_a_run_that_is_done(tmp_path: Path, output_url: str) -> None:
    write_notes(tmp_path)
    make(tmp_path, output_url)
    before = keys(output_url)
    found = gc(output_url, delete=True)
    assert (found["num_files"], found["finished"], found["deleted"]) == (0, True, True)
    assert keys(output_url) == before
    assert as_text(found) == "nothing to delete"


def test_the_dataset_that_was_replaced_goes_with_its_work(tmp_path: Path, output_url: str) -> None:
    write_notes(tmp_path)
    make(tmp_path, output_url)
    old = status(output_url)
    first = keys(output_url)
    make(tmp_path, output_url, min_words=10, replace=True)
    before = keys(output_url)
    found = gc(output_url)
    assert keys(output_url) == before
    assert not found["deleted"]
    gone = {one["key"] for one in found["files"]}
    assert all(found["kinds"][kind]["files"] for kind in ("receipts", "seals", "plans", "data", "datasets"))
    assert f"dataset {old['dataset_id'][:12]} is not the one that MANIFEST names" in as_text(found)
    assert "--delete does it" in as_text(found)
    again = gc(output_url, delete=True)
    assert again == found | {"deleted": True}
    assert keys(output_url) == before - gone
    assert gone < first
    assert not any(key.startswith(old["dataset_id"][:12]) for key in keys(output_url))
    assert verify(output_url)["ok"]
    assert why(output_url, "n4")["records"][0]["fate"] == "kept"
    assert status(output_url)["state"] == "done"
    assert gc(output_url)["num_files"] == 0


def test_what_was_collected_can_be_made_again(tmp_path: Path) -> None:
    output = str(tmp_path / "out")
    write_notes(tmp_path)
    make(tmp_path, output)
    made = verify(output)["splits"]
    make(tmp_path, output, min_words=10, replace=True)
    gc(output, delete=True)
    make(tmp_path, output, replace=True)
    assert verify(output) == {"ok": True, "problems": [], "splits": made}


@pytest.fixture
def unfinished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Two plans that were done, one after the other, and a third that stopped behind its first phase."""
    output = str(tmp_path / "out")
    write_notes(tmp_path)
    make(tmp_path, output)
    make(tmp_path, output, min_words=10, replace=True)

    def stop(*_: Any) -> None:
        raise StorageError("stopped here")

    with monkeypatch.context() as patch:
        patch.setattr("curate.engine.phases.tail_units", stop)
        with pytest.raises(StorageError, match="stopped here"):
            make(tmp_path, output, min_words=70, replace=True)
    return output


def test_while_a_plan_is_unfinished_only_what_is_old_goes_and_no_dataset(unfinished: str, tmp_path: Path) -> None:
    before = keys(unfinished)
    found = gc(unfinished, delete=True)
    assert (found["finished"], found["num_files"]) == (False, 0)
    assert found["spared"]["files"] > 0
    assert "is unfinished" in as_text(found)
    assert keys(unfinished) == before
    later = gc(unfinished, delete=True, now=time.time() + GRACE_SECONDS + 60)
    assert later["num_files"] > 0
    assert later["kinds"]["datasets"]["files"] == 0
    assert verify(unfinished)["ok"]
    make(tmp_path, unfinished, min_words=70, replace=True)
    assert verify(unfinished)["ok"]
    gc(unfinished, delete=True)
    assert len({key.partition("/")[0] for key in keys(unfinished) if kind_of(key) == "datasets"}) == 1


def test_the_plan_before_an_unfinished_one_stays_whole(unfinished: str, tmp_path: Path) -> None:
    gc(unfinished, delete=True, now=time.time() + GRACE_SECONDS + 60)
    make(tmp_path, unfinished, min_words=10, replace=True)  # back to the plan that was done
    (tmp_path / "other.yaml").write_text((tmp_path / "pipeline.yaml").read_text())
    assert finished_manifest(open_storage(unfinished), build(tmp_path / "other.yaml", unfinished)) is not None


def test_files_that_are_not_ours_and_files_being_written(tmp_path: Path) -> None:
    output = tmp_path / "out"
    write_notes(tmp_path)
    make(tmp_path, str(output))
    for name in ("notes.txt", "work/mine.txt", "abcdefabcdef/mine.txt", "0123456789ab/train/model.bin"):
        (output / name).parent.mkdir(parents=True, exist_ok=True)
        (output / name).write_text("mine")
    old, new = (output / f"work/data/.curate-{name}.tmp" for name in ("old", "new"))
    for path in (old, new):
        path.write_bytes(b"half a file")
    os.utime(old, (time.time() - 7200, time.time() - 7200))
    orphan = output / f"work/data/00/{'0' * 64}.parquet"
    orphan.parent.mkdir(exist_ok=True)
    orphan.write_bytes(b"no receipt names it")
    found = gc(str(output), delete=True)
    gone = {one["key"] for one in found["files"]}
    assert gone == {path.relative_to(output).as_posix() for path in (old, orphan)}
    assert new.exists() and not old.exists() and not orphan.exists()
    assert (output / "notes.txt").exists() and (output / "0123456789ab/train/model.bin").exists()


def test_receipts_go_before_the_data_they_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    output = str(tmp_path / "out")
    write_notes(tmp_path)
    make(tmp_path, output)
    make(tmp_path, output, min_words=10, replace=True)
    order: list[str] = []
    delete = LocalStorage.delete
    monkeypatch.setattr(module, "NUM_THREADS", 1)

    def noted(storage: LocalStorage, key: str) -> None:
        order.append(str(kind_of(key)))
        delete(storage, key)

    monkeypatch.setattr(LocalStorage, "delete", noted)
    gc(output, delete=True)
    assert order == sorted(order, key=KINDS.index)
    assert set(order) == {"receipts", "seals", "plans", "data", "datasets"}


def test_it_stops_when_another_plan_takes_the_output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    output = str(tmp_path / "out")
    write_notes(tmp_path)
    make(tmp_path, output)
    make(tmp_path, output, min_words=10, replace=True)
    found = module.find_needed

    def meanwhile(storage: Any) -> Any:
        needed = found(storage)
        make(tmp_path, output, replace=True)
        return needed

    monkeypatch.setattr(module, "find_needed", meanwhile)
    before = keys(output)
    with pytest.raises(OutputError, match="another plan took this output meanwhile"):
        gc(output, delete=True)
    assert before <= keys(output)
    assert verify(output)["ok"]


def test_where_no_run_has_begun(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match="found neither PLAN nor MANIFEST"):
        gc(str(tmp_path))
