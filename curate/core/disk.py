"""Files on a local disk: whole or absent, durable, never replaced by accident, listed in order."""

import contextlib
import errno
import fcntl
import os
import secrets
import stat
from collections.abc import Iterator

from curate.core.errors import StorageError, one_line

TEMPORARY = ".tmp"  # ends the names of files that are being written
PRIVATE = ".curate-"  # begins the names of our own temporary and lock files, which `walk` leaves out

_LOCK = f"{PRIVATE}lock"
_NO_LINKS = frozenset({errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK})

_Identities = tuple[tuple[int, int], ...]  # (device, inode) of the folders from the start to one


def failure(action: str, path: str, error: OSError) -> StorageError:
    """What the operating system said, as one line."""
    return StorageError(f"cannot {action} {one_line(path)}: {error.strerror or type(error).__name__}")


@contextlib.contextmanager
def written(path: str, data: bytes | memoryview) -> Iterator[str]:
    """A temporary file in the folder of `path` (created if need be) that holds `data`, on disk; removed afterwards."""
    folder = os.path.dirname(path)
    make_folder(folder)
    temporary = os.path.join(folder, f"{PRIVATE}{secrets.token_hex(12)}{TEMPORARY}")
    try:
        with open(temporary, "xb", buffering=0) as file:
            rest = memoryview(data).cast("B")
            while rest:
                rest = rest[file.write(rest) :]
            os.fsync(file.fileno())
        yield temporary
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)


def link(temporary: str, path: str, lock_folder: str) -> bool:
    """Give a finished file its name, durably; False if the name is taken."""
    try:
        os.link(temporary, path)
    except FileExistsError:
        return False
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        with locked(lock_folder):  # a file system without hard links: exact among processes of one machine
            if os.path.lexists(path):
                return False
            os.rename(temporary, path)
    finally:
        sync_folder(os.path.dirname(path))
    return True


@contextlib.contextmanager
def locked(folder: str) -> Iterator[None]:
    """Exclude all others who lock this folder, on this machine. The lock file stays."""
    lock = os.open(os.path.join(folder, _LOCK), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def make_newer(path: str, mtime_ns: int) -> None:
    """Give a file a later mtime than `mtime_ns`, should the clock of the file system not have moved since."""
    if os.stat(path).st_mtime_ns <= mtime_ns:
        os.utime(path, ns=(mtime_ns + 1, mtime_ns + 1))


def make_folder(folder: str) -> None:
    """Create a folder and those above it, durably."""
    if os.path.isdir(folder):
        return
    make_folder(os.path.dirname(folder))
    with contextlib.suppress(FileExistsError):
        os.mkdir(folder)
    sync_folder(os.path.dirname(folder))


def sync_folder(folder: str) -> None:
    """Make the names in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def walk(root: str, prefix: str, *, temporary: bool = False) -> Iterator[tuple[str, os.stat_result]]:
    """Regular files below `root` whose key (path below it) starts with `prefix`, in order of keys.

    With `temporary`, those that are being written, or were when their process died, and no others.
    Follows symbolic links, but none that leads back to a folder it is in. No recursion, so any depth.
    Raises StorageError for a link that leads nowhere and for names that are not UTF-8.
    """
    stack = [_open_folder(root, prefix.rpartition("/")[0], prefix, (), temporary)]
    while stack:
        identities, keys = stack[-1]
        key = next(keys, None)
        if key is None:
            stack.pop()
        elif key.endswith("/"):
            stack.append(_open_folder(root, key[:-1], prefix, identities, temporary))
        else:
            status = _look_at(os.path.join(root, key))
            if status and stat.S_ISREG(status.st_mode):
                yield key, status


def _open_folder(
    root: str, folder: str, prefix: str, above: _Identities, temporary: bool
) -> tuple[_Identities, Iterator[str]]:
    """The identities with this folder's, and the keys in it that can match, folders with a final slash."""
    path = os.path.join(root, folder) if folder else root
    try:
        status = os.stat(path)
        identity = (status.st_dev, status.st_ino)
        if identity in above:
            return above, iter(())
        with os.scandir(path) as entries:
            keys = [_key(folder, entry) for entry in entries if _is_meant(entry, temporary)]
    except (FileNotFoundError, NotADirectoryError):  # nothing there, or removed meanwhile
        return above, iter(())
    except OSError as error:
        raise failure("list", path, error) from error
    # No name holds a slash, so that names with the slash of a folder sort as the whole keys do.
    return (*above, identity), iter(sorted(k for k in keys if k.startswith(prefix) or prefix.startswith(k)))


def _is_meant(entry: os.DirEntry[str], temporary: bool) -> bool:
    is_private = entry.name.startswith(PRIVATE)
    return entry.is_dir() or (is_private and entry.name.endswith(TEMPORARY)) if temporary else not is_private


def _key(folder: str, entry: os.DirEntry[str]) -> str:
    try:
        entry.name.encode()
    except UnicodeEncodeError as error:
        raise StorageError(f"cannot list {one_line(entry.path)}: the name is not UTF-8; rename it") from error
    return (f"{folder}/" if folder else "") + entry.name + ("/" if entry.is_dir() else "")


def _look_at(path: str) -> os.stat_result | None:
    try:
        return os.stat(path)
    except OSError as error:
        if os.path.islink(path):
            raise StorageError(f"cannot list {one_line(path)}: a link that leads nowhere; mend or remove it") from error
        if isinstance(error, FileNotFoundError):  # removed meanwhile
            return None
        raise failure("list", path, error) from error
