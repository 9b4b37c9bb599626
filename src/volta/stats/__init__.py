"""Statistics from stored records alone: no torch, nothing is re-run."""

from volta.stats.results import load_tables
from volta.stats.sequential import alpha_at, decide

__all__ = ["alpha_at", "decide", "load_tables"]
