"""What a person sees while it runs, and the facts of a run that go to `runs/`.

Calm: one line when a phase begins and ends, and on the way at most one every few seconds; on a
terminal the line on the way is rewritten in place.
"""

import platform
import secrets
import sys
import time
from collections import Counter
from types import TracebackType
from typing import Any, TextIO

from curate import __version__
from curate.core.errors import WaitingError
from curate.core.hashing import canonical_json
from curate.core.storage import Storage
from curate.engine.node import assets_of_plan
from curate.engine.receipt import Receipt
from curate.engine.units import Unit
from curate.plan.explain import counted
from curate.plan.plan import Plan

SECONDS_BETWEEN_LINES = 10.0
BEGIN = ".begin.json"  # ends the name of what a run says when it begins


class Progress:
    """Counts units, says so on stderr, and records the run when it ends."""

    def __init__(self, plan: Plan, storage: Storage, stream: TextIO | None = None) -> None:
        self._plan = plan
        self._storage = storage
        self._stream = stream if stream is not None else sys.stderr
        self._started = time.time()
        self._ran: Counter[str] = Counter()
        self._reused: Counter[str] = Counter()
        self._total = self._done = 0
        self._last_line = time.monotonic()
        self._status = "stopped"
        self._name = f"runs/{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime(self._started))}-{secrets.token_hex(4)}"
        self._has_begun = False
        self._phase_began: dict[str, float] = {}
        self._phase_seconds: dict[str, float] = {}

    def __enter__(self) -> "Progress":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._clear()
        if self._ran or self._reused:
            if error is not None:
                self._status = "waiting" if isinstance(error, WaitingError) else "failed"
            facts = self._facts(f"{type(error).__name__}: {error}" if error else None)
            self._storage.put(f"{self._name}.json", canonical_json(facts))

    def say(self, text: str) -> None:
        """One line."""
        self._clear()
        print(f"curate: {text}", file=self._stream, flush=True)

    def begin(self, units: list[Unit], missing: list[Unit]) -> None:
        """Units that are needed, and those of them that must run."""
        if not self._has_begun:
            self._has_begun = True
            self._storage.put(f"{self._name}{BEGIN}", canonical_json(self._begin_facts()))
        for phase in {unit.phase for unit in missing}:
            self._phase_began.setdefault(phase, time.time())
        self._reused.update(Counter(unit.phase for unit in units) - Counter(unit.phase for unit in missing))
        if self._done == self._total:
            self._total = self._done = 0
        self._total += len(missing)
        if units:
            names = ", ".join(dict.fromkeys(unit.phase for unit in units))
            done = len(units) - len(missing)
            self.say(f"{names}: {counted(len(units), 'unit')}" + (f", {done} done before" if done else ""))

    def advance(self, receipt: Receipt) -> None:
        """A unit ended."""
        self._ran[receipt["phase"]] += 1
        self._done += 1
        self._phase_seconds[receipt["phase"]] = time.time() - self._phase_began[receipt["phase"]]
        is_terminal = self._stream.isatty()
        if time.monotonic() - self._last_line < (0.2 if is_terminal else SECONDS_BETWEEN_LINES):
            return
        self._last_line = time.monotonic()
        seconds = time.time() - self._started
        line = f"curate: {receipt['phase']}: {self._done} of {self._total} units, {seconds:.0f} s"
        print(
            f"\r\x1b[2K{line}" if is_terminal else line, end="" if is_terminal else "\n", file=self._stream, flush=True
        )

    def published(self, manifest: dict[str, Any]) -> None:
        """The dataset is there."""
        self._status = "done"
        train = manifest["splits"]["train"]
        records = manifest["records"]
        self.say(
            f"{records['in']} records: {records['kept']} kept, {records['dropped']} dropped, "
            f"{records['merged']} merged, {records['quarantined']} quarantined"
        )
        rows, shards = counted(train["rows"], "row"), counted(len(train["shards"]), "shard")
        self.say(f"{rows} of {manifest['format']['row_length']} tokens in {shards}")
        if train["rows"] == 0:
            self.say("the documents did not fill one row: the dataset is empty")
        self.say(f"dataset {manifest['dataset_id'][:12]} in {self._plan.output}, digest {train['digest']}")

    def _clear(self) -> None:
        if self._stream.isatty():
            print("\r\x1b[2K", end="", file=self._stream)

    def _begin_facts(self) -> dict[str, Any]:
        """What is known when a run begins; places among it, which no byte of the dataset may hold."""
        return {
            "plan_id": self._plan.plan_id,
            "started": self._started,
            "host": platform.node(),
            "file": self._plan.file,
            "roots": {source.name: source.root for source in self._plan.sources},
            "assets": {asset.sha256: asset.location for asset in assets_of_plan(self._plan)},
        }

    def _facts(self, error: str | None) -> dict[str, Any]:
        phases = sorted(self._ran.keys() | self._reused.keys())
        return {
            "plan_id": self._plan.plan_id,
            "status": self._status,
            "error": error,
            "started": self._started,
            "seconds": time.time() - self._started,
            "host": platform.node(),
            "curate": __version__,
            "python": platform.python_version(),
            "phase_seconds": self._phase_seconds,
            "units": {name: {"ran": self._ran[name], "reused": self._reused[name]} for name in phases},
        }
