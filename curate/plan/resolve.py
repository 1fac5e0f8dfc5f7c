"""Import paths to stages: `stages.quality.GopherQuality` and its options become a checked value."""

import dataclasses
import difflib
import importlib
import importlib.metadata
import inspect
import pkgutil
import re
import unicodedata
from types import ModuleType
from typing import Any

from curate.core.errors import suggestion
from curate.core.exchange import Exchange
from curate.core.stage import Filter, Map, Reader
from curate.core.summary import NeedsSummary, Summary
from curate.plan.grammar import NOT_BUILT, PLANNED_STAGES
from curate.plan.graph import Use
from curate.plan.load import Scalar
from curate.plan.values import Converter, plain_options

IMPORT_PATH = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+", re.ASCII)
OURS = "stages"  # the package that ships with curate
FAMILIES = (Reader, Map, Filter, Exchange)  # a Summary is named by a stage, never by a pipeline


def make_reader(use: Use, converter: Converter) -> Reader:
    """The reader that a `read` describes. Raises PlanError."""
    stage: Reader = _make(use, (Reader,), "read", ("use",), converter)
    return stage


def make_step(use: Use, converter: Converter) -> Map | Filter | Exchange:
    """The stage that one of `steps` describes. Raises PlanError."""
    stage: Map | Filter | Exchange = _make(use, (Map, Filter, Exchange), "steps", ("use", "name"), converter)
    return stage


def find_class(path: Scalar) -> Any:
    """What an import path names. Raises PlanError, with the nearest name where there is one."""
    if not IMPORT_PATH.fullmatch(path.text):
        wanted = "package.module.Class, such as stages.quality.GopherQuality"
        raise path.place.error(f"{path.text[:80]!r} is not an import path; write {wanted}")
    module_name, _, name = path.text.rpartition(".")
    module = _import(module_name, path)
    if not hasattr(module, name):
        if path.text in PLANNED_STAGES:
            raise path.place.error(f"{path.text} {NOT_BUILT}")
        hint = suggestion(name, [word for word in vars(module) if not word.startswith("_")])
        raise path.place.error(f"{path.text}: the module {module_name} has no {name!r}{hint}")
    return getattr(module, name)


def identity(use: str, thing: Any, *, without: tuple[str, ...] = ()) -> dict[str, Any]:
    """What decides about a stage's output: class, version, options (files by digest), library versions."""
    options = {field.name: getattr(thing, field.name) for field in dataclasses.fields(thing)}
    libraries = {name: importlib.metadata.version(name) for name in getattr(thing, "libraries", ())}
    libraries["unicode"] = unicodedata.unidata_version  # Python's tables say what is a letter, a digit, a space
    what = {
        "use": use,
        "version": thing.version,
        "options": plain_options({name: value for name, value in options.items() if name not in without}),
        "libraries": libraries,
    }
    if isinstance(thing, NeedsSummary):
        summary = thing.summary()
        what["summary"] = identity(f"{type(summary).__module__}.{type(summary).__qualname__}", summary)
    return what


def limits(thing: Any) -> dict[str, Any]:
    """For people who ask why, and in no key: which column each reason of a Filter holds against which option."""
    found = getattr(thing, "limits", {})
    return {"limits": {reason: list(pair) for reason, pair in found.items()}} if found else {}


def _make(use: Use, families: tuple[type, ...], where: str, skip: tuple[str, ...], converter: Converter) -> Any:
    path, place = use.path.text, use.path.place
    cls = find_class(use.path)
    if isinstance(cls, type) and issubclass(cls, Summary):
        raise place.error(f"{path} is a Summary, which a pipeline does not name; name the stage that needs it")
    if not (isinstance(cls, type) and issubclass(cls, FAMILIES)):
        raise place.error(f"{path} is not a stage: a class derived from Reader, Map, Filter or Exchange")
    if not issubclass(cls, families):
        family = next(family for family in FAMILIES if issubclass(cls, family))
        wanted = " or ".join(family.__name__ for family in families)
        raise place.error(f"{path} is of the family {family.__name__}; '{where}' wants a {wanted}")
    if inspect.isabstract(cls) or not dataclasses.is_dataclass(cls):
        lack = ", ".join(sorted(getattr(cls, "__abstractmethods__", ()))) or "the dataclass decorator"
        raise place.error(f"{path} is not a complete stage: it lacks {lack}")
    for library in cls.libraries:
        try:
            importlib.metadata.version(library)
        except importlib.metadata.PackageNotFoundError:
            raise place.error(f"{path} needs the library {library!r}, which is not installed") from None
    return converter.build(cls, use.options, of=path, skip=skip)


def _import(name: str, path: Scalar) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise path.place.error(f"{path.text} cannot be imported: {error}") from error
        if path.text in PLANNED_STAGES:
            raise path.place.error(f"{path.text} {NOT_BUILT}") from None
        raise path.place.error(f"{path.text}: no module {error.name!r}{_nearest_module(error.name)}") from None
    except Exception as error:  # the module is the user's code: whatever it raises, it cannot be used
        raise path.place.error(f"{path.text} cannot be imported: {type(error).__name__}: {error}") from error


def _nearest_module(name: str) -> str:
    parent, _, _ = name.rpartition(".")
    if not parent:
        is_near = difflib.SequenceMatcher(None, name, OURS).ratio() > 0.8
        return f"; did you mean {OURS!r}?" if is_near else "; install its package, or put its folder on PYTHONPATH"
    package = importlib.import_module(parent)  # was imported a moment ago
    known = [f"{parent}.{module.name}" for module in pkgutil.iter_modules(getattr(package, "__path__", []))]
    return suggestion(name, known)
