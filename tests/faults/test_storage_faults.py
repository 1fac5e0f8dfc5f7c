"""What S3 does on a bad day: lost answers, conflicts, cut bodies, throttling, refusals."""

import threading
from collections.abc import Iterator

import pytest

from curate.core.errors import StorageError
from curate.core.storage import Storage, open_storage
from tests.conftest import use_environment
from tests.faults.s3_stub import Fault, Moment, S3Stub, etag

SLOW_DOWN = Fault(method="PUT", status=503, code="SlowDown")
CONFLICT = Fault(method="PUT", status=409, code="ConditionalRequestConflict")
LOST_ANSWERS = [
    Fault(method="PUT", moment=Moment.AFTER, status=500, code="InternalError"),
    Fault(method="PUT", moment=Moment.AFTER, close=True),
    Fault(method="PUT", moment=Moment.AFTER, close=True, hang_seconds=2.0),
]
DATA = bytes(range(256)) * 4096  # 1 MiB


@pytest.fixture
def stub(monkeypatch: pytest.MonkeyPatch) -> Iterator[S3Stub]:
    """A server, and clients that wait little."""
    with S3Stub() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        use_environment(monkeypatch, server.environment)
        monkeypatch.setattr("botocore.retries.standard.ExponentialBackoff.delay_amount", lambda self, context: 0.001)
        monkeypatch.setattr("curate.core.s3.MAX_DELAY_SECONDS", 0.001)
        monkeypatch.setattr("curate.core.s3.READ_TIMEOUT_SECONDS", 0.5)
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def storage(stub: S3Stub) -> Storage:
    return open_storage("s3://bucket/p")


@pytest.mark.parametrize("lost", LOST_ANSWERS, ids=["500", "closed", "timeout"])
def test_a_put_whose_answer_was_lost_is_for_the_caller_to_compare(stub: S3Stub, storage: Storage, lost: Fault) -> None:
    stub.script = [lost]
    assert storage.put("a", b"mine") is False
    assert storage.read("a") == b"mine"
    assert stub.requests.count("PUT p/a") == 2


@pytest.mark.parametrize("fault", [SLOW_DOWN, Fault(method="PUT", close=True)], ids=["503", "closed"])
def test_a_put_that_never_got_an_answer_but_is_there(stub: S3Stub, storage: Storage, fault: Fault) -> None:
    stub.objects["p/a"] = b"mine"
    stub.script = [fault] * 8
    assert storage.put("a", b"mine") is False
    assert stub.requests == ["PUT p/a"] * 8 + ["HEAD p/a"]


@pytest.mark.parametrize("fault", [SLOW_DOWN, Fault(method="PUT", close=True)], ids=["503", "closed"])
def test_a_put_that_really_fails_says_so(stub: S3Stub, storage: Storage, fault: Fault) -> None:
    stub.script = [fault] * 8
    with pytest.raises(StorageError, match=r"^cannot write s3://bucket/p/a: the server .*"):
        storage.put("a", b"mine")
    assert stub.objects == {}


@pytest.mark.parametrize("fault", [SLOW_DOWN, CONFLICT, Fault(method="PUT", close=True)], ids=["503", "409", "closed"])
def test_a_put_is_tried_again_with_the_whole_body(stub: S3Stub, storage: Storage, fault: Fault) -> None:
    stub.script = [fault] * 4
    assert storage.put("a", memoryview(DATA)) is True
    assert stub.objects == {"p/a": DATA}


def test_endless_conflict_is_an_error(stub: S3Stub, storage: Storage) -> None:
    stub.script = [CONFLICT] * 100
    with pytest.raises(StorageError, match=r"cannot write .*ConditionalRequestConflict, HTTP 409"):
        storage.put("a", b"mine")


@pytest.mark.parametrize("there", [b"mine", b"other"])
@pytest.mark.parametrize("script", [[], [CONFLICT]], ids=["at once", "after a conflict"])
def test_what_exists_stays_and_is_reported(stub: S3Stub, storage: Storage, there: bytes, script: list[Fault]) -> None:
    stub.objects["p/a"] = there
    stub.script = script
    assert storage.put("a", b"mine") is False
    assert stub.objects == {"p/a": there}


@pytest.mark.parametrize("lost", LOST_ANSWERS, ids=["500", "closed", "timeout"])
@pytest.mark.parametrize("before", [None, b"old"])
def test_a_swap_whose_answer_was_lost_has_happened(
    stub: S3Stub, storage: Storage, lost: Fault, before: bytes | None
) -> None:
    if before is not None:
        stub.objects["p/a"] = before
    stub.script = [lost]
    assert storage.swap("a", b"new", None if before is None else etag(before).strip('"')) is True
    assert stub.objects == {"p/a": b"new"}


def test_a_swap_that_never_got_an_answer(stub: S3Stub, storage: Storage) -> None:
    stub.script = [Fault(method="PUT", moment=Moment.AFTER, close=True), *[SLOW_DOWN] * 7]
    assert storage.swap("a", b"new", None) is True
    stub.script = [SLOW_DOWN] * 8
    with pytest.raises(StorageError, match=r"^cannot write s3://bucket/p/a: .*SlowDown, HTTP 503"):
        storage.swap("a", b"newer", etag(b"new").strip('"'))
    assert stub.objects == {"p/a": b"new"}


def test_a_swap_lost_to_another_after_a_failed_try(stub: S3Stub, storage: Storage) -> None:
    stub.objects["p/a"] = b"theirs"
    stub.script = [SLOW_DOWN]
    assert storage.swap("a", b"new", etag(b"old").strip('"')) is False
    assert stub.objects == {"p/a": b"theirs"}


def test_a_swap_that_is_refused_at_once_is_refused_even_with_equal_bytes(stub: S3Stub, storage: Storage) -> None:
    stub.objects["p/a"] = b"new"
    assert storage.swap("a", b"new", None) is False


@pytest.mark.parametrize("cut", [0, 1, 700_000, len(DATA) - 1])
@pytest.mark.parametrize("offset", [0, 5])
def test_a_body_that_is_cut_short_is_asked_for_again(stub: S3Stub, storage: Storage, cut: int, offset: int) -> None:
    stub.objects["p/a"] = DATA
    stub.script = [Fault(method="GET", cut=min(cut, len(DATA) - offset - 1))] * 3
    assert storage.read("a", offset) == DATA[offset:]
    assert len(stub.requests) == 4


def test_a_body_that_is_always_cut_short_is_never_taken_as_whole(stub: S3Stub, storage: Storage) -> None:
    stub.objects["p/a"] = DATA
    stub.script = [Fault(method="GET", cut=1000)] * 100
    with pytest.raises(StorageError, match=r"^cannot read s3://bucket/p/a: the server did not answer in full"):
        storage.open("a", len(DATA), etag(DATA).strip('"')).read()


@pytest.mark.parametrize("offset", [0, 5])
def test_a_body_shorter_than_its_range_is_asked_for_again(stub: S3Stub, storage: Storage, offset: int) -> None:
    stub.objects["p/a"] = DATA
    stub.script = [Fault(method="GET", short=True)]
    assert storage.read("a", offset, 1000) == DATA[offset : offset + 1000]
    assert len(stub.requests) == 2


@pytest.mark.parametrize("damage", [Fault(method="GET", flip=True), Fault(method="GET", short=True)])
def test_a_body_that_its_checksum_belies_is_asked_for_again(stub: S3Stub, storage: Storage, damage: Fault) -> None:
    stub.objects["p/a"] = DATA
    stub.script = [damage]
    assert storage.read("a") == DATA
    assert len(stub.requests) == 2


def test_a_file_goes_on_where_its_body_was_cut(stub: S3Stub, storage: Storage) -> None:
    stub.objects["p/a"] = DATA
    with storage.open("a") as file:
        first = file.read(300_000)
        stub.script = [Fault(method="GET", cut=10), Fault(method="GET", close=True)]
        assert first + file.read() == DATA


def test_another_version_in_the_middle_of_a_file_is_refused(stub: S3Stub, storage: Storage) -> None:
    stub.objects["p/a"] = DATA
    with storage.open("a") as file:
        file.read(300_000)
        stub.objects["p/a"] = DATA[::-1]
        with pytest.raises(StorageError, match="changed since the plan was made"):
            file.read()


def test_an_input_that_shrank_is_refused(stub: S3Stub, storage: Storage) -> None:
    stub.objects["p/a"] = b"short"
    file = storage.open("a", len(DATA), etag(DATA).strip('"'))
    with pytest.raises(StorageError, match="changed since the plan was made"):
        file.read_range(1000, 10)


def test_a_server_without_ranges_is_refused(stub: S3Stub, storage: Storage) -> None:
    stub.objects["p/a"] = DATA
    stub.ranges = False
    with pytest.raises(StorageError, match="does not honor ranges"):
        storage.read("a", 5, 10)


def test_throttling_is_waited_for(stub: S3Stub, storage: Storage) -> None:
    stub.objects["p/a"] = DATA
    methods = ["HEAD"] * 4 + ["GET"] * 4 + ["DELETE"] * 4
    stub.script = [Fault(method=method, status=503, code="SlowDown") for method in methods]
    assert storage.stat("a") is not None
    assert storage.read("a") == DATA
    storage.delete("a")
    assert stub.script == []
    assert stub.objects == {}


@pytest.mark.parametrize(
    ("status", "code", "meaning"),
    [
        (403, "AccessDenied", "access denied; check what these credentials may do (AccessDenied, HTTP 403)"),
        (400, "ExpiredToken", "the credentials have expired (ExpiredToken, HTTP 400)"),
        (403, "RequestTimeTooSkewed", "the clock of this machine is wrong (RequestTimeTooSkewed, HTTP 403)"),
        (404, "NoSuchBucket", "the bucket does not exist (NoSuchBucket, HTTP 404)"),
        (501, "NotImplemented", "this server has no conditional writes, which are needed (NotImplemented, HTTP 501)"),
        (400, "Odd", "the server refused (Odd, HTTP 400)"),
    ],
)
def test_a_refusal_is_immediate_clear_and_without_secrets(
    stub: S3Stub, storage: Storage, status: int, code: str, meaning: str
) -> None:
    stub.script = [Fault(method="PUT", status=status, code=code)]
    with pytest.raises(StorageError) as caught:
        storage.put("a", b"x")
    assert str(caught.value) == f"cannot write s3://bucket/p/a: {meaning}"
    assert stub.requests.count("PUT p/a") == 1


def test_a_server_that_is_not_there_is_named(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://user:canary@127.0.0.1:9")
    with pytest.raises(StorageError, match=r"^cannot read s3://bucket/p/a: the server did not answer") as caught:
        storage.read("a")
    assert "canary" not in str(caught.value)
