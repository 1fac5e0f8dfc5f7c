"""The choice of licenses."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from curate.core.stage import Filter, first_reason

_CC_VERSION = re.compile(
    r"(cc0|cc-by(?:-(?:nc|nd|sa))*)-v?[1-9](?:\.\d)?(?:-(?:international|unported|generic|universal))?"
)


CITATIONS = ("citation",)


@dataclass(frozen=True, kw_only=True)
class KeepLicenses(Filter):
    """Keeps documents under some licenses.

    Reads: license; kind where a source has it, or `allow_unknown` is set.
    Drops: license (another one), license_unknown (null, except for kinds in `allow_unknown`).
    Names are compared without case, `_` and white space as `-`, and Creative Commons' without version:
    `CC BY 4.0` is cc-by. No name includes another: cc-by is not cc-by-sa.
    A PubMed citation states no license: NLM puts no terms of its own on citations, and publishers may hold
    rights in some abstracts. Corpora of medicine take them all the same (Meditron: 15.7 million), so by
    default they stay; the manifest counts their tokens as `unknown`. `allow_unknown: []` drops them.
    """

    version: ClassVar[int] = 2
    reasons: ClassVar[tuple[str, ...]] = ("license", "license_unknown")
    reads_if_there: ClassVar[tuple[str, ...]] = ("kind",)  # a source without kinds has no citations

    allow: tuple[str, ...]  # such as cc0, public-domain, cc-by
    allow_unknown: tuple[str, ...] = CITATIONS  # kinds of documents that need not state a license

    def __post_init__(self) -> None:
        """Refuse what could only ever keep nothing."""
        if not self.allow:
            raise ValueError("allow: found nothing, wanted licenses, such as [cc0, public-domain, cc-by]")

    def columns_read(self) -> tuple[str, ...]:
        """License, and kind where it decides."""
        return ("license",) if self.allow_unknown in ((), CITATIONS) else ("license", "kind")

    def open(self) -> Callable[[pa.RecordBatch], pa.Array]:
        """The function that judges a batch."""
        allowed = frozenset(map(folded, self.allow))
        exempt = pa.array(self.allow_unknown, pa.string())

        def judge(batch: pa.RecordBatch) -> pa.Array:
            license = batch.column("license")
            known = pc.unique(license).drop_null()
            wrong = pa.array([name for name in known.to_pylist() if folded(name) not in allowed], pa.string())
            unknown = license.is_null()
            if self.allow_unknown and "kind" in batch.schema.names:
                unknown = pc.and_(unknown, pc.invert(pc.is_in(batch.column("kind"), value_set=exempt)))
            return first_reason({"license": pc.is_in(license, value_set=wrong), "license_unknown": unknown})

        return judge


def folded(name: str) -> str:
    """A license's name as it is compared."""
    name = "-".join(name.casefold().replace("_", " ").replace("-", " ").split())
    versioned = _CC_VERSION.fullmatch(name)
    return versioned[1] if versioned else name
