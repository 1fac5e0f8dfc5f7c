"""The sums that must hold in a manifest: sum(left) == sum(right)."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from manifests.shape import Json

FATES = ("kept", "dropped", "merged", "quarantined")
TOKENS = ("in_rows", "not_needed", "tail", "merged", "quarantined")  # what becomes of those sent
BYTES = ("records", "framing", "skipped", "lost")  # what becomes of the content


def sum_rules() -> list[Json]:
    """The sums of every dataset, as the manifest carries them: sum(left) == sum(right).

    A path is the keys down to a number, joined by dots; `*` stands for every key or list item.
    """
    rules = [
        ("every record has one fate", ["records.in"], [f"records.{fate}" for fate in FATES]),
        ("every record is in the ledger or counted only", ["records.in"], ["ledger.rows", "counted_only"]),
        ("ledger parts", ["ledger.rows"], ["ledger.parts.*.rows"]),
        ("parts of the index of names", ["names.rows"], ["names.parts.*.rows"]),
        ("drops have reasons", ["records.dropped"], ["drops.*.*"]),
        ("merges have reasons", ["records.merged"], ["merged.*.*"]),
        ("quarantined records have reasons", ["records.quarantined"], ["quarantined.*.*"]),
        ("every kept record is a document of one split", ["records.kept"], ["splits.*.documents"]),
        ("every byte is accounted for", ["bytes.content"], [f"bytes.{kind}" for kind in BYTES]),
        ("tokens sent", ["tokens.sent"], [f"tokens.{k}" for k in TOKENS]),
        ("tokens in rows", ["tokens.in_rows", "tokens.repeated"], ["splits.*.tokens"]),
    ]  # fmt: skip
    for table, keys in (("records", ("in", *FATES)), ("bytes", ("stored", "content", *BYTES))):
        rules += [(f"{table} {key} by source", [f"{table}.{key}"], [f"{table}.by_source.*.{key}"]) for key in keys]
    shard = {"rows": "num_rows", "tokens": "tokens"}
    rules += [(f"{key} of shards", [f"splits.*.{key}"], [f"splits.*.shards.*.{shard[key]}"]) for key in shard]
    rules += [("rows by group", ["splits.*.rows"], ["splits.*.rows_by_group.*"])]
    rules += [(f"tokens by {k}", ["splits.*.tokens"], [f"splits.*.tokens_by_{k}.*"]) for k in ("source", "license")]
    return [{"name": name, "left": left, "right": right} for name, left, right in rules]


def broken_sums(manifest: Json, rules: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """One line for each rule that does not hold, or that names what is not there."""
    for rule in rules:
        try:
            left, right = (sum(_numbers(manifest, rule[side])) for side in ("left", "right"))
        except KeyError as error:
            yield f"sum {rule['name']!r}: expected a number at {error.args[0]}, found none"
            continue
        if left != right:
            sides = [" + ".join(rule[side]) for side in ("left", "right")]
            yield f"sum {rule['name']!r}: expected {sides[0]} = {sides[1]}, found {left} and {right}"


def _numbers(manifest: Json, paths: Iterable[str]) -> Iterator[int]:
    for path in paths:
        values: list[Any] = [manifest]
        for key in path.split("."):
            try:
                values = [found for value in values for found in _children(value, key)]
            except (KeyError, IndexError, TypeError, ValueError) as error:
                raise KeyError(path) from error
        if not all(isinstance(value, int) and not isinstance(value, bool) for value in values):
            raise KeyError(path)
        yield from values


def _children(value: Any, key: str) -> list[Any]:
    if isinstance(value, list):
        return value if key == "*" else [value[int(key)]]
    return list(value.values()) if key == "*" else [value[key]]
