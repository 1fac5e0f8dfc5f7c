"""The real command, as a user calls it, and what it left."""

import json
import sys
from pathlib import Path
from typing import Any

from curate.core.storage import open_storage


def command(*arguments: Any) -> list[str]:
    """The command line of `curate`."""
    words = [str(argument) for argument in arguments]
    if words[:1] == ["run"] and "--on" not in words:
        words += ["--on", "local"]  # Ray takes seconds to start; its own tests ask for it
    return [sys.executable, "-m", "curate", *words]


def manifest_of(output: str | Path) -> dict[str, Any]:
    """The manifest that MANIFEST names."""
    storage = open_storage(str(output))
    pointer = json.loads(storage.read("MANIFEST"))
    manifest: dict[str, Any] = json.loads(storage.read(pointer["manifest"]))
    return manifest


def runs_of(output: str | Path) -> list[dict[str, dict[str, int]]]:
    """The units that each run of an output ran and reused, by phase, oldest run first."""
    storage = open_storage(str(output))
    runs = [
        json.loads(storage.read(stored.key))
        for stored in storage.list("runs/")
        if not stored.key.endswith(".begin.json")
    ]
    return [one["units"] for one in sorted(runs, key=lambda one: one["started"])]
