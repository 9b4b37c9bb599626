"""Ways to run cells: in this process, in several, on a Ray cluster. All give the same results."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from volta.bench.attempt import Outcome
from volta.bench.cells import Cell
from volta.bench.progress import Listener


class Executor(Protocol):
    """Runs cells and tells how each ended, as they end."""

    def run(self, cells: list[Cell], listener: Listener) -> Iterator[Outcome]:
        """Run ``cells`` in any order; tell ``listener`` when one starts; yield each one's outcome."""
