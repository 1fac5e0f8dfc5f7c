"""S3 and servers that speak its protocol. The only module that imports boto3.

Endpoint, region and credentials come from boto3's usual chain (AWS_ENDPOINT_URL, AWS_PROFILE, roles).
No message repeats what a server said in words, since that can hold parts of credentials.
"""

import base64
import enum
import functools
import hashlib
import os
import random
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import boto3
from botocore import exceptions as boto
from botocore.config import Config

from curate.core.errors import PlanError, StorageError, one_line
from curate.core.storage import NotFound, ObjectFile, Storage, Stored, changed, check_key

MAX_PUT_BYTES = 5 << 30  # of one PutObject
MAX_ATTEMPTS = 8  # of a request, of a body, and of a write that conflicts with another
CONNECT_TIMEOUT_SECONDS = 10.0
READ_TIMEOUT_SECONDS = 60.0
MAX_DELAY_SECONDS = 20.0  # of our own back-off; boto's is the same
MIN_BLOCK_BYTES = 256 << 10  # of a first read-ahead: a look at a footer or one record stays cheap
MAX_BLOCK_BYTES = 8 << 20  # reached by doubling while reading goes on in sequence
NUM_BLOCKS = 2  # kept per file

_URL = re.compile(r"s3://([A-Za-z0-9][A-Za-z0-9._-]+)(?:/(.*))?", re.DOTALL)
_NO_ANSWER = (boto.ConnectionError, boto.HTTPClientError)
_BODY_CUT = (*_NO_ANSWER, boto.IncompleteReadError, boto.FlexibleChecksumError)
_NO_CREDENTIALS = (
    boto.NoCredentialsError,
    boto.PartialCredentialsError,
    boto.CredentialRetrievalError,
    boto.TokenRetrievalError,
    boto.NoAuthTokenError,
    boto.SSOError,
    boto.ProfileNotFound,
)
_THROTTLED = frozenset({"SlowDown", "RequestTimeout", "Throttling", "ThrottlingException", "RequestLimitExceeded"})
_MEANING = {
    "NoSuchBucket": "the bucket does not exist",
    "NoSuchKey": "it does not exist",
    "AccessDenied": "access denied; check what these credentials may do",
    "403": "access denied; check what these credentials may do",  # an answer to HEAD has no body to say more
    "InvalidAccessKeyId": "the server does not know this access key",
    "SignatureDoesNotMatch": "the secret key does not fit the access key",
    "ExpiredToken": "the credentials have expired",
    "InvalidToken": "the session token is not valid",
    "RequestTimeTooSkewed": "the clock of this machine is wrong",
    "InvalidObjectState": "the object is archived; restore it first",
    "NotImplemented": "this server has no conditional writes, which are needed",
    "BadDigest": "the data were damaged on the way",
    "InvalidDigest": "the data were damaged on the way",
    "PermanentRedirect": "the bucket is in another region; set AWS_REGION",
}


class NoAnswerError(StorageError):
    """The server gave no final answer: a write may or may not have happened."""


class _Write(enum.Enum):
    DONE = enum.auto()
    REFUSED = enum.auto()  # the condition did not hold
    UNCLEAR = enum.auto()  # the condition did not hold at a second try: the first may have been ours


class _Body(NamedTuple):
    data: bytes
    size: int  # of the whole object
    tag: str


@dataclass(frozen=True)
class S3Storage(Storage):
    """Objects of one bucket whose keys start with `base`."""

    url: str
    bucket: str
    base: str  # "" or a prefix that ends with "/"

    @classmethod
    def at(cls, url: str) -> "S3Storage":
        """The storage at `s3://bucket/prefix`. Raises PlanError."""
        match = _URL.fullmatch(url)
        prefix = (match[2] or "").strip("/") if match else ".."
        if match is None or not {".", ".."}.isdisjoint(prefix.split("/")):
            shown = url.rpartition("@")[2]  # what stands before may be a secret
            raise PlanError(f"not an S3 URL: {shown!r}; want s3://bucket/prefix")
        return cls(url, match[1], f"{prefix}/" if prefix else "")

    def list(self, prefix: str = "") -> Iterator[Stored]:
        """See `Storage.list`. All pages are read first: not every server sorts by byte. Leaves out folder markers."""
        pages = _client().get_paginator("list_objects_v2")
        found = []
        try:
            for page in pages.paginate(Bucket=self.bucket, Prefix=self.base + prefix):
                for item in page.get("Contents", ()):
                    if item["Size"] or not item["Key"].endswith("/"):
                        found.append(Stored(item["Key"][len(self.base) :], item["Size"], _tag(item), _modified(item)))
        except (boto.ClientError, boto.BotoCoreError) as error:
            raise self._failure("list", prefix, error) from None
        found.sort(key=lambda stored: stored.key)
        return iter(found)

    def stat(self, key: str) -> Stored | None:
        """See `Storage.stat`."""
        try:
            head = _client().head_object(Bucket=self.bucket, Key=self._key(key))
        except (boto.ClientError, boto.BotoCoreError) as error:
            if _status(error) != 404:
                raise self._failure("look at", key, error) from None
        else:
            return Stored(key, head["ContentLength"], _tag(head), _modified(head))
        self._require_bucket(key)
        return None

    def read(self, key: str, offset: int = 0, length: int | None = None) -> bytes:
        """See `Storage.read`; a body that is cut short is asked for again."""
        if length == 0:  # a range of S3 cannot be empty
            if self.stat(key) is None:
                raise NotFound(f"cannot read {self.place(key)}: it does not exist")
            return b""
        body = self.get(key, offset, length)
        return body.data if body else b""

    def open(self, key: str, size: int | None = None, tag: str | None = None) -> ObjectFile:
        """See `Storage.open`. With size and tag given, a change is noticed at the first read."""
        if size is None or tag is None or size == 0:  # of an empty object nothing will be read
            now = self.stat(key)
            if now is None:
                raise NotFound(f"cannot read {self.place(key)}: it does not exist")
            planned = Stored(key, now.size if size is None else size, now.tag if tag is None else tag)
            self.check(planned, now.size, now.tag)
            size, tag = planned.size, planned.tag
        return S3File(self, Stored(key, size, tag))

    def put(self, key: str, data: bytes | memoryview) -> bool:
        """See `Storage.put`; one PutObject with If-None-Match and SHA-256."""
        try:
            return self._write(key, data, IfNoneMatch="*") is _Write.DONE
        except NoAnswerError:
            if self.stat(key) is None:
                raise
            return False

    def swap(self, key: str, data: bytes, expected: str | None) -> bool:
        """See `Storage.swap`; where the answer was lost, what is stored now decides."""
        condition = {"IfNoneMatch": "*"} if expected is None else {"IfMatch": expected}  # RGW wants it without quotes
        try:
            outcome = self._write(key, data, **condition)
        except NoAnswerError:
            if self._holds(key, data):
                return True
            raise
        return outcome is _Write.DONE or (outcome is _Write.UNCLEAR and self._holds(key, data))

    def delete(self, key: str) -> None:
        """See `Storage.delete`."""
        try:
            _client().delete_object(Bucket=self.bucket, Key=self._key(key))
        except (boto.ClientError, boto.BotoCoreError) as error:
            if _code(error) != "NoSuchKey":
                raise self._failure("delete", key, error) from None

    def get(self, key: str, offset: int, length: int | None) -> _Body | None:
        """The bytes [offset, offset + length) with the size and tag of the object; None if it ends before `offset`."""
        request = {"Bucket": self.bucket, "Key": self._key(key)}
        if offset or length is not None:
            request["Range"] = f"bytes={offset}-" + ("" if length is None else str(offset + length - 1))
        for attempt in range(MAX_ATTEMPTS):
            try:
                response = _client().get_object(**request)
            except (boto.ClientError, boto.BotoCoreError) as error:
                if _status(error) == 416:
                    return None
                raise self._failure("read", key, error) from None
            try:
                return self._receive(key, response, offset, length)
            except _BODY_CUT as error:
                failure = self._failure("read", key, error)
            _pause(attempt)
        raise failure

    def check(self, planned: Stored, size: int, tag: str) -> None:
        """Raise StorageError unless the object still has the planned size and tag."""
        if (size, tag) != (planned.size, planned.tag):
            raise changed(
                self.place(planned.key), f"{planned.size} bytes, ETag {planned.tag}", f"{size} bytes, ETag {tag}"
            )

    def _receive(self, key: str, response: Any, offset: int, length: int | None) -> _Body:
        data = response["Body"].read()
        size = len(data)
        if offset or length is not None:
            first, _, size_text = response.get("ContentRange", "").removeprefix("bytes ").partition("/")
            if not first.startswith(f"{offset}-") or not size_text.isdecimal():
                raise StorageError(f"cannot read {self.place(key)}: the server does not honor ranges")
            size = int(size_text)
        wanted = size - offset if length is None else min(length, size - offset)
        if len(data) != wanted:
            raise boto.IncompleteReadError(actual_bytes=len(data), expected_bytes=wanted)
        return _Body(data, size, _tag(response))

    def _write(self, key: str, data: bytes | memoryview, **condition: str) -> _Write:
        body = bytes(data)
        if len(body) > MAX_PUT_BYTES:
            raise StorageError(f"cannot write {self.place(key)}: {len(body)} bytes, more than {MAX_PUT_BYTES}")
        request = {
            "Bucket": self.bucket,
            "Key": self._key(check_key(key)),
            "Body": body,
            "ChecksumSHA256": base64.b64encode(hashlib.sha256(body).digest()).decode(),
            **condition,
        }
        for attempt in range(MAX_ATTEMPTS):
            try:
                _client().put_object(**request)
                return _Write.DONE
            except (boto.ClientError, boto.BotoCoreError) as error:
                if _status(error) == 412 or _code(error) == "NoSuchKey":
                    return _Write.UNCLEAR if attempt or _num_retries(error) else _Write.REFUSED
                failure = self._failure("write", key, error)
                if _status(error) != 409:
                    raise failure from None
            _pause(attempt)  # another request is writing this very key
        raise failure

    def _holds(self, key: str, data: bytes) -> bool:
        try:
            return self.read(key) == data
        except NotFound:
            return False

    def _require_bucket(self, key: str) -> None:
        """Tell a missing bucket from a missing key, which an answer to HEAD does not."""
        try:
            _see_bucket(_client(), self.bucket)
        except (boto.ClientError, boto.BotoCoreError) as error:
            if _status(error) == 404:
                raise StorageError(f"cannot look at {self.place(key)}: the bucket does not exist") from None
            if _status(error) != 403:  # 403: there is one, but it cannot be listed
                raise self._failure("look at", key, error) from None

    def _key(self, key: str) -> str:
        if not key or ".." in key.split("/"):
            raise StorageError(f"not a key below {one_line(self.url)}: {key!r}")
        return self.base + key

    def place(self, key: str) -> str:
        """The whole URL of `key`, for messages."""
        return one_line(f"s3://{self.bucket}/{self.base}{key}")

    def _failure(self, action: str, key: str, error: Exception) -> StorageError:
        kind = StorageError
        if _code(error) == "NoSuchKey":
            kind = NotFound
        elif isinstance(error, _BODY_CUT) or _status(error) >= 500 or _code(error) in _THROTTLED:
            kind = NoAnswerError
        return kind(f"cannot {action} {self.place(key)}: {_explain(error)}")


class S3File(ObjectFile):
    """One version of an object, read by ranges ahead of what is asked."""

    def __init__(self, storage: S3Storage, planned: Stored) -> None:
        super().__init__(planned.size)
        self._storage = storage
        self._planned = planned
        self._blocks: tuple[tuple[int, bytes], ...] = ()  # (offset, data), newest first
        self._block_bytes = MIN_BLOCK_BYTES
        self._end = -1  # of the newest block

    def _fetch(self, offset: int, length: int) -> bytes:
        parts = []
        while length:
            start, block = self._find(offset) or self._load(offset, length)
            part = block[offset - start : offset - start + length]
            parts.append(part)
            offset, length = offset + len(part), length - len(part)
        return b"".join(parts)

    def _find(self, offset: int) -> tuple[int, bytes] | None:
        return next((block for block in self._blocks if block[0] <= offset < block[0] + len(block[1])), None)

    def _load(self, offset: int, length: int) -> tuple[int, bytes]:
        in_sequence = offset == self._end
        self._block_bytes = min(2 * self._block_bytes, MAX_BLOCK_BYTES) if in_sequence else MIN_BLOCK_BYTES
        wanted = min(max(length, self._block_bytes), self.size - offset)
        body = self._storage.get(self._planned.key, offset, wanted)
        if body is None:
            raise changed(self._storage.place(self._planned.key), f"{self.size} bytes", f"at most {offset}")
        self._storage.check(self._planned, body.size, body.tag)
        self._end = offset + wanted
        block = (offset, body.data)
        if wanted <= MAX_BLOCK_BYTES:
            self._blocks = (block, *self._blocks)[:NUM_BLOCKS]
        return block


def _client() -> Any:
    """The client of this process (clients do not survive a fork) for the AWS settings of its environment."""
    return _new_client(os.getpid(), tuple(item for item in os.environ.items() if item[0].startswith("AWS_")))


@functools.lru_cache(maxsize=4)
def _new_client(process: int, settings: tuple[tuple[str, str], ...]) -> Any:
    """A client; the arguments are what it is remembered by."""
    config = Config(
        retries={"mode": "standard", "total_max_attempts": MAX_ATTEMPTS},
        connect_timeout=CONNECT_TIMEOUT_SECONDS,
        read_timeout=READ_TIMEOUT_SECONDS,
        tcp_keepalive=True,
        max_pool_connections=32,
    )
    try:
        session = boto3.Session()  # the default session is not for several threads
        client = session.client("s3", config=config)
        if not re.search(r"\.amazonaws\.com(\.cn)?$", urlsplit(client.meta.endpoint_url).hostname or ""):
            client = session.client("s3", config=config.merge(Config(s3={"addressing_style": "path"})))
    except (boto.BotoCoreError, ValueError) as error:
        raise StorageError(f"cannot set up S3: {_explain(error)}") from None
    return client


@functools.lru_cache(maxsize=64)
def _see_bucket(client: Any, bucket: str) -> None:
    client.head_bucket(Bucket=bucket)


def _tag(answer: Any) -> str:
    return str(answer.get("ETag", "")).strip('"')


def _modified(answer: Any) -> float:
    moment = answer.get("LastModified")
    return float(moment.timestamp()) if moment else 0.0


def _status(error: Exception) -> int:
    """HTTP status of an answer, 0 where there was none."""
    answer = error.response if isinstance(error, boto.ClientError) else {}
    return int(answer.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))


def _code(error: Exception) -> str:
    return str(error.response.get("Error", {}).get("Code", "")) if isinstance(error, boto.ClientError) else ""


def _num_retries(error: Exception) -> int:
    answer = error.response if isinstance(error, boto.ClientError) else {}
    return int(answer.get("ResponseMetadata", {}).get("RetryAttempts", 0))


def _explain(error: Exception) -> str:
    """Why, in our own words."""
    name = type(error).__name__
    if isinstance(error, boto.ClientError):
        code = one_line(_code(error))
        return f"{_MEANING.get(code, 'the server refused')} ({code}, HTTP {_status(error)})"
    if isinstance(error, _NO_CREDENTIALS):
        return f"no usable credentials ({name}); set AWS_PROFILE or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
    if isinstance(error, _BODY_CUT):
        return f"the server did not answer in full ({name}); check the network, AWS_ENDPOINT_URL and AWS_REGION"
    return f"{name}; check the settings of AWS_ENDPOINT_URL and AWS_REGION"


def _pause(attempt: int) -> None:
    """Exponential back-off with full jitter."""
    time.sleep(random.uniform(0.0, min(MAX_DELAY_SECONDS, 0.1 * 2**attempt)))
