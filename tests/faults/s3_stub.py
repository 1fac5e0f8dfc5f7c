"""A small S3 server on loopback that fails as its script says: what no real server does on demand.

It keeps objects in memory, honors If-None-Match, If-Match and ranges, and refuses a wrong SHA-256.
"""

import base64
import enum
import hashlib
import re
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Moment(enum.Enum):
    """When a fault strikes."""

    BEFORE = enum.auto()  # the request has no effect
    AFTER = enum.auto()  # the request has its effect, the answer is lost


@dataclass(frozen=True, kw_only=True)
class Fault:
    """What happens, once, to the next request with this method. One of `status`, `close`, `cut`, `short`, `flip`."""

    method: str
    moment: Moment = Moment.BEFORE
    status: int = 0
    code: str = ""
    close: bool = False  # the connection, without an answer
    hang_seconds: float = 0.0  # before closing
    cut: int = -1  # bytes of the body that are sent before the connection closes
    short: bool = False  # the body lacks its last byte, and Content-Length says so too
    flip: bool = False  # one bit of the body


class S3Stub(ThreadingHTTPServer):
    """The server; `script` is consumed from the front, `requests` lists what came ("METHOD key")."""

    daemon_threads = True
    block_on_close = False  # a hanging request must not delay the end of a test

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.objects: dict[str, bytes] = {}
        self.script: list[Fault] = []
        self.requests: list[str] = []
        self.ranges = True
        self.lock = threading.Lock()

    @property
    def environment(self) -> Mapping[str, str]:
        """What leads a client here."""
        return {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{self.server_address[1]}",
            "AWS_ACCESS_KEY_ID": "stub-access-key",
            "AWS_SECRET_ACCESS_KEY": "stub-secret-key",
            "AWS_DEFAULT_REGION": "us-east-1",
        }

    def next_fault(self, method: str) -> Fault | None:
        """The fault for a request, if it is its turn."""
        with self.lock:
            if self.script and self.script[0].method == method:
                return self.script.pop(0)
            return None

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that hang up are what the tests are about."""


def etag(data: bytes) -> str:
    """As S3 gives it for one PutObject, in quotes."""
    return f'"{hashlib.md5(data, usedforsecurity=False).hexdigest()}"'


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: S3Stub

    def do_PUT(self) -> None:
        data = self.rfile.read(int(self.headers["Content-Length"]))
        self._answer_with_faults(lambda: self._put(data))

    def do_GET(self) -> None:
        self._answer_with_faults(self._get)

    def do_HEAD(self) -> None:
        self._answer_with_faults(self._head)

    def do_DELETE(self) -> None:
        self._answer_with_faults(self._delete)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing on the terminal."""

    @property
    def _key(self) -> str:
        return self.path.partition("?")[0].lstrip("/").partition("/")[2]

    def _answer_with_faults(self, act: Any) -> None:
        self.server.requests.append(f"{self.command} {self._key}")
        fault = self.server.next_fault(self.command)
        if fault is None:
            self._send(*act())
        elif fault.cut >= 0 or fault.short or fault.flip:
            self._damage(fault, *act())
        else:
            if fault.moment is Moment.AFTER:
                act()
            if fault.close:
                threading.Event().wait(fault.hang_seconds)
                self.close_connection = True
            else:
                self._send(*_error(fault.status, fault.code))

    def _damage(self, fault: Fault, status: int, headers: Mapping[str, str], body: bytes) -> None:
        if fault.flip:
            body = bytes([body[0] ^ 1]) + body[1:]
        if fault.short:
            body = body[:-1]
        self._send(status, headers, body, len(body) if fault.cut < 0 else fault.cut)

    def _put(self, data: bytes) -> tuple[int, dict[str, str], bytes]:
        wanted = base64.b64decode(self.headers["x-amz-checksum-sha256"])
        if hashlib.sha256(data).digest() != wanted:
            return _error(400, "BadDigest")
        with self.server.lock:
            now = self.server.objects.get(self._key)
            match = self.headers["If-Match"]
            if match is not None and now is None:
                return _error(404, "NoSuchKey")
            if (self.headers["If-None-Match"] == "*" and now is not None) or (
                match is not None and now is not None and match.strip('"') != etag(now).strip('"')
            ):
                return _error(412, "PreconditionFailed")
            self.server.objects[self._key] = data
        return 200, {"ETag": etag(data)}, b""

    def _head(self) -> tuple[int, dict[str, str], bytes]:
        if not self._key:  # the bucket
            return 200, {}, b""
        status, headers, data = self._get()
        return status, {**headers, "Content-Length": str(len(data))}, b""

    def _get(self) -> tuple[int, dict[str, str], bytes]:
        data = self.server.objects.get(self._key)
        if data is None:
            return _error(404, "NoSuchKey")
        asked = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers["Range"] or "")
        if asked is None or not self.server.ranges:
            checksum = base64.b64encode(hashlib.sha256(data).digest()).decode()
            return 200, {"ETag": etag(data), "x-amz-checksum-sha256": checksum}, data
        first, last = int(asked[1]), min(int(asked[2] or len(data)), len(data) - 1)
        if first >= len(data):
            return _error(416, "InvalidRange")
        return 206, {"ETag": etag(data), "Content-Range": f"bytes {first}-{last}/{len(data)}"}, data[first : last + 1]

    def _delete(self) -> tuple[int, dict[str, str], bytes]:
        self.server.objects.pop(self._key, None)
        return 204, {}, b""

    def _send(self, status: int, headers: Mapping[str, str], body: bytes, num_sent: int | None = None) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body[:num_sent])
        if num_sent is not None and num_sent < len(body):
            self.close_connection = True


def _error(status: int, code: str) -> tuple[int, dict[str, str], bytes]:
    # Servers do repeat parts of the request, keys among them, in their messages.
    message = "not so; you sent stub-access-key and stub-secret-key"
    body = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>{message}</Message></Error>"
    return status, {"Content-Type": "application/xml"}, body.encode()
