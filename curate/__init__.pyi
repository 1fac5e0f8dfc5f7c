"""The types of what __init__.py resolves lazily; test_python_api.py holds the two equal."""

from curate.api import Plan as Plan
from curate.api import load as load
from curate.api import run as run
from curate.core.errors import CurateError as CurateError
from curate.plan.mapping import plan_values as plan

__all__ = ["CurateError", "Plan", "load", "plan", "run"]

__version__: str
