"""A table of JATS (XHTML's model) as a Markdown table, where it is small and rectangular."""

import re
from collections.abc import Callable, Iterator
from typing import Any

from stages.xml import local_name

MAX_ROWS = 40  # of 6,303 real tables, 94 % have fewer (docs/pubmed.md)
MAX_COLUMNS = 12
MAX_CELL_LETTERS = 300  # a cell beyond holds paragraphs
_MAX_SPAN = 64


def table_text(table: Any, cell_text: Callable[[Any], str]) -> str | None:
    """The table's rows, the first as its head; None where it is too large or its rows differ in length.

    A cell that spans others is written once, and the places it covers are left empty, so that no word comes twice.
    """
    rows = list(_rows(table, cell_text))
    if not rows or len(rows) > MAX_ROWS or len({len(row) for row in rows}) != 1:
        return None
    width = len(rows[0])
    if not 2 <= width <= MAX_COLUMNS or any(len(cell) > MAX_CELL_LETTERS for row in rows for cell in row):
        return None
    written = [f"| {' | '.join(row)} |" for row in rows if any(row)]
    written.insert(1, "|" + " --- |" * width)
    return "\n".join(written) if len(written) > 2 else None


def _rows(table: Any, cell_text: Callable[[Any], str]) -> Iterator[list[str]]:
    """The cells of each row; stops one behind what is allowed."""
    covered: dict[int, int] = {}  # column -> rows for which a cell from above still covers it
    for number, row in enumerate(table.iter("{*}tr")):
        if number > MAX_ROWS:
            break
        cells: list[str] = []
        above, covered = covered, {column: rows - 1 for column, rows in covered.items() if rows > 1}
        for cell in row:
            if local_name(cell) not in ("td", "th"):
                continue
            while len(cells) in above:
                cells.append("")
            first, width, height = len(cells), _span(cell, "colspan"), _span(cell, "rowspan")
            cells += [cell_text(cell).replace("|", "\\|"), *[""] * (width - 1)]
            if height > 1:
                covered |= dict.fromkeys(range(first, first + width), height - 1)
        while len(cells) in above:
            cells.append("")
        if row.find("{*}td") is not None or row.find("{*}th") is not None:
            yield cells


def _span(cell: Any, name: str) -> int:
    stated = cell.get(name, "1")
    return min(max(int(stated), 1), _MAX_SPAN) if re.fullmatch(r"\d{1,4}", stated, re.ASCII) else 1
