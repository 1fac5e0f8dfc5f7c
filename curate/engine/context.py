"""What attempts at units of one plan share in one process: storage, opened stages, seals read once."""

import json
from collections.abc import Iterable
from functools import cached_property
from typing import Any

import pyarrow as pa

from curate.core.stage import Input
from curate.core.storage import ObjectFile, Storage, open_storage
from curate.engine.memory import return_free_memory
from curate.engine.passes import Pass, passes
from curate.engine.receipt import Receipt
from curate.engine.watch import Watch
from curate.plan.plan import Plan, Source

Seal = dict[str, Any]


class Context:
    """Opened once a worker. Stages are opened when their source is first met."""

    def __init__(self, plan: Plan) -> None:
        return_free_memory()
        self.plan = plan
        self.watch: Watch | None = None  # set while looking for the record that kills its process
        self._passes: dict[str, list[Pass]] = {}
        self._opened: dict[str, Any] = {}
        self._inputs: dict[str, Storage] = {}
        self._seals: dict[str, Seal] = {}

    @cached_property
    def storage(self) -> Storage:
        """The output."""
        return open_storage(self.plan.output)

    @property
    def limit_bytes(self) -> int:
        """What a merge may hold: a quarter of a worker's memory. It decides how long reads are, never a byte."""
        return self.plan.run.memory_per_worker // 4

    @cached_property
    def source_ranks(self) -> dict[str, int]:
        """Which of two equal records comes first: the earlier source's."""
        return {source.name: rank for rank, source in enumerate(self.plan.sources)}

    def source(self, name: str) -> Source:
        """A source of the plan by name."""
        return self.plan.sources[self.source_ranks[name]]

    def passes(self, source: Source) -> list[Pass]:
        """The passes of a source."""
        if source.name not in self._passes:
            self._passes[source.name] = passes(source)
        return self._passes[source.name]

    def opened(self, name: str, stage: Any, *tables: pa.Table) -> Any:
        """What `stage.open(*tables)` gave; `name` is unique in the plan, and its tables are the same in all units."""
        if name not in self._opened:
            self._opened[name] = stage.open(*tables)
        return self._opened[name]

    def open_input(self, source: Source, item: Input) -> ObjectFile:
        """An input, pinned to the size and tag that the plan saw."""
        if source.root not in self._inputs:
            self._inputs[source.root] = open_storage(source.root)
        return self._inputs[source.root].open(item.key, size=item.size, tag=item.tag)

    def seal(self, name: str) -> Seal:
        """A seal by name, read once."""
        if name not in self._seals:
            self._seals[name] = json.loads(self.storage.read(seal_key(name)))
        return self._seals[name]

    def outputs(self, seals: Iterable[str], role: str) -> list[dict[str, Any]]:
        """All outputs of a role of sealed phases, in the order of their units."""
        return [output for name in seals for output in outputs_of(self.seal(name)["units"], role)]


def outputs_of(receipts: Iterable[Receipt], *roles: str) -> list[dict[str, Any]]:
    """The outputs of these roles, in order."""
    return [output for receipt in receipts for output in receipt["outputs"] if output["role"] in roles]


def seal_key(name: str) -> str:
    """Where a seal lies."""
    return f"work/seals/{name}.json"
