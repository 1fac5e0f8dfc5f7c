"""Typed conversion, by hand: what each annotation makes of what is written."""

from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Literal

import pytest

from curate.core.errors import PlanError
from curate.core.stage import Asset
from curate.plan.load import Place, Scalar, Table, Value, load
from curate.plan.values import Converter, plain_options


class Color(StrEnum):
    RED = "red"
    BLUE = "blue"


@dataclass(frozen=True)
class Inner:
    a: int = 1
    b: str | None = None


@dataclass(frozen=True, kw_only=True)
class Options:
    text: str = ""
    whole: int = 0
    share: float = 0.0
    flag: bool = False
    max_record_bytes: int = 0
    memory_limit: int | None = None
    timeout_seconds: float = 0.0
    wait_seconds: int = 0
    words: tuple[str, ...] = ()
    counts: tuple[int, ...] = ()
    side: Literal["left", "right"] = "left"
    color: Color = Color.RED
    maybe: float | None = 1.0
    model: Asset | None = None
    models: tuple[Asset, ...] = ()
    inner: Inner = field(default_factory=Inner)
    inners: tuple[Inner, ...] = ()
    groups: dict[str, Inner] = field(default_factory=dict)
    odd: Any = None
    pair: tuple[int, str] | None = None
    either: int | str = 0


def find_asset(value: Scalar, what: str) -> Asset:
    return Asset(f"/found/{value.text}", "00")


def table_of(text: str, tmp_path: Path) -> Table:
    path = tmp_path / "p.yaml"
    path.write_text(text)
    return load(str(path))


@pytest.mark.parametrize(
    ("text", "name", "value"),
    [
        ("text: no", "text", "no"),
        ("text: on", "text", "on"),
        ("text: 12:30:00", "text", "12:30:00"),
        ("text: 1_000", "text", "1_000"),
        ("text: 2026-11-30", "text", "2026-11-30"),
        ("text: null", "text", "null"),
        ("text: ~", "text", "~"),
        ("text: ''", "text", ""),
        ("words: [en, no, de]", "words", ("en", "no", "de")),
        ("words: one", "words", ("one",)),
        ("words: []", "words", ()),
        ("counts: 3", "counts", (3,)),
        ("whole: 1_000", "whole", 1000),
        ("whole: -5", "whole", -5),
        ("whole: +5", "whole", 5),
        ("whole: 9223372036854775807", "whole", (1 << 63) - 1),
        ("share: 1", "share", 1.0),
        ("share: .5", "share", 0.5),
        ("share: 1e-3", "share", 0.001),
        ("share: -0.0", "share", 0.0),
        ("flag: true", "flag", True),
        ("flag: false", "flag", False),
        ("max_record_bytes: 64 MiB", "max_record_bytes", 64 << 20),
        ("max_record_bytes: '64MiB'", "max_record_bytes", 64 << 20),
        ("max_record_bytes: 1.5 KiB", "max_record_bytes", 1536),
        ("max_record_bytes: 2 GB", "max_record_bytes", 2_000_000_000),
        ("max_record_bytes: 100", "max_record_bytes", 100),
        ("memory_limit: 2 GiB", "memory_limit", 2 << 30),
        ("memory_limit: null", "memory_limit", None),
        ("timeout_seconds: 5 min", "timeout_seconds", 300.0),
        ("timeout_seconds: 2h", "timeout_seconds", 7200.0),
        ("timeout_seconds: 90", "timeout_seconds", 90.0),
        ("timeout_seconds: 250 ms", "timeout_seconds", 0.25),
        ("wait_seconds: 5 min", "wait_seconds", 300),
        ("side: right", "side", "right"),
        ("color: blue", "color", Color.BLUE),
        ("maybe: ~", "maybe", None),
        ("maybe: 0.5", "maybe", 0.5),
        ("model: m.bin", "model", Asset("/found/m.bin", "00")),
        ("models: [a, b]", "models", (Asset("/found/a", "00"), Asset("/found/b", "00"))),
        ("inner: {a: 3, b: no}", "inner", Inner(3, "no")),
        ("inners: [{a: 3}, {b: x}]", "inners", (Inner(3), Inner(1, "x"))),
        ("groups: {x: {a: 2}}", "groups", {"x": Inner(2)}),
    ],
)
def test_converted(text: str, name: str, value: object, tmp_path: Path) -> None:
    options = Converter(find_asset).build(Options, table_of(text, tmp_path), of="it")
    assert getattr(options, name) == value
    assert type(getattr(options, name)) is type(value)
    assert str(getattr(options, name)) == str(value)  # 0.0 is not -0.0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("text:", "text of it must be a text, not nothing"),
        ("text: [a]", "text of it must be a text, not a list"),
        ("text: {a: b}", "text of it must be a text, not a mapping"),
        ('text: "a\\0b"', r"text of it holds a character that is not text: 'a\x00b'"),
        ("whole: 1.0", "whole of it must be a whole number, not '1.0'"),
        ("whole: 1e3", "whole of it must be a whole number, not '1e3'"),
        ("whole: 0x10", "whole of it must be a whole number, not '0x10'"),
        ("whole: 007", "whole of it must be a whole number, not '007'"),
        ("whole: 1__0", "whole of it must be a whole number, not '1__0'"),
        ("whole: true", "whole of it must be a whole number, not 'true'"),
        ("whole: -9223372036854775808", "whole of it is beyond 64 bits: -9223372036854775808"),
        ("share: inf", "share of it must be a number, not 'inf'"),
        ("share: 1 %", "share of it must be a number, not '1 %'"),
        ("share: '0.5'", "share of it must be a number, not the text '0.5'"),
        ("flag: no", "flag of it must be true or false, not 'no'"),
        ("flag: 1", "flag of it must be true or false, not '1'"),
        ("flag: 'true'", "flag of it must be true or false, not the text 'true'"),
        ("whole: 64 MiB", "whole of it must be a whole number, not '64 MiB'"),
        ("max_record_bytes: 0.3 B", "max_record_bytes of it must be a size such as 64 MiB, not '0.3 B'"),
        ("max_record_bytes: 5 mib", "max_record_bytes of it must be a size such as 64 MiB, not '5 mib'"),
        ("max_record_bytes: -5 MiB", "max_record_bytes of it must be a size such as 64 MiB, not '-5 MiB'"),
        ("timeout_seconds: 5 days", "timeout_seconds of it must be a duration such as 90 s, not '5 days'"),
        ("side: up", "side of it must be one of left, right, not 'up'"),
        ("color: bleu", "color of it must be one of red, blue, not 'bleu'; did you mean 'blue'?"),
        ("model: [a]", "model of it must be a file's path, not a list"),
        ("inner: 5", "inner of it must be a mapping, not '5'"),
        ("inner: {c: 5}", "unknown key of it.inner: 'c'; known are a, b"),
        ("groups: [a]", "groups of it must be a mapping, not a list"),
        ("groups: {x: {a: y}}", "a of it.groups.x must be a whole number, not 'y'"),
        ("odd: 5", "odd of it has the type typing.Any, which YAML cannot give"),
        ("pair: [1, a]", "pair of it must be one value of type tuple[int, str], not a list"),
        ("either: 5", "either of it has the type int | str, which YAML cannot give"),
    ],
)
def test_refused(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(PlanError) as caught:
        Converter(find_asset).build(Options, table_of(text, tmp_path), of="it")
    assert str(caught.value) == f"{tmp_path / 'p.yaml'}:1: {message}"


def test_a_number_of_a_million_digits_is_refused_at_once() -> None:
    place = Place("p.yaml", 1)
    for text in ("9" * 1_000_000, "9" * 1_000_000 + " KiB"):
        values: dict[str, Value] = {"max_record_bytes": Scalar(place, text, plain=True)}
        with pytest.raises(PlanError) as caught:
            Converter(find_asset).build(Options, Table(place, values, {"max_record_bytes": place}), of="it")
        assert len(str(caught.value)) < 200


def test_plain_options_hold_digests_and_no_places() -> None:
    options = {
        "model": Asset("/x/y", "abc"),
        "words": ("a",),
        "inner": Inner(2),
        "color": Color.BLUE,
        "groups": {"x": 1.5},
    }
    assert plain_options(options) == {
        "model": {"sha256": "abc"},
        "words": ["a"],
        "inner": {"a": 2, "b": None},
        "color": "blue",
        "groups": {"x": 1.5},
    }
