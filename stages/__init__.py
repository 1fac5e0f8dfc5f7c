"""The stages that ship with curate, one file a stage."""

from curate import __version__ as CURATE_VERSION  # noqa: N812

__all__ = ["CURATE_VERSION"]
