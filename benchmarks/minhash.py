"""How fast are MinHash signatures made from text, against datasketch, rensa and datatrove?

128 values of word 5-grams, one core, the same documents, all run in turn; each peer in an environment and a process of
its own (`benchmarks/peers/install.sh`). Seconds are those that a process had a core, so that a busy machine slows
nobody. Ours starts from an Arrow column, and includes Unicode normalization.
"""

import contextlib
import json
import lzma
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import datasketch
import numpy as np
import pyarrow as pa

from benchmarks import Figures
from benchmarks._dedup_sets import DATA
from stages.kernels.buffers import text_buffers
from stages.kernels.minhash import band_keys, sign
from stages.signatures import normalized
from tests.stages.reference_minhash import hash_shingle, shingles

ROUNDS = 3
RUNS = 15  # of ours in a round: one takes milliseconds
NUM_BYTES = 3_000_000
NGRAM, NUM_VALUES, NUM_BANDS = 5, 128, 16
NUM_COMPARED = 12  # documents whose signatures are compared with those of datasketch
PEERS = ("datasketch", "rensa", "datatrove")
FOLDER = Path(os.environ.get("CURATE_PEERS", Path.home() / ".cache" / "curate-peers"))


class Peer(NamedTuple):
    """A process that signs when it is told to."""

    process: "subprocess.Popen[str]"

    def seconds(self) -> float:
        """One run."""
        if self.process.stdin is None or self.process.stdout is None:
            raise ValueError("the process has no pipes")
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline())


def measure() -> Figures:
    """Medians, and ratios of them."""
    texts = _texts()
    column = pa.array(texts, pa.large_string())
    _sign(column)
    ours, theirs = [], {name: [] for name in PEERS}  # type: tuple[list[float], dict[str, list[float]]]
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        path = Path(folder) / "texts.json"
        path.write_text(json.dumps(texts), encoding="utf-8")
        peers = {name: stack.enter_context(_started(name, path)) for name in PEERS}
        for _ in range(ROUNDS):
            for name, peer in peers.items():
                theirs[name].append(peer.seconds())
                ours += [_seconds(column) for _ in range(RUNS)]
    megabytes = sum(len(text.encode()) for text in texts) / 1e6
    median = statistics.median(ours)
    figures: dict[str, Any] = {"mb_per_second": round(megabytes / median, 1)}
    figures |= {f"ratio_vs_{name}": round(statistics.median(theirs[name]) / median, 1) for name in PEERS}
    figures |= {f"{name}_mb_per_second": round(megabytes / statistics.median(theirs[name]), 3) for name in PEERS}
    figures["identical_to_datasketch"] = _is_identical(texts[:NUM_COMPARED])
    return figures | {"documents": len(texts), "megabytes": round(megabytes, 2), "rounds": ROUNDS}


def _texts() -> list[str]:
    """License texts and speeches, in turn."""
    both = []
    for name in ("spdx_licence_texts", "state_of_the_union"):
        with lzma.open(DATA / "text" / f"{name}.jsonl.xz", "rt", encoding="utf-8") as file:
            both.append([json.loads(line)["text"] for line in file])
    texts: list[str] = []
    for pair in zip(*both, strict=False):
        texts += pair
        if sum(map(len, texts)) > NUM_BYTES:
            break
    return texts


def _sign(column: pa.Array) -> object:
    signatures, _, _ = sign(*text_buffers(normalized(column)), NGRAM, NUM_VALUES)
    return band_keys(signatures, NUM_BANDS)


def _seconds(column: pa.Array) -> float:
    start = time.process_time()
    _sign(column)
    return time.process_time() - start


def _is_identical(texts: list[str]) -> bool:
    signatures, _, _ = sign(*text_buffers(normalized(pa.array(texts, pa.large_string()))), NGRAM, NUM_VALUES)
    for text, ours in zip(texts, signatures, strict=True):
        theirs = datasketch.MinHash(num_perm=NUM_VALUES, hashfunc=hash_shingle)
        theirs.update_batch(shingles(text, NGRAM))
        if not np.array_equal(theirs.hashvalues, ours):
            return False
    return True


@contextlib.contextmanager
def _started(name: str, path: Path) -> Iterator[Peer]:
    python = FOLDER / name / "bin" / "python"
    if not python.exists():
        raise SystemExit(f"{name} is not installed below {FOLDER}: run benchmarks/peers/install.sh")
    script = Path(__file__).parent / "peers" / "sign.py"
    environment = os.environ | {"OMP_NUM_THREADS": "1", "RAYON_NUM_THREADS": "1", "PYTHONPATH": ""}
    with subprocess.Popen(
        [python, script, name, path],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=environment,
    ) as process:
        if process.stdout is None or process.stdout.readline() != "ready\n":
            raise SystemExit(f"{name} did not start")
        yield Peer(process)
        process.terminate()


def lines(figures: Figures) -> list[str]:
    """The figures for people."""
    text = [f"{figures['mb_per_second']} MB/s on one core, {NUM_VALUES} values of word {NGRAM}-grams"]
    for name in PEERS:
        text.append(f"{figures[f'ratio_vs_{name}']} times {name} ({figures[f'{name}_mb_per_second']} MB/s)")
    text.append(f"signatures equal to datasketch's for the same hash: {figures['identical_to_datasketch']}")
    return text
