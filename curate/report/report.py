"""What a run did with its records, bytes and time, from the manifest and runs/, as data and as text."""

import io
import json
from collections import Counter
from collections.abc import Iterable, Iterator

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from curate.core.storage import Storage
from curate.engine.progress import BEGIN
from curate.report.why import steps_of
from manifests.manifest import open_dataset
from manifests.shape import Json
from manifests.sums import BYTES, FATES, broken_sums, sum_rules

NUM_REASONS = 40  # shown on a terminal, which says how many more there are; `report` has all
NUM_PHASES = 15  # likewise
WIDTH = 100
TOKENS = {
    "sent": "sent",
    "in_rows": "in rows",
    "not_needed": "not needed by the mix",
    "tail": "left in the last tails",
    "merged": "of merged records",
    "quarantined": "of quarantined records",
}


def report(url: str) -> Json:
    """Records, drops, bytes, tokens and time of the dataset at `url`; `balanced` where both sides agree.

    "drops" is {stage: {reason: count}}. "funnel" lists the stages in their order: stage, dropped, merged,
    quarantined, left. "mix" is {group: {rows, share, wanted}} of the train rows. "time" sums up the runs
    that left word in runs/: {num_runs, seconds, phases: {phase: {units, seconds}}}.
    Raises: PlanError where no dataset is finished there; StorageError where its manifest is damaged.
    """
    dataset = open_dataset(url)
    manifest = dataset.manifest
    records = {name: manifest["records"][name] for name in ("in", *FATES)}
    splits = {}
    for name, split in manifest["splits"].items():
        figures = ("rows", "tokens", "documents", "digest", "rows_by_group", "tokens_by_source", "tokens_by_license")
        splits[name] = {figure: split[figure] for figure in figures}
    unbalanced = list(broken_sums(manifest, [*manifest["sums"], *sum_rules()]))
    return {
        "dataset_id": manifest["dataset_id"],
        "records": records,
        "funnel": list(_funnel(manifest)),
        "records_by_source": manifest["records"]["by_source"],
        "drops": manifest["drops"],
        "merged": manifest["merged"],
        "quarantined": manifest["quarantined"],
        "bytes": manifest["bytes"],
        "tokens": manifest["tokens"],
        "row_length": manifest["format"]["row_length"],
        "splits": splits,
        "mix": _mix(manifest),
        "time": _time(dataset.storage, manifest["dataset_id"]),
        "unbalanced": sorted(set(unbalanced)),
        "balanced": not unbalanced,
    }


def _funnel(manifest: Json) -> Iterator[Json]:
    """Records left after each stage, in the order of the stages; those that refused none are left out."""
    tables = {"dropped": "drops", "merged": "merged", "quarantined": "quarantined"}
    gone = {
        fate: Counter({stage: sum(reasons.values()) for stage, reasons in manifest[table].items()})
        for fate, table in tables.items()
    }
    left = manifest["records"]["in"]
    for stage in stage_order(manifest):
        counts = {fate: stages[stage] for fate, stages in gone.items()}
        if any(counts.values()):
            left -= sum(counts.values())
            yield {"stage": stage, **counts, "left": left}


def stage_order(manifest: Json) -> list[str]:
    """Readers and steps in an order that every source's keeps, then what packing and mixing do."""
    pipeline = manifest["pipeline"]
    chains = [[step["name"] for step in steps_of(pipeline, one["name"])] for one in pipeline.get("sources", [])]
    order: list[str] = []
    while any(chains):
        heads = [chain[0] for chain in chains if chain]
        head = next((one for one in heads if all(one not in chain[1:] for chain in chains)), heads[0])
        order.append(head)
        chains = [chain[1:] if chain[:1] == [head] else chain for chain in chains]
    merging = next((i for i, stage in enumerate(order) if stage in manifest["merged"]), len(order))
    order.insert(merging, "identity")
    named = {stage for table in ("drops", "merged", "quarantined") for stage in manifest[table]}
    last = [stage for stage in ("mix", "pack") if stage in named]
    return [*order, *sorted(named - {*order, *last}), *last]


def _mix(manifest: Json) -> Json:
    """Train rows by mix group: how many, their share, and the share that the pipeline wanted (null: take all)."""
    train = manifest["splits"].get("train", {"rows": 0, "rows_by_group": {}})
    mix = manifest["pipeline"].get("mix") or []
    wanted = {group["name"]: group["share"] for group in mix}
    groups = {name: train["rows_by_group"].get(name, 0) for name in sorted({*wanted, *train["rows_by_group"]})}
    whole = max(1, train["rows"])
    return {
        name: {"rows": rows, "share": round(rows / whole, 6), "wanted": wanted.get(name)}
        for name, rows in groups.items()
    }


def _time(storage: Storage, dataset_id: str) -> Json:
    """What the runs that made the dataset took, those that failed on the way included."""
    plans = {
        stored.key.removeprefix("work/plans/").partition(".")[0]
        for stored in storage.list("work/plans/")
        if stored.key.endswith(f".{dataset_id}.done")
    }
    runs = [json.loads(storage.read(one.key)) for one in storage.list("runs/") if not one.key.endswith(BEGIN)]
    runs = [one for one in runs if one["plan_id"] in plans]
    phases: dict[str, Json] = {}
    for one in runs:
        for phase, units in one["units"].items():
            sums = phases.setdefault(phase, {"units": 0, "seconds": 0.0})
            sums["units"] += units["ran"]
            sums["seconds"] = round(sums["seconds"] + one["phase_seconds"].get(phase, 0.0), 3)
    return {"num_runs": len(runs), "seconds": round(sum(one["seconds"] for one in runs), 3), "phases": phases}


def render(facts: Json, width: int = WIDTH) -> str:
    """The report as plain text for a terminal."""
    console = Console(file=io.StringIO(), width=width, color_system=None, highlight=False, markup=False)
    with console.capture() as capture:
        console.print(f"Dataset {facts['dataset_id'][:12]}: rows of {facts['row_length']:,} tokens", end="\n\n")
        for table in (_splits(facts), _records(facts), _stages(facts), _reasons(facts), _bytes(facts), _phases(facts)):
            if table is not None:
                console.print(table, end="\n")
        console.print(_verdict(facts), soft_wrap=True)
    return "\n".join(line.rstrip() for line in capture.get().splitlines()) + "\n"


def _splits(facts: Json) -> Table:
    """Rows by split and, where there is a mix, by its groups."""
    found = sorted({group for split in facts["splits"].values() for group in split["rows_by_group"]})
    groups = found if len(found) > 1 else []
    lines = [
        (
            name,
            split["rows"],
            *(split["rows_by_group"].get(group, 0) for group in groups),
            split["tokens"],
            split["documents"],
        )
        for name, split in facts["splits"].items()
    ]
    shares = ", ".join(
        f"{name} {mix['share']:.2%}" + (f" (wanted {mix['wanted']:.2%})" if mix["wanted"] is not None else "")
        for name, mix in facts["mix"].items()
    )
    names = ("split", "rows", *(f"of {group}" for group in groups), "tokens", "documents")
    return _table(f"Rows; train is {shares}" if groups else "Rows", names, lines)


def _records(facts: Json) -> Table:
    by_source = [(name, counts) for name, counts in facts["records_by_source"].items()]
    lines = [
        (name, *(counts[fate] for fate in ("in", *FATES))) for name, counts in [*by_source, ("all", facts["records"])]
    ]
    return _table("Records", ("source", "in", *FATES), lines)


def _stages(facts: Json) -> Table:
    """The funnel, from records read to records kept."""
    lines = [("read", 0, 0, 0, facts["records"]["in"])]
    lines += [tuple(one.values()) for one in facts["funnel"]]
    return _table("Funnel", ("stage", "dropped", "merged", "quarantined", "records left"), lines)


def _phases(facts: Json) -> Table | None:
    """Where the time went, longest first; phases that run at once each count in full."""
    time = facts["time"]
    if not time["num_runs"]:
        return None
    found = [(name, one["units"], one["seconds"]) for name, one in time["phases"].items()]
    found.sort(key=lambda line: (-line[2], line[0]))
    lines = [(name, units, f"{seconds:.1f}") for name, units, seconds in found[:NUM_PHASES]]
    if rest := found[NUM_PHASES:]:
        lines.append((f"{len(rest)} shorter phases; --json lists them", sum(one[1] for one in rest), ""))
    title = f"Time: {time['seconds']:.1f} s in {time['num_runs']} runs; phases, longest first"
    return _table(title, ("phase", "units run", "seconds"), lines)


def _reasons(facts: Json) -> Table:
    """Why records were not kept, most frequent first."""
    found = [
        (number, fate, stage, reason)
        for fate, table in (("dropped", "drops"), ("merged", "merged"), ("quarantined", "quarantined"))
        for stage, reasons in facts[table].items()
        for reason, number in reasons.items()
    ]
    found.sort(key=lambda line: (-line[0], line[1:]))
    shown, rest = found[:NUM_REASONS], found[NUM_REASONS:]
    lines = [(f"{stage}/{reason}", fate, number) for number, fate, stage, reason in shown]
    if rest:
        lines.append((f"{len(rest)} more reasons; --json lists them", "", sum(line[0] for line in rest)))
    return _table("Why records were not kept", ("stage/reason", "fate", "records"), lines)


def _bytes(facts: Json) -> Table:
    kinds = ("stored", "content", *BYTES)
    by_source = [(name, counts) for name, counts in facts["bytes"]["by_source"].items()]
    lines = [(name, *(counts[kind] for kind in kinds)) for name, counts in [*by_source, ("all", facts["bytes"])]]
    return _table("Bytes", ("source", *kinds), lines)


def _verdict(facts: Json) -> str:
    tokens = facts["tokens"]
    fates = ", ".join(f"{tokens[key]:,} {words}" for key, words in TOKENS.items() if tokens[key])
    lines = [f"Tokens: {fates}."]
    if tokens["repeated"]:
        lines.append(f"Later epochs repeat {tokens['repeated']:,} of them.")
    if facts["balanced"]:
        return "\n".join([*lines, "Balanced: every record has one fate and every byte is accounted for."])
    return "\n".join([*lines, "NOT BALANCED:", *(f"  {line}" for line in facts["unbalanced"])])


def _table(title: str, names: tuple[str, ...], lines: Iterable[tuple[str | int, ...]]) -> Table:
    """Words to the left, numbers to the right."""
    lines = list(lines)
    table = Table(title=title, title_justify="left", title_style="", box=box.SIMPLE_HEAD, pad_edge=False)
    for i, name in enumerate(names):
        is_number = bool(lines) and isinstance(lines[0][i], int)
        table.add_column(name, justify="right" if is_number else "left", overflow="fold")
    for line in lines:
        table.add_row(*(Text(f"{cell:,}" if isinstance(cell, int) else cell) for cell in line))
    return table
