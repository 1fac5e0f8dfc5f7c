"""`dataset.mix`: groups of sources, held against the sources that there are."""

from collections.abc import Mapping, Sequence

from curate.core.errors import suggestion
from curate.plan.grammar import MixGroup, exact, place_of
from curate.plan.graph import check_name
from curate.plan.load import Table
from curate.plan.plan import Group


def mix_groups(mix: Mapping[str, MixGroup] | None, sources: Sequence[str], table: Table) -> tuple[Group, ...]:
    """The groups of a mix, in the order of the file; none without a mix.

    Raises PlanError where a source is unknown, in two groups or in none, or the shares leave no room.
    """
    if mix is None:
        return ()
    _check_sources(mix, sources, table)
    place = place_of(table, "dataset", "mix")
    shares = [exact(group.share) for group in mix.values() if group.share is not None]
    if len(shares) == len(mix):
        raise place.error("every mix group has a share; one must have 'take: all', which the shares are measured by")
    if sum(shares) >= 1:
        raise place.error(f"the shares of the mix add up to {float(sum(shares)):g}; nothing is left for 'take: all'")
    return tuple(
        Group(name=name, sources=group.sources, share=group.share, epochs=group.epochs or 1)
        for name, group in mix.items()
    )


def _check_sources(mix: Mapping[str, MixGroup], sources: Sequence[str], table: Table) -> None:
    """Every source is in one group, and every group has sources."""
    owner: dict[str, str] = {}
    for name, group in mix.items():
        check_name(name, place_of(table, "dataset", "mix", name), "a mix group")
        place = place_of(table, "dataset", "mix", name, "sources")
        if not group.sources:
            raise place.error(f"mix group {name!r} names no source")
        for source in group.sources:
            if source not in sources:
                hint = suggestion(source, sources)
                raise place.error(f"mix group {name!r} names {source!r}, which is not a source{hint}")
            if source in owner:
                raise place.error(f"source {source!r} is named in mix group {owner[source]!r} and again in {name!r}")
            owner[source] = name
    left = [source for source in sources if source not in owner]
    if left:
        raise place_of(table, "dataset", "mix").error(f"source {left[0]!r} is in no mix group")
