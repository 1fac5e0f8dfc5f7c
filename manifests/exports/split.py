"""A split of a dataset as files of other trainers are made from it, and the folder they go to.

Rows are read shard by shard, their digests checked, so memory holds one shard; a file has its name
when it is whole.
"""

import contextlib
import os
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO

import numpy as np
from numpy.typing import NDArray

from curate.core import disk
from curate.core.errors import PlanError
from manifests.cache import checked
from manifests.layout import decode_cu
from manifests.manifest import Dataset


@dataclass(frozen=True, kw_only=True, eq=False)
class Shard:
    """One shard in memory."""

    index: int
    num_rows: int
    rows: bytes  # tokens as they are stored
    ends: NDArray[np.int64]  # where pieces of documents end, in tokens from the shard's first


@dataclass(frozen=True, kw_only=True)
class Split:
    """One split of a dataset."""

    dataset: Dataset
    name: str

    @property
    def row_length(self) -> int:
        """Tokens of a row."""
        return int(self.dataset.manifest["format"]["row_length"])

    @property
    def dtype(self) -> str:
        """The type of a token: `<u2` or `<u4`."""
        return str(self.dataset.manifest["format"]["dtype"])

    @property
    def num_rows(self) -> int:
        """Rows of the split."""
        return int(self.dataset.manifest["splits"][self.name]["rows"])

    def shards(self) -> Iterator[Shard]:
        """The shards in order. Raises StorageError where one is damaged."""
        for index, shard in enumerate(self.dataset.manifest["splits"][self.name]["shards"]):
            rows, cu = (
                checked(self.dataset.storage, self.dataset.key(shard[kind]["key"]), shard[kind])
                for kind in ("rows", "cu")
            )
            row_ptr, starts = decode_cu(cu, shard["num_rows"], self.row_length)
            row = np.repeat(np.arange(shard["num_rows"]), (row_ptr[1:] - row_ptr[:-1]).astype(np.int64))
            begins = row * self.row_length + starts
            ends = np.append(begins[1:], shard["num_rows"] * self.row_length)
            yield Shard(index=index, num_rows=shard["num_rows"], rows=rows, ends=ends)


class Folder:
    """A local folder that files are added to, each whole or not at all."""

    def __init__(self, path: str) -> None:
        self._path = os.path.abspath(path)
        self.names: list[str] = []

    @contextlib.contextmanager
    def file(self, name: str) -> Iterator[IO[bytes]]:
        """A new file to write to.

        Raises: PlanError where there is one of this name; StorageError where it cannot be written.
        """
        path = os.path.join(self._path, name)
        if os.path.lexists(path):
            raise PlanError(f"{path} is there already; name an empty folder")
        temporary = os.path.join(os.path.dirname(path), f"{disk.PRIVATE}{secrets.token_hex(12)}.tmp")
        try:
            disk.make_folder(os.path.dirname(path))
            with open(temporary, "xb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            if not disk.link(temporary, path, self._path):
                raise PlanError(f"{path} is there already; name an empty folder")
        except OSError as error:
            raise disk.failure("write", path, error) from error
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary)
        self.names.append(name)
