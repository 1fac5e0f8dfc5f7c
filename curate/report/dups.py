"""Clusters of duplicates as a person reads them: how many of which size; the kept one beside what it stands for."""

import difflib
from collections import Counter
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from curate.core.errors import PlanError
from curate.report.origin import Origins
from curate.report.records import lines_of, table_of
from curate.report.why import described
from manifests.manifest import Dataset, open_dataset
from manifests.shape import Json

MAX_CLUSTERS = 1000
MAX_SHOWN = 3  # removed records of a cluster whose text is read again
MAX_WORDS = 400  # of a text that is compared: the time of a comparison grows with their square
CONTEXT = 8  # words around a difference
SIZES = (2, 3, 5, 10, 100, 1000)  # of clusters, the kept one included: where classes of size begin


def dups(url: str, num_clusters: int) -> Json:
    """`{"num_removed", "num_clusters", "sizes", "clusters"}`: what was merged into other records, the largest first.

    `sizes`: how many clusters there are of each class of size. A cluster: `size`, `kept`, `removed` (the
    first MAX_SHOWN by id), each as the ledger has it, with `text` as it came to the stage that merged it,
    or null and a `note`; a removed one also has `differences` from the kept one, in the words that both
    begin with. Holds a number for each kept record. Raises PlanError where no dataset is finished there.
    """
    if not 1 <= num_clusters <= MAX_CLUSTERS:
        raise PlanError(f"-n: want a number from 1 to {MAX_CLUSTERS}, not {num_clusters}")
    dataset = open_dataset(url)
    counts: Counter[bytes] = Counter()
    for merged in _merged(dataset):
        counted = pc.value_counts(merged.column("kept_id").combine_chunks())
        counts.update(dict(zip(counted.field("values").to_pylist(), counted.field("counts").to_pylist(), strict=True)))
    largest = sorted(counts.items(), key=lambda one: (-one[1], one[0]))[:num_clusters]
    return {
        "num_removed": counts.total(),
        "num_clusters": len(counts),
        "sizes": _sizes(counts),
        "clusters": list(_clusters(dataset, [kept for kept, _ in largest], counts)),
    }


def _merged(dataset: Dataset) -> Iterator[pa.Table]:
    """(id, kept_id) of the records that were merged into another, part after part."""
    for part in dataset.manifest["ledger"]["parts"]:
        table = table_of(dataset, part, pc.field("fate") == "merged", ["id", "kept_id"])
        yield table.filter(pc.not_equal(table.column("id"), table.column("kept_id")))


def _sizes(counts: Counter[bytes]) -> Json:
    found: Counter[str] = Counter()
    for removed in counts.values():
        start = max(size for size in SIZES if size <= removed + 1)
        stop = next((size - 1 for size in SIZES if size > start), None)
        found[str(start) if stop == start else f"{start}-{stop}" if stop else f"{start}+"] += 1
    return dict(sorted(found.items(), key=lambda one: int(one[0].partition("-")[0].rstrip("+"))))


def _clusters(dataset: Dataset, kept: list[bytes], counts: Counter[bytes]) -> Iterator[Json]:
    removed: dict[bytes, list[bytes]] = {one: [] for one in kept}
    wanted = pa.array(kept, pa.binary(16))
    for merged in _merged(dataset):
        some = merged.filter(pc.is_in(merged.column("kept_id"), value_set=wanted))
        for id, keeper in zip(*(some.column(name).to_pylist() for name in ("id", "kept_id")), strict=True):
            removed[keeper] = sorted([*removed[keeper], id])[:MAX_SHOWN]
    shown = [*kept, *(one for some in removed.values() for one in some)]
    lines = {line["id"]: line for line in lines_of(dataset, shown) if line["kept_id"] != line["id"]}
    origins = Origins(dataset)
    for keeper in kept:
        stage = lines[removed[keeper][0]]["stage"]
        first = _read(origins, lines[keeper], stage)
        others = [_read(origins, lines[one], lines[one]["stage"]) for one in removed[keeper]]
        for other in others:
            other["differences"] = differences(first["text"], other["text"])
        yield {"size": counts[keeper] + 1, "kept": first, "removed": others}


def _read(origins: Origins, line: Json, stage: str) -> Json:
    again = origins.read(line["id"], line["origin"], before=stage)
    return described(line) | {"input": again.input, "text": again.text, "note": again.note}


def differences(kept: str | None, removed: str | None) -> str | None:
    """The words of both in one text: `[-gone-]` are of the removed one alone, `{+there+}` of the kept one."""
    if kept is None or removed is None:
        return None
    ours, theirs = kept.split()[:MAX_WORDS], removed.split()[:MAX_WORDS]
    parts = []
    for action, start, stop, first, last in difflib.SequenceMatcher(None, theirs, ours, autojunk=False).get_opcodes():
        if action == "equal":
            parts.append(_shortened(theirs[start:stop]))
            continue
        parts += [f"[-{' '.join(theirs[start:stop])}-]"] if stop > start else []
        parts += [f"{{+{' '.join(ours[first:last])}+}}"] if last > first else []
    return " ".join(parts)


def _shortened(words: list[str]) -> str:
    if len(words) <= 2 * CONTEXT + 1:
        return " ".join(words)
    return f"{' '.join(words[:CONTEXT])} ... {' '.join(words[-CONTEXT:])}"


def as_text(found: Json) -> str:
    """Clusters for a terminal."""
    sizes = ", ".join(f"{count} of {size}" for size, count in found["sizes"].items()) or "none"
    parts = [f"{found['num_removed']} records were removed in {found['num_clusters']} clusters; by size: {sizes}"]
    for cluster in found["clusters"]:
        lines = [f"--- {cluster['size']} records", _line("kept   ", cluster["kept"])]
        for one in cluster["removed"]:
            lines.append(_line(f"removed by {one['stage']}/{one['reason']}", one))
            lines += [f"    {one['differences']}"] if one["differences"] is not None else []
        left = cluster["size"] - 1 - len(cluster["removed"])
        lines += [f"and {left} more"] if left else []
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def _line(what: str, record: Json) -> str:
    note = f" (no text: {record['note']})" if record["text"] is None and record["note"] else ""
    return f"{what} {record.get('name') or record['id']}: {record['source']}, {record['place']}{note}"
