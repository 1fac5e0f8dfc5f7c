"""Some of the records that a rule did not keep, with their text, read again from the inputs."""

import heapq
from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from curate.core.errors import PlanError, suggestion
from curate.core.hashing import order_key
from curate.report.origin import Origins
from curate.report.records import lines_of, table_of
from curate.report.why import described
from manifests.layout import id_array
from manifests.manifest import Dataset, open_dataset
from manifests.shape import Json

TABLES = {"drops": "dropped", "merged": "merged", "quarantined": "quarantined"}  # of the manifest -> fate
MAX_SAMPLES = 10_000
MAX_CHARS = 1500  # of a sample's text on a terminal
_MIX_1, _MIX_2 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)  # of splitmix64

Drawn = tuple[int, bytes]  # order and id


def sample(url: str, rejected_by: str, num_samples: int, seed: int | None = None) -> Json:
    """`{"rejected_by", "num_records", "samples": [...]}`: records not kept by a rule, drawn by a hash of (seed, id).

    `rejected_by` is a stage, a reason, or `stage/reason`; all that it means are drawn from. The seed is
    the dataset's own unless given: the same records each time. Each sample is what the ledger says, with
    `text` as it came to the rule, or null and a `note` that says why it cannot be read again.
    Raises PlanError where no record was refused by such a rule, or those that were are counted only.
    """
    dataset = open_dataset(url)
    if not 1 <= num_samples <= MAX_SAMPLES:
        raise PlanError(f"-n: want a number from 1 to {MAX_SAMPLES}, not {num_samples}")
    rules = _rules(dataset.manifest, rejected_by)
    heap: list[tuple[int, bytes]] = []
    num_records = 0
    salt = np.uint64(order_key(dataset.manifest["seed"] if seed is None else seed, b"sample"))
    for ids in _rejected(dataset, rules):
        num_records += len(ids)
        heap = heapq.nsmallest(num_samples, [*heap, *_smallest(ids, salt, num_samples)])
    if not num_records:
        raise PlanError(
            f"records refused by {rejected_by!r} are counted by type and not listed: there is nothing to read"
        )
    return {
        "rejected_by": rejected_by,
        "num_records": num_records,
        "samples": list(_samples(dataset, heap, rules)),
    }


def _rules(manifest: Json, rejected_by: str) -> set[tuple[str, str]]:
    """The (stage, reason) that are meant."""
    known = {(stage, reason) for table in TABLES for stage, reasons in manifest[table].items() for reason in reasons}
    meant = {(stage, reason) for stage, reason in known if rejected_by in (stage, reason, f"{stage}/{reason}")}
    if not meant:
        words = sorted({word for stage, reason in known for word in (stage, reason, f"{stage}/{reason}")})
        hint = suggestion(rejected_by, words)
        there = ", ".join(sorted(f"{stage}/{reason}" for stage, reason in known)) or "none"
        raise PlanError(f"no record was refused by {rejected_by!r}{hint}; the rules that refused some are: {there}")
    return meant


def _rejected(dataset: Dataset, rules: set[tuple[str, str]]) -> Iterator[pa.ChunkedArray]:
    """The ids that these rules refused, part after part."""
    stages = sorted({stage for stage, _ in rules})
    wanted = pc.field("stage").isin(pa.array(stages, pa.string()))
    for part in dataset.manifest["ledger"]["parts"]:
        table = table_of(dataset, part, wanted, ["id", "stage", "reason"])
        rule = pc.binary_join_element_wise(table.column("stage"), table.column("reason"), "/")
        yield table.filter(pc.is_in(rule, value_set=pa.array(["/".join(one) for one in sorted(rules)]))).column("id")


def _smallest(ids: pa.ChunkedArray, salt: np.uint64, num_samples: int) -> Iterable[Drawn]:
    """The first of these ids in the order of a hash of (seed, id)."""
    raw = np.ascontiguousarray(id_array(ids))
    if not len(raw):
        return []
    mixed = raw.view(">u8").reshape(-1, 2).astype(np.uint64)
    order = mixed[:, 0] ^ mixed[:, 1] ^ salt
    order = (order ^ (order >> np.uint64(30))) * _MIX_1
    order = (order ^ (order >> np.uint64(27))) * _MIX_2
    order ^= order >> np.uint64(31)
    chosen = np.argsort(order, kind="stable")[:num_samples]
    return [(int(order[i]), bytes(raw[i]).ljust(16, b"\0")) for i in chosen]


def _samples(dataset: Dataset, drawn: list[Drawn], rules: set[tuple[str, str]]) -> Iterator[Json]:
    origins = Origins(dataset)
    lines: dict[bytes, list[Json]] = {}
    for line in lines_of(dataset, [id for _, id in drawn]):
        if (line["stage"], line["reason"]) in rules:
            lines.setdefault(line["id"], []).append(line)
    for _, id in drawn:
        line = lines[id].pop(0)  # an id that was refused twice was drawn twice
        again = origins.read(id, line["origin"], before=line["stage"])
        yield described(line) | {"input": again.input, "text": again.text, "note": again.note}


def as_text(found: Json) -> str:
    """Samples for a terminal: who, why, where, then the beginning of the text."""
    parts = [f"{found['num_records']} records were refused by {found['rejected_by']}; {len(found['samples'])} of them:"]
    for one in found["samples"]:
        detail = f" ({one['detail']})" if "detail" in one else ""
        lines = [
            f"--- {one.get('name') or one['id']}: {one['fate']} by {one['stage']}/{one['reason']}{detail}",
            f"    {one['source']}, {one['place']}" + (f", in {one['input']}" if one["input"] else ""),
        ]
        if one["note"]:
            lines.append(f"    note: {one['note']}")
        if one["text"] is not None:
            cut = one["text"][:MAX_CHARS]
            left = len(one["text"]) - len(cut)
            lines += ["", cut + (f" ... ({left:,} characters more; --json has them)" if left else "")]
        parts.append("\n".join(lines))
    return "\n\n".join(parts)
