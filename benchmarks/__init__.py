"""One file a question: `python -m benchmarks NAME [--json]`.

A benchmark is a module with `measure() -> Figures` and `lines(figures) -> list[str]`. What is compared is run
alternately, in one go, so that a busy machine slows both; the ratio comes first.
"""

from collections.abc import Mapping
from typing import Any

Figures = Mapping[str, Any]  # numbers and strings: one JSON object
