"""Files of a dataset on this machine's disk: each fetched once, checked, and only then given its name."""

import os
from concurrent.futures import Future, ThreadPoolExecutor

from curate.core import disk
from curate.core.errors import StorageError
from curate.core.hashing import sha256
from curate.core.storage import LocalStorage, Storage
from manifests.shape import Json

NUM_ATTEMPTS = 4  # downloads of a file until its digest is right
NUM_THREADS = 4


class FileCache:
    """Files named by their SHA-256 in a local folder, shared by all processes of a machine.

    One process fetches a file while the others wait for it; its lock ends with it. Beyond `max_bytes`
    those used longest ago are removed, which does no harm to who has one mapped.
    """

    def __init__(self, folder: str, max_bytes: int | None = None) -> None:
        self._files = LocalStorage(os.path.abspath(folder))
        self._max_bytes = max_bytes
        self._threads = ThreadPoolExecutor(NUM_THREADS, thread_name_prefix="curate-fetch")
        self._coming: dict[str, Future[str]] = {}

    def path(self, storage: Storage, key: str, file: Json) -> str:
        """The local path of a file of the manifest, which is there on return.

        Raises: StorageError where it cannot be fetched, or is not what the manifest says.
        """
        coming = self._coming.pop(file["sha256"], None)
        path = coming.result() if coming is not None else self._fetched(storage, key, file)
        return path if os.path.exists(path) else self._fetched(storage, key, file)

    def announce(self, storage: Storage, key: str, file: Json) -> None:
        """Begin to fetch a file that will be asked for."""
        if file["sha256"] not in self._coming:
            self._coming[file["sha256"]] = self._threads.submit(self._fetched, storage, key, file)

    def _fetched(self, storage: Storage, key: str, file: Json) -> str:
        name = f"{file['sha256'][:2]}/{file['sha256']}"
        path = os.path.join(self._files.url, name)
        if not self._touched(path, file):
            disk.make_folder(os.path.dirname(path))
            with disk.locked(os.path.dirname(path)):
                if not self._touched(path, file):
                    self._files.delete(name)  # of another size: a disk that was full, or another's hand
                    self._files.put(name, checked(storage, key, file))
            self._make_room(path)
        return path

    def _touched(self, path: str, file: Json) -> bool:
        """Whether the file is there, whole; then it counts as used now."""
        try:
            if os.stat(path).st_size != file["bytes"]:
                return False
            os.utime(path)
        except FileNotFoundError:
            return False
        return True

    def _make_room(self, newest: str) -> None:
        if self._max_bytes is None:
            return
        stored = sorted(self._files.list(), key=lambda one: int(one.tag))  # by mtime
        excess = sum(one.size for one in stored) - self._max_bytes
        for one in stored:
            if excess <= 0:
                break
            if os.path.join(self._files.url, one.key) != newest:
                self._files.delete(one.key)
                excess -= one.size


def checked(storage: Storage, key: str, file: Json) -> bytes:
    """The bytes of a file of a manifest, whose digest is right.

    Raises: StorageError where it still is not after NUM_ATTEMPTS downloads.
    """
    found = ""
    for _ in range(NUM_ATTEMPTS):
        data = storage.read(key)
        found = sha256(data)
        if found == file["sha256"]:
            return data
    raise StorageError(f"{key}: expected SHA-256 {file['sha256']}, found {found}, {NUM_ATTEMPTS} times")
