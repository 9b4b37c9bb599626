"""How a run folder stands, read from another process at any time. Needs no torch."""

from __future__ import annotations

from dataclasses import dataclass

from volta.bench.cells import Cell
from volta.bench.store import RunStore


@dataclass(frozen=True)
class RunStatus:
    """The plan's cells by state; ``running`` maps a cell to (epoch, of how many) or None outside training."""

    done: list[Cell]
    running: dict[Cell, tuple[int, int] | None]
    failed: list[Cell]
    waiting: list[Cell]


def read_status(store: RunStore) -> RunStatus:
    """Return the state of every cell of the plan; a cell is running while some live process holds its lock."""
    status = RunStatus([], {}, [], [])
    for cell in store.cells():
        if store.is_done(cell):
            status.done.append(cell)
            continue
        lock = store.try_lock(cell)
        if lock is None:
            status.running[cell] = store.read_progress(cell)
            continue
        lock.release()
        (status.failed if store.failure(cell) else status.waiting).append(cell)
    return status
