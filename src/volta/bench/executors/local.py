"""Cells one after another in this process."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from volta.bench.attempt import Outcome, attempt
from volta.bench.cells import Cell
from volta.bench.job import CellRunner
from volta.bench.progress import Listener
from volta.bench.store import RunStore


class LocalExecutor:
    """Runs cells in order, sharing tasks, networks and outputs between them in memory."""

    def __init__(self, runner: CellRunner, store: RunStore) -> None:
        self._runner = runner
        self._store = store

    def run(self, cells: list[Cell], listener: Listener) -> Iterator[Outcome]:
        """Run cells in order."""
        for cell in cells:
            listener.cell_started(cell)
            yield attempt(self._runner, self._store, cell, partial(listener.epoch, cell))
