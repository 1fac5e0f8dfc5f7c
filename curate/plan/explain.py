"""A plan and the state of its phases, for people and as JSON."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from curate.core.exchange import Exchange
from curate.core.stage import Columns
from curate.plan.plan import Plan, Rows, Source, step_name

MAX_LISTED = 3  # inputs at each end of a long list


class PhaseState(Protocol):
    """What the engine found out about a phase without writing anything."""

    @property
    def phase(self) -> str:
        """Its name."""

    @property
    def units(self) -> int | None:
        """Units in all; None while earlier phases have not ended."""

    @property
    def done(self) -> int:
        """Units whose results are there."""

    @property
    def why(self) -> str:
        """Why it will run, or will not, in words."""


def explain(plan: Plan, phases: Iterable[PhaseState]) -> dict[str, Any]:
    """The plan as one JSON object."""
    return {
        "plan_id": plan.plan_id,
        "name": plan.name,
        "file": plan.file,
        "output": plan.output,
        "seed": plan.seed,
        "sources": [_source(source) for source in plan.sources],
        "exchanges": _exchanges(plan),
        "rows": _rows(plan.rows),
        "phases": [{"phase": one.phase, "units": one.units, "done": one.done, "why": one.why} for one in phases],
    }


def as_text(explained: dict[str, Any]) -> str:
    """What `explain` gave, for people."""
    lines = [
        f"pipeline {explained['name']} (plan {explained['plan_id'][:12]}, seed {explained['seed']})",
        f"output   {explained['output']}",
    ]
    for source in explained["sources"]:
        lines += ["", *_source_lines(source)]
    for exchange in explained["exchanges"]:
        lines += ["", *_forecast_lines(exchange)]
    lines += ["", *_rows_lines(explained["rows"]), "", "phases"]
    lines += _table([_phase_cells(phase) for phase in explained["phases"]])
    return "\n".join(lines)


def _source(source: Source) -> dict[str, Any]:
    names = [step_name(source.use), *(step.name for step in source.steps)]
    uses = [source.use, *(step.use for step in source.steps)]
    return {
        "name": source.name,
        "root": source.root,
        "num_inputs": len(source.inputs),
        "num_bytes": sum(item.size for item in source.inputs),
        "inputs": [{"key": item.key, "bytes": item.size} for item in source.inputs],
        "steps": [
            {"name": name, "use": use, "columns": {column: str(kind) for column, kind in columns.items()}}
            for name, use, columns in zip(names, uses, source.columns, strict=True)
        ],
    }


def _exchanges(plan: Plan) -> list[dict[str, Any]]:
    """What exchanges say about themselves, each once."""
    stages = {step.name: step.stage for source in plan.sources for step in source.steps}
    told = {name: dict(stage.forecast()) for name, stage in stages.items() if isinstance(stage, Exchange)}
    return [{"name": name, "forecast": forecast} for name, forecast in told.items() if forecast]


def _forecast_lines(exchange: dict[str, Any]) -> Iterator[str]:
    yield f"exchange {exchange['name']}"
    yield from _table([[name.replace("_", " "), _told(value)] for name, value in exchange["forecast"].items()])


def _told(value: Any) -> str:
    if isinstance(value, Mapping):
        return "  ".join(f"{name}: {_told(part)}" for name, part in value.items())
    return f"{value:,}" if isinstance(value, int) else str(value)


def _rows(rows: Rows) -> dict[str, Any]:
    return {
        "length": rows.length,
        "per_shard": rows.per_shard,
        "dtype": {"<u2": "uint16", "<u4": "uint32"}[rows.dtype],
        "packing": rows.packing,
        "tokenizer": rows.tokenizer_name,
        "tokenizer_sha256": rows.tokenizer.sha256,
        "vocab_size": rows.vocab_size,
        "bos": rows.bos,
        "eos": rows.eos,
    }


def _ends(items: Sequence[Any]) -> Sequence[Any]:
    return items if len(items) <= 2 * MAX_LISTED else [*items[:MAX_LISTED], *items[-MAX_LISTED:]]


def _source_lines(source: dict[str, Any]) -> Iterator[str]:
    inputs = _ends(source["inputs"])
    size = f"{counted(source['num_inputs'], 'input')}, {_size(source['num_bytes'])}"
    yield f"source   {source['name']}: {size}, in {source['root']}"
    cells = [[item["key"], _size(item["bytes"])] for item in inputs]
    if source["num_inputs"] > len(inputs):
        cells.insert(MAX_LISTED, ["...", ""])
    yield from _table(cells)
    before: Columns = {}
    steps = []
    for step in source["steps"]:
        steps.append([step["name"], step["use"], _change(before, step["columns"])])
        before = step["columns"]
    yield from _table(steps)


def _rows_lines(rows: dict[str, Any]) -> Iterator[str]:
    yield f"rows     {rows['length']} tokens of {rows['dtype']}, {rows['per_shard']} rows a shard, by {rows['packing']}"
    yield f"         tokenizer {rows['tokenizer']} ({rows['vocab_size']} ids), bos: {rows['bos']}, eos: {rows['eos']}"


def _change(before: Columns, after: Columns) -> str:
    """Columns that came and went: `+text -content`; the names alone for the first step."""
    if not before:
        return " ".join(after)
    changes = [f"+{name}" for name in after if name not in before] + [
        f"-{name}" for name in before if name not in after
    ]
    return " ".join(changes)


def _phase_cells(phase: dict[str, Any]) -> list[str]:
    if phase["units"] is None:
        return [phase["phase"], "units not known yet", phase["why"]]
    to_run = phase["units"] - phase["done"]
    return [phase["phase"], f"{counted(phase['units'], 'unit')}, {phase['done']} done, {to_run} to run", phase["why"]]


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]


def counted(number: int, noun: str) -> str:
    """`1 unit`, `2 units`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _size(num_bytes: int) -> str:
    size, unit = float(num_bytes), "B"
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if size < 1024 or unit == "TiB":
            break
        size /= 1024
    return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
