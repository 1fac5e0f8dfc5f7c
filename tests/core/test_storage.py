"""One contract, kept by a local folder and by a real S3 server; then what is particular to S3."""

import concurrent.futures
import gzip
import io
import multiprocessing
import os
import pickle
import subprocess
import sys
import tarfile
from pathlib import Path

import boto3
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from botocore.config import Config

from curate.core.errors import PlanError, StorageError
from curate.core.stage import InputFile
from curate.core.storage import NotFound, Storage, Stored, open_storage

DATA = bytes(range(256)) * 4


@pytest.fixture
def storage(output_url: str) -> Storage:
    return open_storage(output_url)


def place(url: str, key: str, data: bytes) -> None:
    """Put a user's input under any key, not through our code."""
    if url.startswith("s3://"):
        bucket, _, prefix = url.removeprefix("s3://").partition("/")
        client = boto3.client("s3", config=Config(s3={"addressing_style": "path"}))
        client.put_object(Bucket=bucket, Key=f"{prefix}/{key}", Body=data)
    else:
        path = Path(url, key)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def keys(storage: Storage, prefix: str = "") -> list[str]:
    return [stored.key for stored in storage.list(prefix)]


# Writing


def test_put_stores_once_and_never_overwrites(storage: Storage) -> None:
    assert storage.put("a/b", b"first") is True
    assert storage.put("a/b", b"second") is False
    assert storage.put("a/b", b"first") is False
    assert storage.read("a/b") == b"first"


@pytest.mark.parametrize("data", [b"", memoryview(DATA)[3:700], b"x" * (1 << 20)])
def test_put_stores_exactly_the_bytes(storage: Storage, data: bytes | memoryview) -> None:
    assert storage.put("data", data)
    assert storage.read("data") == bytes(data)
    stored = storage.stat("data")
    assert stored is not None
    assert stored.size == len(data)


def test_one_of_racing_puts_wins_and_its_bytes_stay(storage: Storage) -> None:
    bodies = [str(n).encode() * 1000 for n in range(4)]
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        won = list(pool.map(lambda body: storage.put("race", body), bodies))
    assert sorted(won) == [False, False, False, True]
    assert storage.read("race") == bodies[won.index(True)]


def test_swap_replaces_only_what_is_expected(storage: Storage) -> None:
    assert storage.swap("pointer", b"0", "no-such-tag") is False
    assert storage.stat("pointer") is None
    assert storage.swap("pointer", b"1", None) is True
    assert storage.swap("pointer", b"1", None) is False
    first = storage.stat("pointer")
    assert first is not None
    assert storage.swap("pointer", b"2", first.tag) is True
    assert storage.swap("pointer", b"3", first.tag) is False
    assert storage.read("pointer") == b"2"


def test_every_step_of_a_contended_counter_counts(storage: Storage) -> None:
    storage.put("counter", b"0")

    def count() -> None:
        while True:
            now = storage.stat("counter")
            assert now is not None
            with storage.open("counter", now.size, now.tag) as file:
                try:
                    value = int(file.read())
                except StorageError:  # another step came between
                    continue
            if storage.swap("counter", str(value + 1).encode(), now.tag):
                return

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for done in [pool.submit(count) for _ in range(6)]:
            done.result()
    assert storage.read("counter") == b"6"


def test_delete_removes_and_does_not_mind_absence(storage: Storage) -> None:
    storage.put("a/b", b"x")
    storage.delete("a/b")
    storage.delete("a/b")
    storage.delete("never/was")
    assert storage.stat("a/b") is None
    assert storage.put("a/b", b"y")


@pytest.mark.parametrize(
    "key",
    ["", "/a", "a/", "a//b", ".", "a/../b", "../a", "a/./b", "a b", "a%2Fb", "a\\b", "\u00e9", "a\n", ".curate-x"],
)
def test_keys_to_write_are_of_a_small_alphabet(storage: Storage, key: str) -> None:
    with pytest.raises(StorageError, match=r"^not a key to write: .*; want "):
        storage.put(key, b"x")
    with pytest.raises(StorageError, match=r"^not a key to write: .*; want "):
        storage.swap(key, b"x", None)


def test_all_of_the_alphabet_can_be_written(storage: Storage) -> None:
    key = "ABCxyz019/._=-/..._/.hidden/rows-00000.ab"
    assert storage.put(key, b"x")
    assert keys(storage) == [key]
    assert storage.read(key) == b"x"


# Reading


@pytest.mark.parametrize(
    ("offset", "length", "expected"),
    [
        (0, None, DATA),
        (5, None, DATA[5:]),
        (0, 10, DATA[:10]),
        (1000, 24, DATA[1000:]),
        (1000, 25, DATA[1000:]),
        (1023, 1, DATA[1023:]),
        (1024, 1, b""),
        (9999, None, b""),
        (0, 0, b""),
    ],
)
def test_read_gives_the_range_cut_at_the_end(
    storage: Storage, offset: int, length: int | None, expected: bytes
) -> None:
    storage.put("data", DATA)
    assert storage.read("data", offset, length) == expected


def test_what_is_absent_is_not_found(storage: Storage) -> None:
    assert storage.stat("absent") is None
    assert storage.stat("absent/below") is None
    for length in (None, 0, 5):
        with pytest.raises(NotFound, match=r"^cannot read .*absent: it does not exist"):
            storage.read("absent", 0, length)
    with pytest.raises(NotFound):
        storage.open("absent")
    with pytest.raises(NotFound):
        storage.open("absent", 3, "tag").read()
    assert keys(storage) == []


@pytest.mark.parametrize("key", ["..", "../a", "a/../../b", ""])
def test_keys_to_read_do_not_leave_the_root(storage: Storage, key: str) -> None:
    for read in (storage.read, storage.stat, storage.open, storage.delete):
        with pytest.raises(StorageError, match=r"^not a key below "):
            read(key)


@pytest.mark.parametrize("key", ["with space/a+b", "100%25.gz", "caf\u00e9/\u4e2d\u6587.xml", "#1?x=&y", "quo'te\"s"])
def test_keys_of_inputs_may_hold_anything(storage: Storage, output_url: str, key: str) -> None:
    place(output_url, key, b"content")
    assert keys(storage) == [key]
    assert storage.read(key) == b"content"
    stored = storage.stat(key)
    assert stored is not None
    with storage.open(key, stored.size, stored.tag) as file:
        assert file.read() == b"content"


def test_list_gives_every_object_in_order_of_code_points(storage: Storage) -> None:
    names = ["t-v2/x", "t/x", "t/y/z", "t.x", "t0", "T", "t/a.b", "t/a/b", "t/a-b", "s"]
    for name in names:
        storage.put(name, name.encode())
    assert keys(storage) == sorted(names)
    assert {s.key: s.size for s in storage.list()} == {name: len(name) for name in names}
    assert all(storage.stat(stored.key) == stored for stored in storage.list())


@pytest.mark.parametrize(
    ("prefix", "expected"),
    [
        ("t", ["t-v2/x", "t.x", "t/a/b", "t/xy"]),
        ("t/", ["t/a/b", "t/xy"]),
        ("t/x", ["t/xy"]),
        ("t/a/", ["t/a/b"]),
        ("t/xy", ["t/xy"]),
        ("t/xy/", []),
        ("none/here", []),
    ],
)
def test_list_takes_a_prefix_that_need_not_end_at_a_folder(storage: Storage, prefix: str, expected: list[str]) -> None:
    for name in ("s", "t-v2/x", "t.x", "t/a/b", "t/xy"):
        storage.put(name, b"")
    assert keys(storage, prefix) == expected


def test_list_does_not_end_at_a_page(s3_url: str) -> None:
    storage = open_storage(s3_url)
    names = [f"n/{number:04}" for number in range(1005)]  # pages of S3 hold 1,000
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda name: storage.put(name, b""), names))
    assert keys(storage, "n/") == names


# Files


def test_a_file_reads_by_range_and_by_position(storage: Storage) -> None:
    storage.put("data", DATA)
    with storage.open("data") as file:
        source: InputFile = file
        assert source.size == len(DATA)
        assert source.read_range(10, 5) == DATA[10:15]
        assert source.read_range(1020, 50) == DATA[1020:]
        assert source.read_range(5000, 5) == b""
        assert source.tell() == 0
        assert file.read(3) == DATA[:3]
        assert file.seek(-4, io.SEEK_END) == 1020
        assert file.read(100) == DATA[1020:]
        assert file.read(1) == b""
        assert file.seek(2000) == 2000
        assert file.read() == b""
        file.seek(1)
        buffer = bytearray(4)
        assert file.readinto(buffer) == 4
        assert file.seek(5, io.SEEK_CUR) == 10
        assert file.readall() == DATA[10:]
        assert bytes(buffer) == DATA[1:5]
        for bad in ((-1, 5), (5, -1)):
            with pytest.raises(ValueError, match="negative"):
                file.read_range(*bad)
    with pytest.raises(ValueError, match="closed"):
        file.read_range(0, 1)


def test_a_large_file_read_in_any_pattern_is_exact(storage: Storage) -> None:
    data = os.urandom(12 << 20)  # more than one block of read-ahead
    storage.put("large", data)
    (planned,) = storage.list("large")
    with storage.open("large", planned.size, planned.tag) as file:
        middle, end = 5 << 20, 12 << 20
        for offset, length in [(middle, 10), (0, 7), (middle - 3, 9), (1, 9 << 20), (end - 2, 9), (3, 1 << 19)]:
            assert file.read_range(offset, length) == data[offset : offset + length]
        parts = []
        while part := file.read(700_001):
            parts.append(part)
    assert b"".join(parts) == data


def test_parquet_gzip_tar_and_zstandard_read_it(storage: Storage) -> None:
    table = pa.table({"n": list(range(1000))})
    parquet, tar = io.BytesIO(), io.BytesIO()
    pq.write_table(table, parquet)
    with tarfile.open(fileobj=tar, mode="w:gz") as archive:
        member = tarfile.TarInfo("a.xml")
        member.size = len(DATA)
        archive.addfile(member, io.BytesIO(DATA))
    storage.put("t.parquet", parquet.getvalue())
    storage.put("t.gz", gzip.compress(DATA) + gzip.compress(DATA))
    storage.put("t.tar.gz", tar.getvalue())
    storage.put("t.zst", zstandard.compress(DATA))
    assert pq.read_table(storage.open("t.parquet")).equals(table)
    with storage.open("t.gz") as file, gzip.GzipFile(fileobj=io.BufferedReader(file)) as stream:
        assert stream.read() == DATA * 2
    with storage.open("t.tar.gz") as file, tarfile.open(fileobj=io.BufferedReader(file)) as archive:
        extracted = archive.extractfile("a.xml")
        assert extracted is not None
        assert extracted.read() == DATA
    with storage.open("t.zst") as file, zstandard.ZstdDecompressor().stream_reader(io.BufferedReader(file)) as reader:
        assert reader.read() == DATA


def changed_to(url: str, data: bytes) -> Stored:
    """A planned object that was overwritten since."""
    place(url, "input", b"as planned")
    planned = open_storage(url).stat("input")
    assert planned is not None
    place(url, "input", data)
    if not url.startswith("s3://"):
        os.utime(Path(url, "input"), ns=(1, int(planned.tag) + 1))  # a clock of the file system may be coarse
    return planned


@pytest.mark.parametrize("data", [b"as PLANNED", b"as planned, and more", b""])
def test_an_input_that_changed_since_the_plan_is_refused(storage: Storage, output_url: str, data: bytes) -> None:
    planned = changed_to(output_url, data)
    with pytest.raises(StorageError, match=r"input changed since the plan was made: planned 10 bytes, .*; restore it"):
        storage.open("input", planned.size, planned.tag).read()


def test_an_input_that_was_empty_is_pinned_too(storage: Storage, output_url: str) -> None:
    place(output_url, "input", b"")
    empty = storage.stat("input")
    assert empty is not None
    assert storage.open("input", 0, empty.tag).read() == b""
    place(output_url, "input", b"no longer empty")
    with pytest.raises(StorageError, match="input changed since the plan was made"):
        storage.open("input", 0, empty.tag)


# Values and processes


def read_in_child(pickled: bytes, key: str) -> bytes:
    storage: Storage = pickle.loads(pickled)
    return storage.read(key)


@pytest.mark.parametrize("method", ["spawn", "fork"])
def test_a_storage_goes_to_other_processes(storage: Storage, method: str) -> None:
    bodies = {f"k{number}": str(number).encode() * 1000 for number in range(20)}
    for key, body in bodies.items():
        storage.put(key, body)  # makes a client, whose connections no child may use (botocore#1246)
    with multiprocessing.get_context(method).Pool(2) as pool:
        got = pool.starmap(read_in_child, [(pickle.dumps(storage), key) for key in bodies])
    assert got == list(bodies.values())


def test_storage_loads_neither_boto3_nor_arrow() -> None:
    code = "import sys, curate.core.storage as s; s.open_storage('x'); print({'boto3', 'pyarrow'} & {*sys.modules})"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout == "set()\n"


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("gs://bucket/x", "unknown kind of storage: 'gs://'; want a local folder or s3://bucket/prefix"),
        ("", "not a folder: ''; want a local folder or s3://bucket/prefix"),
        ("s3://", "not an S3 URL: 's3://'; want s3://bucket/prefix"),
        ("s3://bucket/a/../b", "not an S3 URL: 's3://bucket/a/../b'; want s3://bucket/prefix"),
        ("s3://key:secret@bucket/a", "not an S3 URL: 'bucket/a'; want s3://bucket/prefix"),
    ],
)
def test_a_bad_url_is_a_plan_error(url: str, message: str) -> None:
    with pytest.raises(PlanError) as caught:
        open_storage(url)
    assert str(caught.value) == message


def test_a_relative_folder_stays_the_same_after_chdir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    storage = open_storage("here")
    monkeypatch.chdir("/")
    storage.put("a", b"x")
    assert (tmp_path / "here" / "a").read_bytes() == b"x"


# A real S3 server


def test_a_missing_bucket_is_named(s3_url: str) -> None:
    storage = open_storage("s3://no-such-bucket/x")
    for action in (
        lambda: storage.put("a", b"x"),
        lambda: storage.read("a"),
        lambda: storage.stat("a"),
        lambda: keys(storage),
        lambda: storage.swap("a", b"x", None),
        lambda: storage.delete("a"),
    ):
        with pytest.raises(StorageError, match=r"^cannot .* s3://no-such-bucket/x/a?: the bucket does not") as caught:
            action()
        assert not isinstance(caught.value, NotFound)


@pytest.mark.parametrize(
    ("name", "meaning"),
    [
        ("AWS_ACCESS_KEY_ID", "the server does not know this access key"),
        ("AWS_SECRET_ACCESS_KEY", "the secret key does not fit the access key"),
    ],
)
def test_wrong_credentials_are_named_but_not_shown(
    s3_url: str, monkeypatch: pytest.MonkeyPatch, name: str, meaning: str
) -> None:
    monkeypatch.setenv(name, "canary-0123456789")
    with pytest.raises(StorageError, match=meaning) as caught:
        open_storage(s3_url).put("a", b"x")
    assert "canary" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_missing_credentials_are_named(s3_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    with pytest.raises(StorageError, match=r"no usable credentials .*; set AWS_PROFILE or"):
        open_storage(s3_url).read("a")


def test_an_object_too_large_for_one_put_is_refused(s3_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("curate.core.s3.MAX_PUT_BYTES", 10)
    storage = open_storage(s3_url)
    assert storage.put("ten", b"0123456789")
    with pytest.raises(StorageError, match="11 bytes, more than 10"):
        storage.put("eleven", b"0123456789a")
