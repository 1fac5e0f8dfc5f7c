"""What was freed goes back to the system."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from curate.engine.memory import LARGE_BYTES, return_free_memory

STATUS = Path("/proc/self/status")


def held_bytes() -> int:
    return int(STATUS.read_text().partition("VmRSS:")[2].split()[0]) << 10


@pytest.mark.skipif(not STATUS.exists(), reason="reads the size of the process from /proc, which only Linux has")
def test_large_blocks_between_small_ones_do_not_stay() -> None:
    """On glibc's own terms, 150 MB stay here: once it has seen a large block freed, it takes others from its heap."""
    return_free_memory()
    assert pa.default_memory_pool().backend_name == "system"
    np.ones(20 * LARGE_BYTES, np.uint8)
    before = held_bytes()
    large, small = [], []
    for _ in range(30):
        large.append(b"x" * (5 * LARGE_BYTES))
        small.append(b"x" * 2000)
    assert held_bytes() - before > 140 * LARGE_BYTES
    large.clear()
    assert held_bytes() - before < 20 * LARGE_BYTES
    assert len(small) == 30
