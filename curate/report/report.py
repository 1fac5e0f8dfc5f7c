"""What a run did with its records and bytes, from the manifest alone, as data and as text."""

import io
from collections.abc import Iterable

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from manifests.manifest import open_dataset
from manifests.shape import Json
from manifests.sums import BYTES, FATES, broken_sums, sum_rules

NUM_REASONS = 12  # shown on a terminal; `report` has all
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
    """Records, drops, bytes and tokens of the dataset at `url`; `balanced` where both sides agree.

    "drops" is {stage: {reason: count}}. Raises: PlanError where no dataset is finished there;
    StorageError where its manifest is damaged.
    """
    manifest = open_dataset(url).manifest
    records = {name: manifest["records"][name] for name in ("in", *FATES)}
    splits = {}
    for name, split in manifest["splits"].items():
        figures = ("rows", "tokens", "documents", "digest", "rows_by_group", "tokens_by_source", "tokens_by_license")
        splits[name] = {figure: split[figure] for figure in figures}
    unbalanced = list(broken_sums(manifest, [*manifest["sums"], *sum_rules()]))
    return {
        "dataset_id": manifest["dataset_id"],
        "records": records,
        "records_by_source": manifest["records"]["by_source"],
        "drops": manifest["drops"],
        "merged": manifest["merged"],
        "quarantined": manifest["quarantined"],
        "bytes": manifest["bytes"],
        "tokens": manifest["tokens"],
        "row_length": manifest["format"]["row_length"],
        "splits": splits,
        "unbalanced": sorted(set(unbalanced)),
        "balanced": not unbalanced,
    }


def render(facts: Json, width: int = WIDTH) -> str:
    """The report as plain text for a terminal."""
    console = Console(file=io.StringIO(), width=width, color_system=None, highlight=False, markup=False)
    with console.capture() as capture:
        console.print(f"Dataset {facts['dataset_id'][:12]}: rows of {facts['row_length']:,} tokens", end="\n\n")
        for table in (_splits(facts), _records(facts), _reasons(facts), _bytes(facts)):
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
    names = ("split", "rows", *(f"of {group}" for group in groups), "tokens", "documents")
    return _table("Rows", names, lines)


def _records(facts: Json) -> Table:
    by_source = [(name, counts) for name, counts in facts["records_by_source"].items()]
    lines = [
        (name, *(counts[fate] for fate in ("in", *FATES))) for name, counts in [*by_source, ("all", facts["records"])]
    ]
    return _table("Records", ("source", "in", *FATES), lines)


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
        lines.append((f"{len(rest)} more reasons", "", sum(line[0] for line in rest)))
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
