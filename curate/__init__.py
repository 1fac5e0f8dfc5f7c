"""curate: a distributed data-curation engine for LLM pre-training.

From Python, as on the command line (docs/python.md):

    plan = curate.load("pipeline.yaml")    or curate.plan({...}), the same as Python values
    curate.run(plan, workers=2)
"""

import importlib
from typing import Any

__version__ = "0.1.0"

# Resolved on first use, so that `import curate` costs nothing; a trainer may import it beside an old stack.
# __init__.pyi has their types.
_LAZY = {
    "load": ("curate.api", "load"),
    "run": ("curate.api", "run"),
    "Plan": ("curate.api", "Plan"),
    "plan": ("curate.plan", None),
    "CurateError": ("curate.core.errors", "CurateError"),
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'curate' has no attribute {name!r}")
    module, attribute = _LAZY[name]
    found = importlib.import_module(module)
    return found if attribute is None else getattr(found, attribute)


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})
