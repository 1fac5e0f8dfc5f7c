"""Reading a record again from where it lay: its bytes through the reader and the Maps of its source.

Where inputs and models lie is said by the runs of the output (`runs/`), never by the dataset. Inputs
are pinned to the size and time (or ETag) that the plan saw.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc

from curate.core.errors import CurateError, PlanError, StorageError
from curate.core.stage import Input, Map, Reader, Slice
from curate.core.storage import NotFound, ObjectFile, Storage, open_storage
from curate.engine.output import read_plan
from curate.engine.progress import BEGIN
from curate.engine.publish import done_marker
from curate.engine.task import with_source
from curate.plan.restore import difference, restore_stage
from manifests.manifest import Dataset
from manifests.shape import Json

NOT_KNOWN = "where the inputs lie is not known: runs/ of this output holds no run that made the dataset"


@dataclass(frozen=True)
class Reread:
    """A record read again. `text` is None where it could not be had; then, and in doubt, `note` says why."""

    text: str | None
    input: str | None  # a path or URL
    note: str | None


class Origins:
    """The inputs of a dataset. Opened once for many records."""

    def __init__(self, dataset: Dataset) -> None:
        self._dataset = dataset
        self._sources: dict[str, Source] = {}

    @cached_property
    def _begun(self) -> Json | None:
        """What the newest run of this dataset said when it began: plan_id, roots, assets."""
        return begun(self._dataset.storage, self._dataset.manifest["dataset_id"])

    @property
    def assets(self) -> dict[str, str]:
        """Where models lie, by SHA-256."""
        return dict(self._begun["assets"]) if self._begun else {}

    def read(self, id: bytes, origin: Json, before: str | None = None) -> Reread:
        """The text of a record, as it came to the step named `before`, else as it went to the tokenizer.

        A text that is made only later than at `before` is given all the same: there is no other.
        """
        place = None
        try:
            source = self._source(origin["source"])
            place = f"{source.root.rstrip('/')}/{origin['key']}"
            text, notes = source.read(id, origin, before)
            return Reread(text, place, "; ".join(dict.fromkeys(notes)) or None)
        except CurateError as error:
            return Reread(None, place, " ".join(str(error).split()))

    def _source(self, name: str) -> "Source":
        if name not in self._sources:
            if self._begun is None:
                raise PlanError(NOT_KNOWN)
            plan = read_plan(self._dataset.storage, self._begun["plan_id"])["description"]
            described = next(one for one in plan["sources"] if one["name"] == name)
            self._sources[name] = Source(described, self._begun["roots"][name], self.assets)
        return self._sources[name]


def begun(storage: Storage, dataset_id: str) -> Json | None:
    """What the newest of the runs that belong to a dataset said when it began."""
    for stored in sorted(storage.list("runs/"), key=lambda stored: stored.key, reverse=True):
        if stored.key.endswith(BEGIN):
            facts: Json = json.loads(storage.read(stored.key))
            if storage.stat(done_marker(facts["plan_id"], dataset_id)) is not None:
                return facts
    return None


class Source:
    """One source: its inputs, its reader, and the Maps that its text goes through."""

    def __init__(self, described: Json, root: str, assets: dict[str, str]) -> None:
        self.root = root
        self._described = described
        self._assets = assets
        self._inputs = {key: Input(key, size, tag) for key, size, tag in described["inputs"]}
        self._notes: list[str] = []  # differences between the stages here and those that made the dataset

    def read(self, id: bytes, origin: Json, before: str | None) -> tuple[str | None, list[str]]:
        """The text, and what is to be said of it. Raises a CurateError."""
        item = self._inputs.get(origin["key"])
        if item is None:
            raise StorageError(f"the plan had no input {origin['key']!r}")
        try:
            file = open_storage(self.root).open(item.key, size=item.size, tag=item.tag)
        except NotFound as error:
            raise StorageError(f"the input is not there: {error}") from error
        with file:
            row = _find(self._reader, item, file, id, origin)
        if row is None:
            return None, [*self._notes, "the reader gives no document there: the record is broken, or not of its kind"]
        row = self._mapped(with_source(row, origin["source"]), before)
        text = row.column("text")[0].as_py() if "text" in row.schema.names else None
        return text, self._notes if text is not None else [*self._notes, "the record has no text"]

    @cached_property
    def _reader(self) -> Reader:
        reader: Reader = restore_stage(self._described, self._assets, paths=())
        self._note(difference(self._described, reader))
        return reader

    @cached_property
    def _maps(self) -> list[tuple[str, Callable[[pa.RecordBatch], pa.RecordBatch]]]:
        """The Maps that make text, and what they need, by the names of their steps."""
        needed, chosen = {"text"}, []
        for step in reversed(self._described["steps"]):
            stage = self._map(step)
            if stage is not None and needed & set(stage.adds):
                needed |= set(stage.columns_read())
                self._note(difference(step, stage))
                chosen.append((step["name"], stage.open()))
        return chosen[::-1]

    def _map(self, step: Json) -> Map | None:
        """The stage of a step if it is a Map that can be made here."""
        try:
            stage = restore_stage(step, self._assets)
        except PlanError as error:
            self._note(f"step {step['name']!r} was left out: {error}")
            return None
        return stage if isinstance(stage, Map) else None

    def _mapped(self, row: pa.RecordBatch, before: str | None) -> pa.RecordBatch:
        names = [step["name"] for step in self._described["steps"]]
        stop = names.index(before) if before in names else len(names)
        for name, function in self._maps:
            if names.index(name) >= stop and "text" in row.schema.names:
                break
            row = function(row)
        return row

    def _note(self, text: str) -> None:
        if text and text not in self._notes:
            self._notes.append(text)


def _find(reader: Reader, item: Input, file: ObjectFile, id: bytes, origin: Json) -> pa.RecordBatch | None:
    """The row of a record. Where reading can begin inside an input, it begins at the record."""
    start, stop = 0, item.size
    if reader.has_entry_points(item.key):
        start, stop = origin["offset"], min(item.size, origin["offset"] + 1)
    for records in reader.open()(Slice(item, start, stop, proven=True), file):
        batch = records.batch
        places = batch.column("origin")
        here = pc.equal(batch.column("id"), pa.scalar(id, pa.binary(16)))
        for name in ("offset", "inner"):
            here = pc.and_(here, pc.equal(places.field(name), pa.scalar(origin[name], pa.int64())))
        found = batch.filter(here)
        if found.num_rows:
            return found.slice(0, 1)
    return None
