"""Local folders and S3 behind one interface: bytes under keys, written once, never overwritten by `put`.

Imports with the standard library alone; `curate.core.s3`, and with it boto3, is imported when an
s3:// URL is opened. A `Storage` is a value that can be pickled and sent to another process.
"""

import abc
import contextlib
import errno
import io
import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from curate.core import disk
from curate.core.errors import PlanError, StorageError, one_line

_KEY = re.compile(r"[A-Za-z0-9._=-]+(/[A-Za-z0-9._=-]+)*")


class NotFound(StorageError):  # noqa: N818 - read as a word: `except NotFound`
    """No object has this key."""


@dataclass(frozen=True)
class Stored:
    """One stored object."""

    key: str  # below the storage's url
    size: int  # bytes
    tag: str  # changes with the content: ETag without quotes (S3) or mtime_ns in decimal (local)
    modified: float = field(default=0.0, compare=False)  # seconds since 1970 by the storage's clock; for people


class ObjectFile(io.RawIOBase):
    """Random access to one object, pinned to the version that was opened; a seekable binary file."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self._size = size
        self._position = 0

    @abc.abstractmethod
    def _fetch(self, offset: int, length: int) -> bytes:
        """Exactly `length` bytes; the range lies inside the object. Raises StorageError."""

    @property
    def size(self) -> int:
        """Bytes."""
        return self._size

    def read_range(self, offset: int, length: int) -> bytes:
        """The bytes [offset, offset + length), fewer only at the end. Neither uses nor moves the position.

        Raises StorageError when the object has changed since it was opened (or planned).
        """
        if self.closed:
            raise ValueError("read of a closed file")
        if offset < 0 or length < 0:
            raise ValueError(f"negative offset or length: {offset}, {length}")
        length = min(length, self._size - offset)
        return self._fetch(offset, length) if length > 0 else b""

    def read(self, size: int | None = -1, /) -> bytes:
        """The next `size` bytes, fewer only at the end; all that is left if negative or None."""
        left = max(0, self._size - self._position)
        data = self.read_range(self._position, left if size is None or size < 0 else size)
        self._position += len(data)
        return data

    def readall(self) -> bytes:
        """All bytes from the position on."""
        return self.read()

    def readinto(self, buffer: Any, /) -> int:
        """Fill `buffer` (writable, of bytes) as far as the object reaches; the number of bytes."""
        view = memoryview(buffer).cast("B")
        data = self.read(len(view))
        view[: len(data)] = data
        return len(data)

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        """Move the position, also beyond the end."""
        if self.closed:
            raise ValueError("seek in a closed file")
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._size}[whence]
        if base + offset < 0:
            raise ValueError(f"position before the start: {base + offset}")
        self._position = base + offset
        return self._position

    def tell(self) -> int:
        """The position."""
        return self._position

    def readable(self) -> bool:
        """True."""
        return True

    def seekable(self) -> bool:
        """True."""
        return True


class Storage(abc.ABC):
    """Objects below one URL. Every failure is a StorageError of one line."""

    url: str

    @abc.abstractmethod
    def list(self, prefix: str = "") -> Iterator[Stored]:
        """All objects whose key starts with `prefix` (any string), in order of their code points."""

    def list_temporary(self) -> Iterator[Stored]:
        """Files that writes left behind which were cut short, or that are being written; `list` hides them."""
        return iter(())

    @abc.abstractmethod
    def stat(self, key: str) -> Stored | None:
        """What is stored under `key`, or None."""

    @abc.abstractmethod
    def read(self, key: str, offset: int = 0, length: int | None = None) -> bytes:
        """The bytes [offset, offset + length), fewer only at the end of the object. Raises NotFound."""

    @abc.abstractmethod
    def open(self, key: str, size: int | None = None, tag: str | None = None) -> ObjectFile:
        """The object as a file, pinned to the version with this size and tag (default: what is there).

        Raises StorageError, here or when it is read, if the key holds another version. Raises NotFound.
        """

    @abc.abstractmethod
    def put(self, key: str, data: bytes | memoryview) -> bool:
        """Store `data` unless the key exists. True: stored by this call, durably.

        False: something is there, perhaps our own bytes from an attempt that got no answer; compare.
        """

    @abc.abstractmethod
    def swap(self, key: str, data: bytes, expected: str | None) -> bool:
        """Replace the object whose tag is `expected` (None: store if absent); False if it is not."""

    @abc.abstractmethod
    def delete(self, key: str) -> None:
        """Remove the object; it may be absent."""


def open_storage(url: str) -> Storage:
    """The storage at `s3://bucket/prefix` or in a local folder, which need not exist. Asks nothing of the storage.

    Raises PlanError for other URLs.
    """
    scheme, is_url, _ = url.partition("://")
    if not is_url:
        if not url or "\0" in url:
            raise PlanError(f"not a folder: {url!r}; want a local folder or s3://bucket/prefix")
        return LocalStorage(os.path.abspath(url))
    if scheme != "s3":
        raise PlanError(f"unknown kind of storage: {scheme + '://'!r}; want a local folder or s3://bucket/prefix")
    try:
        from curate.core.s3 import S3Storage  # loads boto3, which is slow, and absent on some trainers
    except ImportError as error:
        raise PlanError(f"s3:// needs the package boto3, which cannot be imported: {error}") from error
    return S3Storage.at(url)


def check_key(key: str) -> str:
    """`key`, if we may write it: only such keys mean the same on every server and file system.

    Raises StorageError.
    """
    parts = key.split("/")
    if not _KEY.fullmatch(key) or not {".", ".."}.isdisjoint(parts) or any(p.startswith(disk.PRIVATE) for p in parts):
        raise StorageError(f"not a key to write: {key!r}; want A-Z a-z 0-9 . _ = - in parts joined by /, none . or ..")
    return key


@dataclass(frozen=True)
class LocalStorage(Storage):
    """Objects as files below a folder, whose absolute path is `url`."""

    url: str

    def list(self, prefix: str = "") -> Iterator[Stored]:
        """Regular files, through symbolic links that are no loops. Raises StorageError for a broken link."""
        if "/" in prefix:
            self._path(prefix.rpartition("/")[0])
        return (_stored(key, status) for key, status in disk.walk(self.url, prefix))

    def list_temporary(self) -> Iterator[Stored]:
        """See `Storage.list_temporary`."""
        return (_stored(key, status) for key, status in disk.walk(self.url, "", temporary=True))

    def stat(self, key: str) -> Stored | None:
        """Regular files only."""
        path = self._path(key)
        try:
            status = os.stat(path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise disk.failure("look at", path, error) from error
        return _stored(key, status) if stat.S_ISREG(status.st_mode) else None

    def read(self, key: str, offset: int = 0, length: int | None = None) -> bytes:
        """See `Storage.read`."""
        with self.open(key) as file:
            return file.read_range(offset, file.size if length is None else length)

    def open(self, key: str, size: int | None = None, tag: str | None = None) -> ObjectFile:
        """See `Storage.open`; a file that is changed in place while open is noticed as well."""
        return LocalFile(self._path(key), size, tag)

    def put(self, key: str, data: bytes | memoryview) -> bool:
        """See `Storage.put`; a file appears whole and on disk, or not at all."""
        path = self._path(check_key(key))
        try:
            if not os.path.lexists(path):
                with disk.written(path, data) as temporary:
                    return disk.link(temporary, path, self.url)
            if os.path.isdir(path):
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
            disk.sync_folder(os.path.dirname(path))  # the other writer may not have done it yet
            return False
        except OSError as error:
            raise disk.failure("write", path, error) from error

    def swap(self, key: str, data: bytes, expected: str | None) -> bool:
        """See `Storage.swap`; exact among processes of one machine, by a lock file in the storage's folder."""
        path = self._path(check_key(key))
        try:
            with disk.written(path, data) as temporary, disk.locked(self.url):
                now = self.stat(key)
                if (now.tag if now else None) != expected:
                    return False
                if now:
                    disk.make_newer(temporary, int(now.tag))
                os.replace(temporary, path)
                disk.sync_folder(os.path.dirname(path))
                return True
        except OSError as error:
            raise disk.failure("replace", path, error) from error

    def delete(self, key: str) -> None:
        """See `Storage.delete`; folders stay."""
        path = self._path(key)
        try:
            with contextlib.suppress(FileNotFoundError, NotADirectoryError, IsADirectoryError):
                os.unlink(path)
        except OSError as error:
            raise disk.failure("delete", path, error) from error

    def _path(self, key: str) -> str:
        if "\0" in key or not {"", ".", ".."}.isdisjoint(key.split("/")):
            raise StorageError(f"not a key below {one_line(self.url)}: {key!r}")
        return os.path.join(self.url, key)


def _stored(key: str, status: os.stat_result) -> Stored:
    return Stored(key, status.st_size, str(status.st_mtime_ns), status.st_mtime)


class LocalFile(ObjectFile):
    """A file kept open and read by position, so that threads and forked processes may share it."""

    def __init__(self, path: str, size: int | None, tag: str | None) -> None:
        self._file = -1  # before anything can fail: `close` runs in any case
        self._path = path
        try:
            self._file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)  # a FIFO must not hang us
            status = os.fstat(self._file)
        except (FileNotFoundError, NotADirectoryError) as error:
            raise NotFound(f"cannot read {one_line(path)}: it does not exist") from error
        except OSError as error:
            raise disk.failure("read", path, error) from error
        if not stat.S_ISREG(status.st_mode):
            raise NotFound(f"cannot read {one_line(path)}: it is not a file")
        super().__init__(status.st_size if size is None else size)
        self._tag = str(status.st_mtime_ns) if tag is None else tag
        self._check(status)

    def _fetch(self, offset: int, length: int) -> bytes:
        parts = []
        try:
            self._check(os.fstat(self._file))
            while length:
                part = os.pread(self._file, length, offset)
                if not part:
                    raise StorageError(f"cannot read {one_line(self._path)}: it was cut short while open")
                parts.append(part)
                offset, length = offset + len(part), length - len(part)
        except OSError as error:
            raise disk.failure("read", self._path, error) from error
        return b"".join(parts)

    def _check(self, status: os.stat_result) -> None:
        if (status.st_size, str(status.st_mtime_ns)) != (self._size, self._tag):
            raise changed(
                one_line(self._path),
                f"{self._size} bytes, mtime_ns {self._tag}",
                f"{status.st_size} bytes, mtime_ns {status.st_mtime_ns}",
            )

    def close(self) -> None:
        """Close the file; a second time does nothing."""
        descriptor, self._file = self._file, -1
        if descriptor >= 0:
            os.close(descriptor)
        super().close()


def changed(place: str, planned: str, found: str) -> StorageError:
    """The error for an input that holds other bytes than those planned."""
    return StorageError(
        f"{place} changed since the plan was made: planned {planned}, found {found}; restore it or plan again"
    )
