"""Tables, figures and one HTML page from a run folder alone."""

from __future__ import annotations

from pathlib import Path

from volta.bench.store import RunStore
from volta.bench.tables import write_results


def build_report(store: RunStore) -> Path:
    """Write every table of the run and return the folder."""
    write_results(store)
    return store.root
