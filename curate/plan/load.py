"""pipeline.yaml as plain values that know their line: no type is guessed here, every scalar keeps its source text.

What a scalar means is decided where it is used, by the annotation of the field it fills (see
`values`); so `no`, `on`, `12:30:00` and `1_000` stay text where text is wanted.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml

from curate.core.errors import PlanError

MAX_BYTES = 1 << 20
MAX_NODES = 20_000  # after aliases are followed, which stops alias bombs
MAX_DEPTH = 32
MAX_MESSAGE = 2000  # characters; a value of the file may be longer


@dataclass(frozen=True)
class Place:
    """A line of a file, as the user named the file; line 0: what has no lines, and `file` says what it is."""

    file: str
    line: int

    @property
    def within(self) -> str:
        """The place as said within its file."""
        return f"line {self.line}" if self.line else self.file

    def error(self, message: str) -> PlanError:
        """A one-line PlanError that begins with the place."""
        where = f"{self.file}:{self.line}" if self.line else self.file
        return PlanError(f"{where}: {' '.join(message.split())[:MAX_MESSAGE]}")


@dataclass(frozen=True)
class Scalar:
    """One value as it was written; `plain` = without quotes."""

    place: Place
    text: str
    plain: bool

    @property
    def is_null(self) -> bool:
        """Whether it says that there is no value."""
        return self.plain and self.text in ("", "~", "null")


@dataclass(frozen=True)
class Items:
    """A list."""

    place: Place
    values: "tuple[Value, ...]"


@dataclass(frozen=True)
class Table:
    """A mapping with the places of its keys."""

    place: Place
    values: "Mapping[str, Value]"
    keys: Mapping[str, Place]


Value = Scalar | Items | Table


def describe(value: Value) -> str:
    """The value in a message: a scalar as written, else its kind."""
    if isinstance(value, Scalar):
        return "nothing" if value.is_null else repr(value.text[:80])
    return "a list" if isinstance(value, Items) else "a mapping"


def load(file: str) -> Table:
    """The mapping that a pipeline file holds. Raises PlanError, one line, `file:line: ...`."""
    top = Place(file, 1)
    text = _read(file)
    try:
        loader = _Loader(text, file)
        root = loader.get_single_node()
    except yaml.reader.ReaderError as error:
        place = Place(file, text.count("\n", 0, error.position) + 1)
        raise place.error(f"not valid YAML: the character {text[error.position]!a} is not allowed") from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else 1
        raise Place(file, line).error(f"not valid YAML: {error.problem or error.context}") from None
    except (ValueError, OverflowError):  # what PyYAML lets through, for instance from "\UFFFFFFFF"
        raise Place(file, loader.line + 1).error("not valid YAML: a character code out of range") from None
    if root is None:
        raise top.error("the file is empty; a pipeline begins with 'curate: 1'")
    value = _Values(file).value(root)
    if not isinstance(value, Table):
        raise value.place.error(f"a pipeline is a mapping that begins with 'curate: 1', not {describe(value)}")
    return value


def _read(file: str) -> str:
    try:
        with Path(file).open("rb") as stream:
            data = stream.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:  # ValueError: a null character in the name
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise PlanError(f"{file}: cannot be read: {reason}") from None
    if len(data) > MAX_BYTES:
        raise PlanError(f"{file}: larger than {MAX_BYTES} bytes; a pipeline names its inputs with patterns")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise Place(file, line).error("not UTF-8 text") from None


class _Loader(yaml.SafeLoader):
    """Composes nodes and constructs nothing; refuses tags, and nesting and size beyond any real pipeline."""

    def __init__(self, text: str, file: str) -> None:
        super().__init__(text)
        self._file = file
        self._depth = 0
        self._num_nodes = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        """Compose one node, counted."""
        event = self.peek_event()  # type: ignore[no-untyped-call]
        place = Place(self._file, event.start_mark.line + 1)
        self._num_nodes += 1
        if self._num_nodes > MAX_NODES:
            raise place.error(f"more than {MAX_NODES} values")
        if self._depth >= MAX_DEPTH:
            raise place.error(f"nested deeper than {MAX_DEPTH} levels")
        tag = getattr(event, "tag", None)
        if tag is not None:
            raise place.error(f"YAML tags are not allowed, found {tag!a}")
        self._depth += 1
        try:
            return super().compose_node(parent, index)
        finally:
            self._depth -= 1


class _Values:
    """Turns composed nodes into values; an alias counts as often as it is used."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._num_nodes = 0

    def value(self, node: yaml.Node, depth: int = 0) -> Value:
        """The value of a node."""
        place = self._place(node)
        self._num_nodes += 1
        if self._num_nodes > MAX_NODES:
            raise place.error(f"more than {MAX_NODES} values once aliases are followed")
        if depth >= MAX_DEPTH:
            raise place.error(f"nested deeper than {MAX_DEPTH} levels once aliases are followed")
        if isinstance(node, yaml.ScalarNode):
            return Scalar(place, node.value, plain=node.style is None)
        if isinstance(node, yaml.SequenceNode):
            return Items(place, tuple(self.value(item, depth + 1) for item in node.value))
        return self._table(node, depth)

    def _table(self, node: yaml.Node, depth: int) -> Table:
        values: dict[str, Value] = {}
        keys: dict[str, Place] = {}
        for key_node, value_node in node.value:
            key = self.value(key_node, depth + 1)
            if not isinstance(key, Scalar) or key.is_null:
                raise key.place.error(f"a key must be a word, not {describe(key)}")
            if key.text in keys:
                raise key.place.error(f"duplicate key {key.text!r}; first on {keys[key.text].within}")
            keys[key.text] = key.place
            values[key.text] = self.value(value_node, depth + 1)
        return Table(self._place(node), values, keys)

    def _place(self, node: yaml.Node) -> Place:
        return Place(self._file, node.start_mark.line + 1)
