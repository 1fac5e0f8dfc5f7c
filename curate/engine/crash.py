"""Crash points: places where this process can be made to die as by kill -9, so that tests prove that runs go on.

`CURATE_CRASH_AT=NAME:NTH` kills a process when it comes to the point NAME for the NTH time; workers
inherit it, and each process counts for itself. `NAME:NTH:FILE` kills one process in all: the one that
creates FILE, which also proves that the point was reached.
"""

import os
import signal
from dataclasses import dataclass
from functools import cache

from curate.core.errors import PlanError, suggestion

VARIABLE = "CURATE_CRASH_AT"
CRASH_POINTS = (
    "plan.before-claim",
    "plan.after-plan-put",
    "plan.after-claim",
    "plan.after-unit-list",
    "unit.before-first-output",
    "unit.between-outputs",
    "unit.after-data-before-receipt",
    "unit.after-receipt-before-return",
    "exchange.before-round",
    "exchange.within-round",
    "exchange.after-round",
    "summary.before-phase",
    "summary.within-combine",
    "summary.after-phase",
    "exchange.before-pass",
    "exchange.within-pass",
    "seal.before-seal",
    "seal.after-seal",
    "manifest.before-manifest",
    "manifest.after-manifest-before-pointer",
    "manifest.after-pointer-before-done",
)

_setting = os.environ.get(VARIABLE)


@dataclass
class Crash:
    """Where this process dies."""

    point: str
    num_left: int  # visits until it does
    file: str

    def reach(self, name: str) -> None:
        """Count a visit to a point, and die if it is the one."""
        if name != self.point:
            return
        self.num_left -= 1
        if self.num_left == 0 and self._is_first():
            os.kill(os.getpid(), signal.SIGKILL)

    def _is_first(self) -> bool:
        if not self.file:
            return True
        try:
            os.close(os.open(self.file, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
        except FileExistsError:
            return False
        return True


def crash_point(name: str) -> None:
    """Die here if CURATE_CRASH_AT says so."""
    if _setting is not None:
        _crash(_setting).reach(name)


def check_crash_setting() -> None:
    """Raise PlanError where CURATE_CRASH_AT is set to what cannot be. For the beginning of a run."""
    if _setting is not None:
        _crash(_setting)


@cache
def _crash(setting: str) -> Crash:
    """The state of this process, made once."""
    point, _, rest = setting.partition(":")
    number, _, file = rest.partition(":")
    if point not in CRASH_POINTS:
        raise PlanError(f"{VARIABLE}: unknown crash point: {point!r}{suggestion(point, CRASH_POINTS)}")
    if not (number.isascii() and number.isdecimal() and int(number) > 0):
        raise PlanError(f"{VARIABLE}: want NAME:NTH or NAME:NTH:FILE with NTH from 1, not {setting!r}")
    return Crash(point, int(number), file)
