"""Plans as small as they can be, made without a file."""

from typing import Any

from curate.core.stage import Asset
from curate.plan.plan import Group, Plan, Rows, Run, Source

ROWS: dict[str, Any] = {
    "tokenizer": Asset("none"),
    "tokenizer_name": "none",
    "vocab_size": 300,
    "bos_id": 1,
    "eos_id": 2,
}
ROWS |= {"probe_sha256": "", "bos": "document", "eos": "document", "length": 16, "per_shard": 4}


def mixed_plan(*groups: Group, sources: tuple[Source, ...] = (), output: str = "none") -> Plan:
    """A plan with these groups."""
    return Plan(
        name="test",
        file="test.yaml",
        seed=7,
        output=output,
        sources=sources,
        rows=Rows(packing="stages.pack.Concat", key="", **ROWS),
        max_quarantined=1.0,
        run=Run(),
        description={},
        plan_id="none",
        groups=groups,
    )
