"""The plan: a value that says what a run reads, does and writes. Building it is `build`; running it is the engine's."""

import re
from dataclasses import dataclass
from typing import Any

from curate.core.exchange import Exchange
from curate.core.stage import Asset, Columns, Filter, Input, Map, Reader


@dataclass(frozen=True, kw_only=True)
class Step:
    """One named stage. `key` = digest of (class, version, options, asset digests, library versions)."""

    name: str
    use: str  # import path
    stage: Map | Filter | Exchange
    key: str


@dataclass(frozen=True, kw_only=True)
class Source:
    """A reading node and all that its documents go through, up to and including tokenization."""

    name: str
    root: str  # folder or URL; the keys of the inputs lie below it
    use: str  # import path of the reader
    reader: Reader
    inputs: tuple[Input, ...]  # sorted by key
    steps: tuple[Step, ...]
    columns: tuple[Columns, ...]  # after the reader, then after each step: one longer than `steps`
    reader_key: str  # digest of (name, reader without its paths): what reading does, apart from the inputs


@dataclass(frozen=True, kw_only=True)
class Rows:
    """How tokens become rows and shards."""

    tokenizer: Asset
    tokenizer_name: str  # file name, for people
    vocab_size: int
    bos_id: int
    eos_id: int
    probe_sha256: str  # of the ids of fixed probe texts: another library that tokenizes otherwise shows here
    bos: str  # "document" or "none"
    eos: str
    length: int  # tokens a row
    per_shard: int  # rows a shard
    packing: str  # import path of the packing, such as stages.pack.Concat
    key: str  # digest of (tokenizer, bos, eos, length, per_shard, packing, seed)

    @property
    def dtype(self) -> str:
        """NumPy dtype of the tokens on disk."""
        return "<u2" if self.vocab_size <= 1 << 16 else "<u4"


@dataclass(frozen=True, kw_only=True)
class Group:
    """Sources that are mixed as one: all their rows, or a share of the train rows."""

    name: str
    sources: tuple[str, ...]
    share: float | None = None  # of all train rows, this group's included; None: every row
    epochs: int = 1  # how often a row may be used


@dataclass(frozen=True, kw_only=True)
class Run:
    """How to run; nothing here can change a byte of the dataset, and nothing here enters a key."""

    unit_seconds: float = 60.0  # of work in a unit, the piece that is redone after a crash
    unit_bytes: int | None = None  # overrides unit_seconds x the reader's speed
    memory_per_worker: int = 2 << 30
    take_over_after_seconds: float = 900.0  # without news, before a waiting job does the units of others


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A whole pipeline, resolved and checked."""

    name: str
    file: str
    seed: int
    output: str  # folder or URL
    sources: tuple[Source, ...]  # in the order that decides which of two equal records is first
    rows: Rows
    max_quarantined: float  # share of a source's records
    run: Run
    description: dict[str, Any]  # canonical, comparable: what `plan_id` is the digest of
    plan_id: str
    splits: tuple[tuple[str, float], ...] = ()  # (name, share of the documents) beside train
    groups: tuple[Group, ...] = ()  # none: every source is in the group `all`
    exports: tuple[str, ...] = ()


def step_name(use: str) -> str:
    """The default name of a step: its class in snake_case (`stages.warc.ReadWarc` -> `read_warc`)."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", use.rsplit(".", 1)[-1]).lower()
