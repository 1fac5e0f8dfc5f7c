"""The stages that ship with curate, one file a stage."""

from curate import __version__ as CURATE_VERSION

__all__ = ["CURATE_VERSION"]
