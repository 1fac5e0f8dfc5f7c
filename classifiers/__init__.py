"""fastText models: load, check, score."""

from curate import __version__ as CURATE_VERSION

__all__ = ["CURATE_VERSION"]
