"""From pipeline.yaml to a plan: load, build, explain. `curate.plan(...)`, of the Python API, is this package called."""

import sys
from types import ModuleType
from typing import Any


class _Package(ModuleType):
    """A function and a package cannot share the name `curate.plan`; a package that can be called is both."""

    def __call__(self, *args: Any, **options: Any) -> Any:
        """See curate.plan.mapping.plan_values."""
        from curate.plan.mapping import plan_values  # loads pyarrow

        return plan_values(*args, **options)


sys.modules[__name__].__class__ = _Package
