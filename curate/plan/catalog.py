"""The stages there are, described from their classes alone: no list of them is kept anywhere."""

import ast
import dataclasses
import importlib
import inspect
import io
import os
import pkgutil
import textwrap
import tokenize
import types
from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from curate.core.errors import CurateError, suggestion
from curate.core.stage import Asset, Stage
from curate.plan.load import Place, Scalar
from curate.plan.plan import step_name
from curate.plan.resolve import FAMILIES, OURS, find_class
from curate.plan.values import key_of, noun_of

NO_VALUE = "null"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Option:
    """One key that stands beside `use`, or of a part of the pipeline."""

    name: str
    type: str
    required: bool
    default: str | None  # as YAML has it
    comment: str  # what the source says beside the field


@dataclasses.dataclass(frozen=True, kw_only=True)
class Description:
    """A stage as its class tells of it. `adds` is None where only an opened model knows."""

    use: str
    family: str
    version: int
    contract: str  # the first sentence of its docstring
    doc: str  # all of it
    options: tuple[Option, ...]
    reads: tuple[str, ...]
    adds: Mapping[str, str] | None
    removes: tuple[str, ...]
    reasons: tuple[str, ...]
    libraries: tuple[str, ...]
    file: str
    line: int


def shipped() -> list[Description]:
    """The stages of the package that ships with curate, by family, then by import path."""
    order = [family.__name__ for family in FAMILIES]
    return sorted(map(describe, _shipped_classes()), key=lambda one: (order.index(one.family), one.use))


def find(name: str) -> Description:
    """The stage of an import path, or the shipped one with this class or step name. Raises PlanError."""
    place = Place("curate stages", 0)
    if "." in name:
        cls = find_class(Scalar(place, name, plain=True))
        if not is_stage(cls):
            raise place.error(f"{name} is not a complete stage: a dataclass of the family {_family_names()}")
        return describe(cls)
    known = {cls.__name__: cls for cls in _shipped_classes()}
    for short, cls in known.items():
        if name in (short, step_name(short)):
            return describe(cls)
    hint = suggestion(name, known) or "; `curate stages` lists them, and a stage of yours has its import path"
    raise place.error(f"no stage {name!r} ships with curate{hint}")


def describe(cls: type[Stage]) -> Description:
    """What a class says of itself."""
    doc = inspect.getdoc(cls) or ""
    example = _example(cls)
    reads: Any = getattr(example, "columns_read", None)
    file, line = _where(cls)
    return Description(
        use=f"{cls.__module__}.{cls.__qualname__}",
        family=next(family.__name__ for family in FAMILIES if issubclass(cls, family)),
        version=cls.version,
        contract=" ".join(doc.partition("\n\n")[0].split()),
        doc=doc,
        options=tuple(options_of(cls)),
        reads=tuple(reads()) if reads else tuple(getattr(cls, "reads", ())),
        adds=_adds(cls, example),
        removes=tuple(getattr(cls, "removes", ())),
        reasons=tuple(getattr(cls, "reasons", ())),
        libraries=cls.libraries,
        file=file,
        line=line,
    )


def is_stage(cls: Any) -> bool:
    """Whether a pipeline may name it in `use`."""
    is_family = isinstance(cls, type) and issubclass(cls, FAMILIES)
    return is_family and dataclasses.is_dataclass(cls) and not inspect.isabstract(cls)


def options_of(cls: Any) -> Iterator[Option]:
    """The fields of a dataclass as keys of YAML, with the comments beside them."""
    hints, comments = get_type_hints(cls), _comments(cls)
    for field in dataclasses.fields(cls):
        has_default = field.default is not dataclasses.MISSING
        is_required = not has_default and field.default_factory is dataclasses.MISSING
        yield Option(
            name=key_of(field.name),
            type=type_words(hints[field.name], field.name),
            required=is_required,
            default=_as_yaml(field.default, field.name) if has_default else None,
            comment=comments.get(field.name, ""),
        )


def type_words(wanted: Any, name: str) -> str:
    """An annotation in the words of messages: `a whole number`, `a list, each a text`."""
    origin = get_origin(wanted)
    if origin in (Union, types.UnionType):
        inner = [kind for kind in get_args(wanted) if kind is not types.NoneType]
        return f"{' or '.join(type_words(kind, name) for kind in inner)}, or {NO_VALUE}"
    if origin is tuple:
        return f"a list, each {type_words(get_args(wanted)[0], name)}"
    if origin is dict:
        return f"a mapping, each value {type_words(get_args(wanted)[1], name)}"
    if origin is not Literal and dataclasses.is_dataclass(wanted) and wanted is not Asset:
        return f"a mapping of {', '.join(key_of(field.name) for field in dataclasses.fields(wanted))}"
    return noun_of(wanted, name)


def _shipped_classes() -> list[type[Stage]]:
    """Each stage, from the module that defines it."""
    ours = importlib.import_module(OURS)
    names = [info.name for info in pkgutil.walk_packages(ours.__path__, f"{OURS}.")]
    found = [(name, cls) for name in names for cls in vars(importlib.import_module(name)).values()]
    return [cls for name, cls in found if is_stage(cls) and cls.__module__ == name]


def _family_names() -> str:
    *first, last = [family.__name__ for family in FAMILIES]
    return f"{', '.join(first)} or {last}"


def _example(cls: type[Stage]) -> Stage | None:
    """An instance with stand-ins for required options, where the class takes them."""
    stand_ins = {}
    for name, wanted in get_type_hints(cls).items():
        field = cls.__dataclass_fields__.get(name)  # type: ignore[attr-defined]
        if field is not None and field.default is field.default_factory is dataclasses.MISSING:
            stand_ins[name] = Asset("") if wanted is Asset else () if get_origin(wanted) is tuple else f"<{name}>"
    try:
        return cls(**stand_ins)
    except (CurateError, TypeError, ValueError):
        return None


def _adds(cls: type[Stage], example: Stage | None) -> dict[str, str] | None:
    if not hasattr(cls, "adds"):
        return {}
    try:
        return {name: str(kind) for name, kind in example.adds.items()} if example is not None else None  # type: ignore[attr-defined]
    except (CurateError, OSError, TypeError):  # it depends on a model or an option that only a pipeline has
        return None


def _where(cls: type) -> tuple[str, int]:
    """The file as seen from the folder that its top-level package lies in, and the line."""
    try:
        file, line = inspect.getsourcefile(cls), inspect.getsourcelines(cls)[1]
    except (OSError, TypeError):
        return cls.__module__, 0
    return os.sep.join((file or "").split(os.sep)[-cls.__module__.count(".") - 1 :]), line


def _comments(cls: type) -> dict[str, str]:
    """The comment at the end of each field's lines."""
    try:
        source = textwrap.dedent(inspect.getsource(cls))
    except (OSError, TypeError):
        return {}
    at_line = {
        token.start[0]: token.string.lstrip("# ")
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type == tokenize.COMMENT
    }
    (tree,) = ast.parse(source).body
    fields = [node for node in getattr(tree, "body", ()) if isinstance(node, ast.AnnAssign)]
    return {
        node.target.id: at_line[node.end_lineno]
        for node in fields
        if isinstance(node.target, ast.Name) and node.end_lineno in at_line
    }


def _as_yaml(value: Any, name: str) -> str:
    """A default as one would write it."""
    if value is None:
        return NO_VALUE
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int) and noun_of(int, name) != noun_of(int, "") and value and value % (1 << 20) == 0:
        return f"{value >> 30} GiB" if value % (1 << 30) == 0 else f"{value >> 20} MiB"
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        inner = [(field.name, getattr(value, field.name)) for field in dataclasses.fields(value)]
        return "{" + ", ".join(f"{key_of(key)}: {_as_yaml(item, key)}" for key, item in inner) + "}"
    if isinstance(value, tuple):
        return "[" + ", ".join(_as_yaml(item, name) for item in value) + "]"
    return str(value.value if isinstance(value, StrEnum) else value)


def least_yaml(description: Description) -> str:
    """The step, or the `read`, that a pipeline needs at least."""
    needed = [f"{option.name}: ..." for option in description.options if option.required]
    inside = "{" + ", ".join([f"use: {description.use}", *needed]) + "}"
    if description.family == "Reader":
        return f"read: {inside}"
    return f"- {inside if needed else description.use}"
