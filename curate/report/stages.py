"""Stages as a person reads them on a terminal: the list, and one of them."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from curate.core.schema import IDENTITY
from curate.plan.catalog import Description, least_yaml

# What a family does, in the words of the list's headings.
FAMILIES = {
    "Reader": "readers: inputs to documents",
    "Map": "maps: columns that are added or replaced",
    "Filter": "filters: documents that are dropped, each with a reason",
    "Exchange": "exchanges: documents that are compared with all others",
}
MAX_CONTRACT = 96  # characters of a contract in the list


def list_text(found: Iterable[Description]) -> str:
    """All of them by family, a line each."""
    found = list(found)
    width = max((len(one.use) for one in found), default=0)
    lines = []
    for family, members in groupby(found, key=lambda one: one.family):
        lines += [FAMILIES[family], *(f"  {one.use.ljust(width)}  {_shortened(one.contract)}" for one in members), ""]
    return "\n".join([*lines, "curate stages NAME shows one with its options; NAME may be the import path of your own"])


def stage_text(one: Description) -> str:
    """One stage: its docstring, its options, its columns, and the line that a pipeline needs."""
    where = f"{one.file}:{one.line}" if one.line else one.file
    lines = [f"{one.use}   ({one.family}, version {one.version}, {where})", "", one.doc, "", "options"]
    lines += _options(one) or ["  none"]
    return "\n".join([*lines, "", *_columns(one), "", "in a pipeline", f"  {least_yaml(one)}"])


def adds_words(one: Description) -> list[str]:
    """The columns that it adds, with their types; those that every reader adds as one."""
    if one.adds is None:
        return ["depends on its model or options"]
    shared = IDENTITY if one.family == "Reader" else {}
    words = [f"{name} {kind}" for name, kind in one.adds.items() if name not in shared]
    return [f"the identity columns ({', '.join(shared)})", *words] if shared else words


def _shortened(contract: str) -> str:
    return contract if len(contract) <= MAX_CONTRACT else f"{contract[: MAX_CONTRACT - 3].rsplit(' ', 1)[0]} ..."


def _options(one: Description) -> list[str]:
    rows = [
        (option.name, "required" if option.required else option.default or "", option.type, option.comment)
        for option in one.options
    ]
    return _aligned([("", "default", "", ""), *rows]) if rows else []


def _aligned(rows: Sequence[tuple[str, ...]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]


def _columns(one: Description) -> Iterator[str]:
    facts = {"reads": one.reads, "adds": adds_words(one), "removes": one.removes, "reasons": one.reasons}
    for name, words in facts.items():
        if words:
            yield f"{name}: {', '.join(words)}"
