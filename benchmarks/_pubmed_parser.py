"""Runs pubmed_parser's functions in its own environment: reads paths, one a line, and prints seconds and failures.

Not part of curate's environment, so nothing of curate is imported here.
"""

import contextlib
import io
import json
import sys
import time
from collections.abc import Callable
from typing import Any

import pubmed_parser  # type: ignore[import-not-found]

FUNCTIONS: tuple[tuple[str, Callable[[str], Any]], ...] = (
    ("article", lambda path: pubmed_parser.parse_pubmed_xml(path)),
    ("paragraph", lambda path: pubmed_parser.parse_pubmed_paragraph(path, all_paragraph=True)),
    ("caption", lambda path: pubmed_parser.parse_pubmed_caption(path)),
    ("table", lambda path: pubmed_parser.parse_pubmed_table(path)),
)


def run(paths: list[str]) -> dict[str, float]:
    """Seconds of all functions over all files, and how many calls raised."""
    failures = 0
    start = time.perf_counter()
    for path in paths:
        for _, function in FUNCTIONS:
            try:
                with contextlib.redirect_stdout(io.StringIO()):
                    function(path)
            except Exception:  # whatever the peer raises is what is counted
                failures += 1
    return {"seconds": time.perf_counter() - start, "failures": failures}


if __name__ == "__main__":
    for line in sys.stdin:
        print(json.dumps(run(json.loads(line))), flush=True)
