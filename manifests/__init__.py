"""What a trainer sees of a dataset: manifest, verification, loader."""

from curate import __version__ as CURATE_VERSION

__all__ = ["CURATE_VERSION"]
