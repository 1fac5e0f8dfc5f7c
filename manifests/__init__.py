"""What a trainer sees of a dataset: manifest, verification, loader."""

from curate import __version__ as CURATE_VERSION  # noqa: N812

__all__ = ["CURATE_VERSION"]
