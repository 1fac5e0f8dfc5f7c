"""What is particular to storage in a local folder."""

import concurrent.futures
import errno
import os
import stat
import subprocess
from pathlib import Path

import pytest

from curate.core import disk
from curate.core.errors import StorageError
from curate.core.storage import NotFound, Storage, open_storage


def keys(storage: Storage) -> list[str]:
    return [stored.key for stored in storage.list()]


def test_no_temporary_file_stays_or_is_listed(tmp_path: Path) -> None:
    storage = open_storage(str(tmp_path))
    storage.put("a/b", b"1")
    storage.put("a/b", b"2")
    storage.swap("a/b", b"3", "0")
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["b"]
    (tmp_path / "a" / ".curate-0123.tmp").write_bytes(b"left by a process that was killed")
    assert keys(storage) == ["a/b"]


def test_what_is_put_is_readable_as_the_umask_says(tmp_path: Path) -> None:
    open_storage(str(tmp_path)).put("a", b"x")
    (tmp_path / "b").write_bytes(b"x")
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == stat.S_IMODE((tmp_path / "b").stat().st_mode)


def test_the_tags_of_a_pointer_only_grow(tmp_path: Path) -> None:
    storage = open_storage(str(tmp_path))
    storage.put("pointer", b"0")
    later = os.stat(tmp_path / "pointer").st_mtime_ns + 10**15  # as if the clock had been set back since
    os.utime(tmp_path / "pointer", ns=(later, later))
    assert storage.swap("pointer", b"1", str(later))
    now = storage.stat("pointer")
    assert now is not None
    assert int(now.tag) > later


def test_swaps_wait_for_each_other(tmp_path: Path) -> None:
    storage = open_storage(str(tmp_path))
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        with disk.locked(str(tmp_path)):
            swap = pool.submit(storage.swap, "pointer", b"second", None)
            with pytest.raises(TimeoutError):
                swap.result(timeout=0.2)
            (tmp_path / "pointer").write_bytes(b"first")
        assert swap.result() is False
    assert storage.read("pointer") == b"first"


@pytest.mark.parametrize("refusal", [errno.EPERM, errno.ENOTSUP])
def test_a_file_system_without_links_will_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refusal: int) -> None:
    def no_link(source: str, target: str) -> None:
        raise OSError(refusal, os.strerror(refusal))

    monkeypatch.setattr(os, "link", no_link)
    storage = open_storage(str(tmp_path))
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        won = list(pool.map(lambda number: storage.put("a/b", str(number).encode()), range(8)))
    assert sum(won) == 1
    assert storage.read("a/b") == str(won.index(True)).encode()
    assert keys(storage) == ["a/b"]


def test_a_full_disk_is_named_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_space(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", no_space)
    with pytest.raises(StorageError, match=r"^cannot write .*/a: No space left on device$"):
        open_storage(str(tmp_path)).put("a", b"x")
    assert list(tmp_path.iterdir()) == []


def test_folders_where_objects_should_be(tmp_path: Path) -> None:
    storage = open_storage(str(tmp_path))
    storage.put("a/b", b"x")
    with pytest.raises(StorageError, match="Is a directory"):
        storage.put("a", b"x")
    with pytest.raises(StorageError, match="Not a directory"):
        storage.put("a/b/c", b"x")
    with pytest.raises(NotFound, match="it is not a file"):
        storage.read("a")
    assert storage.stat("a") is None


def test_links_are_followed_but_no_loops(tmp_path: Path) -> None:
    (tmp_path / "root" / "sub").mkdir(parents=True)
    (tmp_path / "root" / "sub" / "f").write_bytes(b"1")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "g").write_bytes(b"22")
    (tmp_path / "root" / "other").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "root" / "sub" / "up").symlink_to(tmp_path / "root")
    (tmp_path / "root" / "linked").symlink_to(tmp_path / "elsewhere" / "g")
    storage = open_storage(str(tmp_path / "root"))
    assert keys(storage) == ["linked", "other/g", "sub/f"]
    assert [s.size for s in storage.list("linked")] == [2]
    assert storage.read("other/g") == b"22"


def test_a_link_that_leads_nowhere_is_not_passed_over(tmp_path: Path) -> None:
    (tmp_path / "input.gz").symlink_to(tmp_path / "moved-away.gz")
    with pytest.raises(StorageError, match=r"^cannot list .*/input\.gz: a link that leads nowhere"):
        keys(open_storage(str(tmp_path)))


def test_a_name_that_is_not_utf8_is_refused_in_one_line(tmp_path: Path) -> None:
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9")).write_bytes(b"x")
    with pytest.raises(StorageError, match=r"caf\\udce9: the name is not UTF-8; rename it$"):
        keys(open_storage(str(tmp_path)))


def test_pipes_are_no_objects(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    storage = open_storage(str(tmp_path))
    assert keys(storage) == []
    assert storage.stat("pipe") is None
    with pytest.raises(NotFound, match="it is not a file"):
        storage.read("pipe")


def test_any_depth_is_listed(tmp_path: Path) -> None:
    here = os.open(tmp_path, os.O_RDONLY)
    for _ in range(1100):  # deeper than Python's recursion limit
        os.mkdir("d", dir_fd=here)
        below = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(os.open("f", os.O_CREAT | os.O_WRONLY, dir_fd=here))
    os.close(here)
    found = keys(open_storage(str(tmp_path)))
    subprocess.run(["rm", "-rf", tmp_path / "d"], check=True)  # too deep for pytest
    assert found == ["d/" * 1100 + "f"]


def test_a_file_changed_in_place_while_open_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"0123456789")
    with open_storage(str(tmp_path)).open("a") as file:
        assert file.read(5) == b"01234"
        (tmp_path / "a").write_bytes(b"0123")
        with pytest.raises(StorageError, match="changed since the plan was made"):
            file.read(5)
