"""fastText models: loaded once a process, safely, and asked for the best label of a text."""

import functools
import hashlib
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import fasttext

from curate.core.errors import PlanError
from curate.core.stage import Asset

MAGIC = (793712314).to_bytes(4, "little")  # FASTTEXT_FILEFORMAT_MAGIC_INT32 of the library
MAX_VERSION = 12

# fastText reads a line: what ends one, for the library or for Python, becomes a space, and so does NUL.
_LINE_ENDS = re.compile("[\0\n\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")

# A damaged model may load and then crash (fastText#1087), ask for any memory, or load for ever: a child process
# goes first, with 4 GiB and 5 s of its own, and 4 bytes and 50 ns for each byte of the model.
_PROBE = """
import os, resource, sys
path = sys.argv[1]
num_bytes = (4 << 30) + 4 * os.path.getsize(path)
num_seconds = 5 + os.path.getsize(path) // 20_000_000
resource.setrlimit(resource.RLIMIT_AS, (num_bytes, num_bytes))
resource.setrlimit(resource.RLIMIT_CPU, (num_seconds, num_seconds))
import fasttext
model = fasttext.load_model(path)
for text in ("The patients were treated.", "\\u6c49\\u5b57 \\u0434\\u0430", "x" * 1000):
    model.f.predict(text + "\\n", 1, 0.0, "strict")
"""


class FastTextModel:
    """A supervised model. Labels have no `__label__` prefix."""

    def __init__(self, path: str) -> None:
        # The wrapper's predict is not used: in some builds it fails under numpy 2.
        self._native: Any = fasttext.load_model(path).f
        self._prefix = str(self._native.getArgs().label)
        self.labels = tuple(label.removeprefix(self._prefix) for label in self._native.getLabels("strict")[0])

    def best(self, text: str) -> tuple[str | None, float]:
        """The most probable label and its probability in [0, 1]; (None, 0.0) for a text without words.

        The library sees one line with its newline, always, as the newline is a token of its own.
        """
        line = _LINE_ENDS.sub(" ", text).strip()
        answers = self._native.predict(f"{line}\n", 1, 0.0, "strict") if line else ()
        if not answers:
            return None, 0.0
        score, label = answers[0]  # float32 sums: a score may exceed 1 by a few 1e-5
        return label.removeprefix(self._prefix), min(max(float(score), 0.0), 1.0)


def load_model(asset: Asset) -> FastTextModel:
    """The model of `asset`, loaded once a process.

    Raises: PlanError where the file cannot be read, is another one than planned, or is no usable model.
    """
    return _load(asset.location, asset.sha256)


@functools.lru_cache(maxsize=8)
def _load(location: str, sha256: str) -> FastTextModel:
    _check_file(location, sha256)
    _probe(location)
    return FastTextModel(location)


def check_header(asset: Asset) -> None:
    """Raise PlanError unless the file of `asset` begins as a fastText model does. Cheap: for plans."""
    try:
        with Path(asset.location).open("rb") as file:
            header = file.read(8)
    except OSError as error:
        raise PlanError(f"{asset.location}: cannot read the fastText model: {error.strerror}") from error
    version = int.from_bytes(header[4:], "little")
    if header[:4] != MAGIC or len(header) < 8 or not 0 < version <= MAX_VERSION:
        found = f"found {header.hex(' ')!r}"
        raise PlanError(f"{asset.location}: not a fastText model: {found}, wanted its magic number and version")


def _check_file(location: str, sha256: str) -> None:
    check_header(Asset(location))
    with Path(location).open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if sha256 and found != sha256:
        raise PlanError(f"{location}: the fastText model changed: expected SHA-256 {sha256}, found {found}")


def _probe(location: str) -> None:
    done = subprocess.run([sys.executable, "-c", _PROBE, location], capture_output=True, check=False)
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        reason = f"signal {-done.returncode}" if done.returncode < 0 else said[-1] if said else "no message"
        raise PlanError(f"{location}: not a usable fastText model, it is damaged or not supervised: {reason}")
