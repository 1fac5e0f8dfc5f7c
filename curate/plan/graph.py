"""`documents`: nodes that read or join, and the chain of steps that each source's documents go through."""

import graphlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from curate.core.errors import suggestion
from curate.plan.load import Items, Place, Scalar, Table, Value, describe
from curate.plan.values import unknown_key

NODE_KEYS = ("read", "from", "steps")
NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,99}", re.ASCII)


@dataclass(frozen=True)
class Use:
    """One `use`: an import path, the name given to it, and its options."""

    path: Scalar
    name: Scalar | None
    options: Table


@dataclass(frozen=True)
class Node:
    """A node of `documents`: it has `read`, or `parents` (what `from` names)."""

    name: str
    place: Place
    read: Use | None
    parents: tuple[Scalar, ...]
    steps: tuple[Use, ...]


@dataclass(frozen=True)
class Chain:
    """A reading node, and the steps from there down to the node that the dataset takes."""

    source: str
    read: Use
    steps: tuple[Use, ...]  # shared with the other chains that pass the same nodes


def read_nodes(documents: Value) -> dict[str, Node]:
    """The nodes by name, in the order of the file. Raises PlanError."""
    if not isinstance(documents, Table):
        raise documents.place.error(f"documents must be a mapping of nodes, not {describe(documents)}")
    if not documents.values:
        raise documents.place.error("documents has no nodes")
    return {name: _node(name, documents.keys[name], value) for name, value in documents.values.items()}


def read_names(value: Value, of: str) -> tuple[Scalar, ...]:
    """The names that a `from` gives: one, or a list."""
    items = value.values if isinstance(value, Items) else (value,)
    names = []
    for item in items:
        if not isinstance(item, Scalar) or item.is_null:
            raise item.place.error(f"'from' of {of} must be a node's name or a list of names, not {describe(item)}")
        names.append(item)
    if not names:
        raise value.place.error(f"'from' of {of} names no node")
    return tuple(names)


def source_chains(nodes: Mapping[str, Node], wanted: tuple[Scalar, ...]) -> list[Chain]:
    """A chain a source, depth first in the order of the `from` lists, from those of the dataset.

    Raises PlanError for an unknown node, a cycle, a node used twice, and a node not used.
    """
    uses: list[tuple[Scalar, str, Node | None]] = [(use, "dataset", None) for use in wanted]
    uses += [(use, f"node {node.name!r}", node) for node in nodes.values() for use in node.parents]
    for use, of, _ in uses:
        if use.text not in nodes:
            hint = suggestion(use.text, nodes) or f"; known are {', '.join(nodes)}"
            raise use.place.error(f"'from' of {of} names {use.text[:80]!r}, which is not a node of documents{hint}")
    _refuse_cycles(nodes)
    child: dict[str, Node | None] = {}
    places: dict[str, Place] = {}
    for use, _, node in uses:
        if use.text in child:
            raise use.place.error(
                f"node {use.text!r} is used twice (also on {places[use.text].within}): "
                "its documents would be in the dataset twice"
            )
        child[use.text], places[use.text] = node, use.place
    for node in nodes.values():
        if node.name not in child:
            raise node.place.error(f"node {node.name!r} is not used by any 'from'; use it or remove it")
    return [
        Chain(node.name, node.read, tuple(step for below in _downstream(node, child) for step in below.steps))
        for node in _depth_first(nodes, wanted)
        if node.read
    ]


def check_name(name: str, place: Place, what: str) -> None:
    """Raise PlanError unless `name` is fit for columns, file names and command lines."""
    if not NAME.fullmatch(name):
        raise place.error(f"the name of {what} must be letters, digits, '_' and '-', not {name[:80]!r}")


def _node(name: str, place: Place, value: Value) -> Node:
    check_name(name, place, "a node")
    if not isinstance(value, Table):
        raise value.place.error(f"node {name!r} must be a mapping with 'read' or 'from', not {describe(value)}")
    for key in value.values:
        if key not in NODE_KEYS:
            raise unknown_key(value, key, NODE_KEYS, of=f"node {name!r}", noun="key")
    if ("read" in value.values) == ("from" in value.values):
        found = "both" if "read" in value.values else "neither"
        raise place.error(f"node {name!r} has {found} of 'read' and 'from'; it must have one")
    read = _use(value.values["read"], f"'read' of node {name!r}") if "read" in value.values else None
    parents = () if read else read_names(value.values["from"], f"node {name!r}")
    steps = value.values.get("steps", Items(place, ()))
    if not isinstance(steps, Items):
        raise steps.place.error(f"'steps' of node {name!r} must be a list, not {describe(steps)}")
    return Node(name, place, read, parents, tuple(_use(item, f"a step of node {name!r}") for item in steps.values))


def _use(value: Value, what: str) -> Use:
    """A bare import path, or a mapping with `use`, maybe `name`, and options beside them."""
    if isinstance(value, Scalar) and not value.is_null:
        return Use(value, None, Table(value.place, {}, {}))
    if not isinstance(value, Table):
        raise value.place.error(f"{what} must be an import path or a mapping with 'use', not {describe(value)}")
    path, name = value.values.get("use"), value.values.get("name")
    if path is None:
        raise value.place.error(f"{what} needs the key 'use'")
    if not isinstance(path, Scalar) or path.is_null:
        raise path.place.error(f"'use' of {what} must be an import path, not {describe(path)}")
    if name is not None:
        if not isinstance(name, Scalar):
            raise name.place.error(f"'name' of {what} must be a word, not {describe(name)}")
        check_name(name.text, name.place, "a step")
    return Use(path, name, value)


def _refuse_cycles(nodes: Mapping[str, Node]) -> None:
    try:
        graphlib.TopologicalSorter({node.name: [use.text for use in node.parents] for node in nodes.values()}).prepare()
    except graphlib.CycleError as error:
        cycle: list[str] = error.args[1]
        raise nodes[cycle[0]].place.error(f"nodes read each other in a cycle: {' -> '.join(cycle)}") from None


def _depth_first(nodes: Mapping[str, Node], wanted: tuple[Scalar, ...]) -> Iterator[Node]:
    waiting = [use.text for use in reversed(wanted)]
    while waiting:
        node = nodes[waiting.pop()]
        yield node
        waiting += [use.text for use in reversed(node.parents)]


def _downstream(node: Node, child: Mapping[str, Node | None]) -> Iterator[Node]:
    here: Node | None = node
    while here is not None:
        yield here
        here = child[here.name]
