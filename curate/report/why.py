"""What became of one record, and why: the rule that decided, its number and limit; who was kept; where it stands."""

from collections.abc import Iterator
from typing import Any

from curate.core.names import place_of
from curate.plan.plan import step_name
from curate.report.places import place_of_document
from curate.report.records import find, lines_of
from manifests.manifest import Dataset, open_dataset
from manifests.shape import Json

# Decisions that no step of the file makes.
OWN_RULES = {
    "identity": "one record of each id: the first by source, input and offset stays",
    "pack": "what fills no row is left out",
    "mix": "rows that a share of the mix does not need are left out",
}


def why(url: str, text: str) -> Json:
    """Each fate of a record: `{"asked", "found_by", "records": [...]}`.

    `text` is an id (32 hex digits) or a name: the record's own, a URL, PMID, PMCID, DOI, or the place
    where it lies (`key@offset`). A record comes with the decision about it (`decision`: stage, use,
    reason, value, limit, options), the steps that it passed, the record that was kept in its stead
    (`kept`), and for a kept one shard, row and pieces. Raises: PlanError where no record is meant, or no
    dataset is finished there; StorageError where a file is missing or damaged.
    """
    dataset = open_dataset(url)
    found_by, found = find(dataset, text)
    return {"asked": text, "found_by": found_by, "records": [_explained(dataset, record) for record in found]}


def _explained(dataset: Dataset, line: Json) -> Json:
    """A ledger line as JSON, without what is null."""
    record = described(line)
    record |= _history(dataset.manifest["pipeline"], line, record["numbers"])
    if line["fate"] == "kept":
        record |= place_of_document(dataset, line["id"], line["split"], line["row"])
    if line["kept_id"] is not None:
        record["kept"] = _keeper(dataset, line["kept_id"])
    return record


def described(line: Json) -> Json:
    """What the ledger says of a record, as JSON, without what is null."""
    record = {name: value.hex() if isinstance(value, bytes) else value for name, value in line.items()}
    record = {name: value for name, value in record.items() if value is not None}
    origin = line["origin"]
    record["place"] = place_of(origin["key"], origin["offset"], origin["inner"] or 0)
    record["numbers"] = {name: value for name, value in line["numbers"] or [] if value is not None}
    return record


def _keeper(dataset: Dataset, id: bytes) -> Json:
    """The record that another was merged into: what became of it, and where it is."""
    lines = [line for line in lines_of(dataset, [id]) if line["fate"] != "merged" or line["kept_id"] != id]
    if not lines:
        return {"id": id.hex()}
    line = min(lines, key=lambda line: line["fate"] != "kept")
    record = described(line)
    if line["fate"] == "kept":
        record |= place_of_document(dataset, id, line["split"], line["row"])
    return record


def _history(pipeline: Json, line: Json, numbers: Json) -> Json:
    """`passed`: names of reader and steps before the decision, where the pipeline tells; `decision`, where there is."""
    stage = line["stage"]
    known = {step["name"]: step for step in steps_of(pipeline, line["source"])}
    names = list(known)
    history: Json = {}
    if stage in known:
        history["passed"] = names[: names.index(stage)]
    elif stage in (None, "pack", "mix") and names:
        history["passed"] = names
    if stage is not None:
        history["decision"] = _decision(pipeline, line, known.get(stage), numbers)
    return history


def steps_of(pipeline: Json, source: str) -> Iterator[Json]:
    """The reader of a source, under its name as a step, and its steps, as the pipeline's description has them."""
    for one in pipeline.get("sources", []):
        if one["name"] == source:
            yield {**one, "name": step_name(one["use"])}
            yield from one["steps"]


def _decision(pipeline: Json, line: Json, step: Json | None, numbers: Json) -> Json:
    decision: Json = {"stage": line["stage"], "reason": line["reason"]}
    if step is None:
        rule = OWN_RULES.get(line["stage"])
        mix = {"mix": pipeline["mix"]} if line["stage"] == "mix" and "mix" in pipeline else {}
        return decision | ({"rule": rule} if rule else {}) | mix
    decision |= {"use": step["use"], "options": step["options"]}
    column, option = step.get("limits", {}).get(line["reason"], (None, None))
    if option in step["options"]:
        decision["value"] = {column: numbers.get(column)}
        decision["limit"] = {option: step["options"][option]}
    return decision


def as_lines(value: Json, indent: str = "") -> Iterator[str]:
    """A record for people: what is nested indented, lists of words in a line."""
    for name, item in value.items():
        if isinstance(item, dict):
            yield f"{indent}{name}:"
            yield from as_lines(item, indent + "  ")
        elif isinstance(item, list) and item and isinstance(item[0], dict):
            yield f"{indent}{name}:"
            for one in item:
                yield f"{indent}  " + ", ".join(f"{key} {_word(part)}" for key, part in one.items())
        else:
            yield f"{indent}{name}: {', '.join(map(_word, item)) if isinstance(item, list) else _word(item)}"


def _word(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4f}".rstrip("0").rstrip(".")
    return "none" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
