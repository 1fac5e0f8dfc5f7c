"""Files that stages load: found, checked to be readable, and named by their SHA-256."""

import glob
import hashlib
import importlib.util
import os
import re
from dataclasses import replace
from pathlib import Path

from curate.core.errors import suggestion
from curate.core.stage import Asset
from curate.plan.load import Scalar

IN_PACKAGE = re.compile(r"([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*):(?!//)(.+)", re.ASCII | re.DOTALL)


class AssetFinder:
    """Finds assets for a pipeline file in the folder `base`; each file is read once."""

    def __init__(self, base: Path) -> None:
        self._base = base
        self._digests: dict[str, str] = {}

    def find(self, value: Scalar, what: str) -> Asset:
        """The asset that `value` names; `what` says in messages what it is for. Raises PlanError."""
        match = IN_PACKAGE.fullmatch(value.text)
        if match:
            path = _in_package(match[1], match[2], value, what)
        elif "://" in value.text:
            raise value.place.error(f"{what} must be a local file, not {value.text!r}")
        else:
            path = os.path.normpath(self._base / value.text)
        return Asset(path, self._digest(path, value, what))

    def expand(self, value: Scalar, what: str) -> tuple[Scalar, ...]:
        """The files that a pattern names, in order of their names, or `value` where it is none. Raises PlanError."""
        if not glob.has_magic(value.text) or "://" in value.text or IN_PACKAGE.fullmatch(value.text):
            return (value,)
        found = sorted(glob.glob(str(self._base / value.text), recursive=True))
        if not found:
            raise value.place.error(f"{what}: no file matches {value.text!r}")
        return tuple(replace(value, text=path) for path in found)

    def _digest(self, path: str, value: Scalar, what: str) -> str:
        if path not in self._digests:
            try:
                with open(path, "rb") as stream:
                    self._digests[path] = hashlib.file_digest(stream, "sha256").hexdigest()
            except OSError as error:
                raise value.place.error(f"{what}: {value.text!r} cannot be read: {error.strerror}") from None
        return self._digests[path]


def _in_package(package: str, file: str, value: Scalar, what: str) -> str:
    """The path of a file inside an installed package, which is not imported for it."""
    top, *inner = package.split(".")
    try:
        spec = importlib.util.find_spec(top)
    except (ImportError, ValueError):
        spec = None
    if spec is None or not spec.submodule_search_locations:
        raise value.place.error(f"{what}: the package {top!r} of {value.text!r} is not installed")
    for folder in spec.submodule_search_locations:
        path = Path(folder, *inner, file)
        if path.is_file():
            return str(path)
    known = sorted(item.name for item in path.parent.iterdir()) if path.parent.is_dir() else []
    raise value.place.error(f"{what}: the package {package!r} has no file {file!r}{suggestion(path.name, known)}")
