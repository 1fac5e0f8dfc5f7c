"""The error tree and the exit codes of the command.

    CurateError
      PlanError      the file is wrong; nothing ran                         exit 2
      DataError      this record (or unit) is bad; the engine quarantines it
      StageError     a bug in a stage; the message names it                 exit 1
      StorageError   storage failed; try again                              exit 6
      ClusterError   the cluster was lost or gave no worker; try again      exit 6
      WaitingError   other jobs still hold units; run again                 exit 3
      BalanceError   too many quarantined, or the books do not balance      exit 5
      OutputError    the output belongs to another plan                     exit 4

A message says where, what was found, what is wanted and the likely fix, in one line.
"""

import difflib
from collections.abc import Iterable


class CurateError(Exception):
    """Base of all errors that curate raises on purpose."""

    exit_code = 1


class PlanError(CurateError):
    """The pipeline file (or a command's argument) is wrong; nothing ran."""

    exit_code = 2


class DataError(CurateError):
    """A record cannot be used.

    `reason` is a stable snake_case word that is counted; the message is for people.
    """

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(f"{reason}: {detail}" if detail else reason)
        self.reason = reason
        self.detail = detail

    def __reduce__(self) -> tuple[type["DataError"], tuple[str, str]]:
        return type(self), (self.reason, self.detail)


class StageError(CurateError):
    """A stage broke its contract; the message names the stage."""

    exit_code = 1


class StorageError(CurateError):
    """Storage did not answer, refused, or holds other bytes than it should."""

    exit_code = 6


class ClusterError(CurateError):
    """The cluster that does the work was lost, or gives no workers."""

    exit_code = 6


class WaitingError(CurateError):
    """This job did its share, and other jobs are not done with theirs."""

    exit_code = 3


class BalanceError(CurateError):
    """The records or bytes do not balance, or too many records are quarantined."""

    exit_code = 5


class OutputError(CurateError):
    """The output folder belongs to another plan."""

    exit_code = 4


def suggestion(word: str, known: Iterable[str]) -> str:
    """`; did you mean 'x'?` for the nearest known word, or an empty string."""
    near = difflib.get_close_matches(word, list(known), n=1, cutoff=0.6)
    return f"; did you mean {near[0]!r}?" if near else ""


def one_line(name: str) -> str:
    """`name` as it may stand in a message: control characters and broken Unicode escaped."""
    return name if name.isprintable() else ascii(name)[1:-1]
