"""curate: a distributed data-curation engine for LLM pre-training.

From Python: `plan = curate.load("pipeline.yaml")`, then `curate.run(plan, workers=2, replace=False)`.
"""

import importlib
from typing import Any

__version__ = "0.1.0"

# Resolved on first use, so that `import curate` costs nothing; a trainer may import it beside an old stack.
_LAZY = {"load": ("curate.plan.build", "build"), "run": ("curate.engine.runner", "run")}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'curate' has no attribute {name!r}")
    module, attribute = _LAZY[name]
    return getattr(importlib.import_module(module), attribute)
