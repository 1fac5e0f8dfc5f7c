"""Refuses to start where `stages`, `classifiers` or `manifests` is not the one that belongs to this curate.

Four plain names can collide: another distribution may have overwritten ours, or a folder of the
same name may come first on the path. Either would run other code than the plan names.
"""

import importlib
import importlib.metadata
from pathlib import Path

import curate
from curate.core.errors import PlanError

SIBLINGS = ("stages", "classifiers", "manifests")


def check_installation() -> None:
    """Raise PlanError, one sentence, for the first sibling that is not ours."""
    home = Path(curate.__file__).resolve().parent.parent
    for name in SIBLINGS:
        try:
            module = importlib.import_module(name)
        except Exception as error:  # a stranger's package may raise anything
            place, found = None, f"it cannot be imported ({type(error).__name__}: {' '.join(str(error).split())})"
        else:
            place = module.__file__ or str(getattr(module, "__path__", "a namespace"))
            version = getattr(module, "CURATE_VERSION", None)
            found = f"it is {place}"
            if version == curate.__version__ and Path(place).resolve().parent.parent == home:
                continue
        raise PlanError(
            f"the package {name!r} is not the one of curate {curate.__version__} in {home}: {found}{_owners(name)}"
        )


def _owners(name: str) -> str:
    owners = sorted(set(importlib.metadata.packages_distributions().get(name, ())))
    others = f", and {' and '.join(owners)} are installed with that name" if len(owners) > 1 else ""
    return f"{others}; remove or rename the other one, then reinstall curate-engine"
