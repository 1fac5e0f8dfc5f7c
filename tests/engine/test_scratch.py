"""Temporary folders: gone in the end, and after a kill -9 with the next run."""

import secrets
import signal
import subprocess
import sys
from pathlib import Path

from curate.engine.scratch import scratch_folder

HOLD = """
import sys
from curate.engine.scratch import scratch_folder
with scratch_folder(sys.argv[1]) as folder:
    (folder / "file").touch()
    print(folder, flush=True)
    sys.stdin.read()
"""


def test_a_folder_is_there_and_then_gone() -> None:
    with scratch_folder(f"t-{secrets.token_hex(4)}-") as folder:
        (folder / "file").touch()
    assert not folder.exists()


def test_the_folder_of_a_live_process_is_kept_and_that_of_a_killed_one_removed() -> None:
    prefix = f"t-{secrets.token_hex(4)}-"
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, prefix], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout
        theirs = Path(other.stdout.readline().strip())
        with scratch_folder(prefix) as mine:
            assert (theirs / "file").exists()
            assert theirs != mine
        other.send_signal(signal.SIGKILL)
        other.wait()
    assert (theirs / "file").exists()
    with scratch_folder(prefix):
        assert not theirs.exists()
