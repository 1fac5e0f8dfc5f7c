"""The keys of pipeline.yaml outside `documents`, their types and their defaults."""

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Literal

from curate.core.stage import Asset
from curate.plan.load import Place, Table
from curate.plan.plan import Run

GRAMMAR = "1"
NOT_BUILT = "is in the grammar but not built in this version"

# Stages that the grammar's example uses; saying that one is not built helps more than "not found".
# An entry has no effect once the stage exists.
PLANNED_STAGES = frozenset(
    {
        "stages.dedup.Decontaminate",
        "stages.dedup.ExactDedup",
        "stages.dedup.MinHashDedup",
        "stages.license.KeepLicenses",
        "stages.medline.ReadMedline",
        "stages.pubmed.OneDocumentPerPmid",
        "stages.quality.BiomedicalQuality",
        "stages.repetition.GopherRepetition",
        "stages.score.FastTextScore",
        "stages.score.KeepTop",
        "stages.text.RepairText",
        "stages.url.BlockDomains",
    }
)

Mark = Literal["document", "none"]


def exact(share: float) -> Fraction:
    """A share as it is written: 0.1 is one tenth, so that ten of them are all."""
    return Fraction(repr(share))


def _check(holds: bool, message: str) -> None:
    if not holds:
        raise ValueError(message)


@dataclass(frozen=True, kw_only=True)
class Tokenizer:
    """`dataset.tokenizer`."""

    model: Asset  # of SentencePiece, as the base model has it
    bos: Mark = "document"  # which texts begin with the mark
    eos: Mark = "document"  # which end with one


@dataclass(frozen=True, kw_only=True)
class RowsKeys:
    """`dataset.rows`."""

    length: int = 4096  # tokens a row: the context of Llama-2
    packing: Literal["concat", "best_fit_fill"] = "concat"
    per_shard: int = 16384  # rows: 128 MiB a shard of 4,096 two-byte tokens

    def __post_init__(self) -> None:
        _check(2 <= self.length <= 1 << 24, f"length must be from 2 to {1 << 24}, not {self.length}")
        _check(1 <= self.per_shard <= 1 << 31, f"per_shard must be from 1 to {1 << 31}, not {self.per_shard}")


@dataclass(frozen=True, kw_only=True)
class MixGroup:
    """One group of `dataset.mix`."""

    sources: tuple[str, ...]  # names of reading nodes
    take: Literal["all"] | None = None  # every row; either this or `share`
    share: float | None = None  # of all train rows, this group's included
    epochs: int | None = None  # how often a row may be used: 1

    def __post_init__(self) -> None:
        _check((self.take is None) != (self.share is None), "a group has either 'take: all' or 'share'")
        _check(self.share is None or 0 < self.share < 1, f"share must be between 0 and 1, not {self.share}")
        _check(self.epochs is None or self.epochs >= 1, f"epochs must be at least 1, not {self.epochs}")


@dataclass(frozen=True, kw_only=True)
class DatasetKeys:
    """`dataset`."""

    from_: tuple[str, ...]  # nodes of documents
    tokenizer: Tokenizer
    rows: RowsKeys = field(default_factory=RowsKeys)
    splits: dict[str, float] | None = None  # shares of the documents; the rest is train
    mix: dict[str, MixGroup] | None = None  # groups of sources; one group without it
    exports: tuple[Literal["hf", "megatron", "mds", "nanotron", "olmo"], ...] | None = None  # made in the run

    def __post_init__(self) -> None:
        splits = self.splits or {}
        _check(splits.keys() <= {"validation", "test"}, "splits may name validation and test; the rest is train")
        _check(all(share > 0 for share in splits.values()), "the shares of splits must be above 0")
        _check(sum(map(exact, splits.values())) < 1, "the shares of splits leave nothing to train")
        exports = self.exports or ()
        _check(len(set(exports)) == len(exports), "exports names one format twice")


@dataclass(frozen=True, kw_only=True)
class Limits:
    """`limits`."""

    max_quarantined: float = 0.001  # share of a source's records

    def __post_init__(self) -> None:
        _check(0 <= self.max_quarantined <= 1, f"max_quarantined must be from 0 to 1, not {self.max_quarantined}")


@dataclass(frozen=True, kw_only=True)
class Watch:
    """`run.watch`."""

    no_progress_minutes: float
    then: Literal["stop"] = "stop"


@dataclass(frozen=True, kw_only=True)
class RunKeys(Run):
    """`run`."""

    watch: Watch | None = None

    def __post_init__(self) -> None:
        _check(self.unit_seconds > 0, f"unit_seconds must be above 0, not {self.unit_seconds}")
        _check(self.unit_bytes is None or self.unit_bytes > 0, f"unit_bytes must be above 0, not {self.unit_bytes}")
        seconds = self.take_over_after_seconds
        _check(seconds > 0, f"take_over_after_seconds must be above 0, not {seconds}")
        _check(self.memory_per_worker > 0, f"memory_per_worker must be above 0, not {self.memory_per_worker}")

    def settings(self) -> Run:
        """What the engine is given."""
        return Run(**{name: getattr(self, name) for name in Run.__dataclass_fields__})


@dataclass(frozen=True, kw_only=True)
class PipelineKeys:
    """The top level, without `curate` and `documents`."""

    dataset: DatasetKeys
    name: str | None = None  # of the dataset, for people; else the file's
    seed: int = 0  # the only source of chance
    output: str | None = None  # folder or s3://bucket/prefix
    limits: Limits = field(default_factory=Limits)
    run: RunKeys = field(default_factory=RunKeys)


def place_of(table: Table, *path: str) -> Place:
    """Where the key at `path` stands, or the nearest key above it that is there."""
    place = table.place
    for key in path:
        if key not in table.values:
            break
        place = table.keys[key]
        inner = table.values[key]
        if not isinstance(inner, Table):
            break
        table = inner
    return place


def refuse_unbuilt(keys: PipelineKeys, table: Table) -> None:
    """Raise PlanError for what the grammar has and this version cannot do yet."""
    unbuilt = {
        ("dataset", "exports"): not set(keys.dataset.exports or ()) <= {"hf"},
        ("run", "watch"): keys.run.watch is not None,
    }
    for path, is_used in unbuilt.items():
        if is_used:
            raise place_of(table, *path).error(f"'{'.'.join(path)}' {NOT_BUILT}")
