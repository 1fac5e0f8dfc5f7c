"""Temporary folders that do not outlive their process for long, even where it was killed."""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

MAX_PARENT = 20  # characters: sockets lie deep in such folders, and the system takes 107 for their paths


@contextmanager
def scratch_folder(prefix: str) -> Iterator[Path]:
    """A folder of this process, removed in the end, as are those of the same prefix whose process was killed."""
    parent = Path(tempfile.gettempdir() if len(tempfile.gettempdir()) <= MAX_PARENT else "/tmp")
    for left in parent.glob(f"{prefix}*"):
        with suppress(OSError), _locked(left):  # refused where its process lives, or is another user's
            shutil.rmtree(left, ignore_errors=True)
    hidden = Path(tempfile.mkdtemp(prefix=f".{prefix}", dir=parent))
    with _locked(hidden):
        folder = hidden.rename(parent / hidden.name[1:])  # seen once it is locked
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder; it ends with the process. Raises OSError where another holds it."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)
