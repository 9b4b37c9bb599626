"""VOLTA: uncertainty-aware classification on frozen features, and a benchmark of it against ten baselines."""

from volta._version import __version__

__all__ = ["__version__"]
