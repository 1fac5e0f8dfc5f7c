"""fastText models: load, check, score."""

from curate import __version__ as CURATE_VERSION  # noqa: N812

__all__ = ["CURATE_VERSION"]
