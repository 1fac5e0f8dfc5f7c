"""Typed conversion: what a field's annotation makes of the value written for it.

Understood: str, int, float, bool, Literal, StrEnum, Asset, tuple[X, ...] (one value stands for a
list of one), dict[str, X] (of files also a list or a pattern, which names each by its file), nested
frozen dataclasses, and X | None. A number whose field is named `..._bytes` or `memory_...` may be
written as a size (`64 MiB`), one named `..._seconds` as a duration (`5 min`).
"""

import dataclasses
import math
import os
import re
import types
from collections.abc import Callable, Collection, Mapping
from enum import StrEnum
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from curate.core.errors import PlanError, suggestion
from curate.core.stage import Asset
from curate.plan.load import Items, Scalar, Table, Value, describe

T = TypeVar("T")

# How a found asset is looked up: (value as written, name of the option for messages) -> resolved asset.
FindAsset = Callable[[Scalar, str], Asset]
# How a pattern of files is: (value as written, name of the option for messages) -> a value a file.
ExpandPattern = Callable[[Scalar, str], tuple[Scalar, ...]]

PIPELINE = "the pipeline"  # what messages call the whole file

INTEGER = re.compile(r"[-+]?(0|[1-9][0-9]*(_[0-9]+)*)")
NUMBER = re.compile(r"[-+]?([0-9]+(_[0-9]+)*(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]+)?")
AMOUNT = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,15})?) ?([A-Za-z]+)")
BYTE_UNITS = {"B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
BYTE_UNITS |= {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
SECOND_UNITS = {"ms": 0.001, "s": 1.0, "min": 60.0, "h": 3600.0}
MAX_INTEGER = (1 << 63) - 1


class Converter:
    """Converts values; `find_asset` says where files are."""

    def __init__(self, find_asset: FindAsset, expand: ExpandPattern = lambda value, _: (value,)) -> None:
        self._find_asset = find_asset
        self._expand = expand

    def build(self, cls: type[T], table: Table, *, of: str, skip: tuple[str, ...] = (), noun: str = "option") -> T:
        """An instance of the dataclass `cls` from the keys of `table`, but for those in `skip`.

        `of` names the table in messages. Raises PlanError for an unknown, missing or wrong option.
        """
        hints = get_type_hints(cls)
        known = {key_of(field.name): field for field in dataclasses.fields(cls) if field.init}  # type: ignore[arg-type]
        given = {key: value for key, value in table.values.items() if key not in skip}
        for key in given:
            if key not in known:
                raise unknown_key(table, key, (*known, *skip), of=of, noun=noun)
        for key, field in known.items():
            if key not in given and field.default is field.default_factory is dataclasses.MISSING:
                raise table.place.error(f"{of} needs the {noun} {key!r}")
        options = {}
        for key, value in given.items():
            field_name = known[key].name
            options[field_name] = self.convert(value, hints[field_name], name=key, of=of)
        return _construct(cls, options, table, of)

    def convert(self, value: Value, wanted: Any, *, name: str, of: str) -> Any:
        """`value` as the type `wanted`. Raises PlanError."""
        origin = get_origin(wanted)
        if origin in (Union, types.UnionType):
            return self._optional(value, wanted, name=name, of=of)
        if origin is tuple and get_args(wanted)[1:] == (Ellipsis,):
            items = value.values if isinstance(value, Items) else (value,)
            return tuple(self.convert(item, get_args(wanted)[0], name=name, of=of) for item in items)
        if origin is dict:
            return self._mapping(value, get_args(wanted)[1], name=name, of=of)
        if isinstance(wanted, type) and dataclasses.is_dataclass(wanted) and wanted is not Asset:
            if not isinstance(value, Table):
                raise wrong(value, name, of, "a mapping")
            return self.build(wanted, value, of=_inside(of, name), noun="key")
        if not isinstance(value, Scalar):
            raise wrong(value, name, of, noun_of(wanted, name))
        return self._scalar(value, wanted, name=name, of=of)

    def _optional(self, value: Value, wanted: Any, *, name: str, of: str) -> Any:
        if isinstance(value, Scalar) and value.is_null:
            return None
        inner = [kind for kind in get_args(wanted) if kind is not types.NoneType]
        if len(inner) != 1:
            raise value.place.error(f"{name} of {of} has the type {wanted}, which YAML cannot give")
        return self.convert(value, inner[0], name=name, of=of)

    def _named_assets(self, value: Scalar | Items, name: str, of: str) -> dict[str, Asset]:
        """Files by their names up to the first dot: one, a list, or patterns."""
        found: dict[str, Asset] = {}
        for item in value.values if isinstance(value, Items) else (value,):
            if not isinstance(item, Scalar):
                raise wrong(item, name, of, "a file's path")
            for file in self._expand(item, f"{name} of {of}"):
                key = os.path.basename(file.text).partition(".")[0]
                if key in found:
                    raise item.place.error(f"{name} of {of} has two files named {key!r}; name them: {{a: ..., b: ...}}")
                found[key] = self._find_asset(file, f"{name} of {of}")
        return found

    def _mapping(self, value: Value, wanted: Any, *, name: str, of: str) -> dict[str, Any]:
        if wanted is Asset and not isinstance(value, Table):
            return self._named_assets(value, name, of)
        if not isinstance(value, Table):
            raise wrong(value, name, of, "a mapping")
        of = _inside(of, name)
        return {key: self.convert(item, wanted, name=key, of=of) for key, item in value.values.items()}

    def _scalar(self, value: Scalar, wanted: Any, *, name: str, of: str) -> Any:
        if wanted is Asset:
            _string(value, name, of)
            return self._find_asset(value, f"{name} of {of}")
        if get_origin(wanted) is Literal or (isinstance(wanted, type) and issubclass(wanted, StrEnum)):
            return _choice(value, wanted, name, of)
        read = {str: _string, bool: _boolean, int: _integer, float: _number}.get(wanted)
        if read is None:
            raise value.place.error(f"{name} of {of} has the type {wanted}, which YAML cannot give")
        return read(value, name, of)


def key_of(field_name: str) -> str:
    """The key that fills a field: Python's reserved words carry an underscore (`from_`)."""
    return field_name.removesuffix("_")


def wrong(value: Value, name: str, of: str, wanted: str, hint: str = "") -> PlanError:
    """The error for a value of the wrong kind."""
    quoted = "the text " if isinstance(value, Scalar) and not value.plain else ""
    return value.place.error(f"{name} of {of} must be {wanted}, not {quoted}{describe(value)}{hint}")


def unknown_key(table: Table, key: str, known: Collection[str], *, of: str, noun: str) -> PlanError:
    """The error for a key that `table` may not have."""
    hint = suggestion(key, known) or f"; known are {', '.join(sorted(known))}"
    return table.keys[key].error(f"unknown {noun} of {of}: {key[:80]!r}{hint}")


def _inside(of: str, name: str) -> str:
    return name if of == PIPELINE else f"{of}.{name}"


def plain_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options as canonical JSON takes them; an asset is its digest, never its place."""
    return {name: _plain(value) for name, value in options.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, Asset):
        return {"sha256": value.sha256}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    return str(value) if isinstance(value, StrEnum) else value


def _construct(cls: type[T], options: dict[str, Any], table: Table, of: str) -> T:
    """Call the dataclass; what its checks refuse is located at the option that they name first."""
    try:
        return cls(**options)
    except (ValueError, PlanError) as error:
        words = re.findall(r"\w+", str(error))
        named = [word for word in words if word in table.values]
        place = table.values[named[0]].place if named else table.place
        raise place.error(f"{of}: {error}") from None


def noun_of(wanted: Any, name: str) -> str:
    """What one value of this type is called, with the choices where there are some."""
    if get_origin(wanted) is Literal:
        return _one_of(get_args(wanted))
    if isinstance(wanted, type) and issubclass(wanted, StrEnum):
        return _one_of([str(member) for member in wanted])
    if _takes_bytes(name) and wanted is int:
        return "a size such as 64 MiB"
    if _takes_seconds(name) and wanted in (int, float):
        return "a duration such as 90 s"
    nouns = {str: "a text", bool: "true or false", int: "a whole number", float: "a number", Asset: "a file's path"}
    return nouns.get(wanted, f"one value of type {wanted}")


def _one_of(choices: Any) -> str:
    names = [str(choice) for choice in choices]
    return names[0] if len(names) == 1 else f"one of {', '.join(names)}"


def _takes_bytes(name: str) -> bool:
    return name.endswith("_bytes") or name.startswith("memory_")


def _takes_seconds(name: str) -> bool:
    return name.endswith("_seconds")


def _string(value: Scalar, name: str, of: str) -> str:
    if value.plain and value.text == "":
        raise wrong(value, name, of, "a text")
    if "\0" in value.text or any(0xD800 <= ord(character) <= 0xDFFF for character in value.text):
        raise value.place.error(f"{name} of {of} holds a character that is not text: {value.text[:80]!r}")
    return value.text


def _boolean(value: Scalar, name: str, of: str) -> bool:
    if not value.plain or value.text not in ("true", "false"):
        raise wrong(value, name, of, "true or false")
    return value.text == "true"


def _integer(value: Scalar, name: str, of: str) -> int:
    if value.plain and INTEGER.fullmatch(value.text) and len(value.text) < 40:
        number = int(value.text)
    else:
        amount = _amount(value, name)
        if amount is None or amount != int(amount):
            raise wrong(value, name, of, noun_of(int, name))
        number = int(amount)
    if abs(number) > MAX_INTEGER:
        raise value.place.error(f"{name} of {of} is beyond 64 bits: {value.text}")
    return number


def _number(value: Scalar, name: str, of: str) -> float:
    if value.plain and NUMBER.fullmatch(value.text):
        number = float(value.text) + 0.0  # -0.0 becomes 0.0: one number, one key
    else:
        amount = _amount(value, name)
        if amount is None:
            raise wrong(value, name, of, noun_of(float, name))
        number = amount
    if not math.isfinite(number):
        raise value.place.error(f"{name} of {of} is too large: {value.text[:80]}")
    return number


def _amount(value: Scalar, name: str) -> float | None:
    """`64 MiB` in bytes or `5 min` in seconds, where the field's name says that it counts these."""
    units: Mapping[str, float] = BYTE_UNITS if _takes_bytes(name) else SECOND_UNITS if _takes_seconds(name) else {}
    match = AMOUNT.fullmatch(value.text)
    if match is None or match[2] not in units:
        return None
    return float(match[1]) * units[match[2]]


def _choice(value: Scalar, wanted: Any, name: str, of: str) -> Any:
    """A member of a Literal or StrEnum, compared by its text."""
    members = get_args(wanted) if get_origin(wanted) is Literal else tuple(wanted)
    for member in members:
        if str(member) == value.text:
            return member
    names = [str(member) for member in members]
    raise wrong(value, name, of, _one_of(names), suggestion(value.text, names))
