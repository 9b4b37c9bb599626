"""One try at one cell, under its lock, ending in a stored cell or a kept traceback."""

from __future__ import annotations

import time
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from volta.bench.cells import Cell
from volta.bench.job import CellRunner, OnEpoch
from volta.bench.records import CellRecord
from volta.bench.store import RunStore
from volta.core.errors import NoRoomError
from volta.core.foreign import NO_ROOM
from volta.core.types import Array
from volta.networks.loop import EpochReport

NOTE_SECONDS = 0.3


@dataclass(frozen=True)
class Outcome:
    """How a try ended: ``done`` with the record, ``failed`` with a reason and a traceback's path, or ``elsewhere``."""

    cell: Cell
    status: Literal["done", "failed", "elsewhere"]
    record: CellRecord | None = None
    reason: str = ""
    path: Path | None = None


def attempt(runner: CellRunner, store: RunStore, cell: Cell, on_epoch: OnEpoch | None = None) -> Outcome:
    """Run a cell unless it is done or another process is at work on it; store it or keep what went wrong."""
    lock = store.try_lock(cell)
    if lock is None:
        return Outcome(cell, "elsewhere")
    try:
        if store.is_done(cell):
            return Outcome(cell, "done", store.read_record(cell))
        record, arrays = runner.run(cell, _Note(store, cell, on_epoch))
    except NoRoomError:
        raise
    except Exception as error:
        if isinstance(error, OSError) and error.errno in NO_ROOM:
            raise _cannot_write(store, error) from error
        return failed(store, cell, f"{type(error).__name__}: {error}", traceback.format_exc())
    else:
        return finished(store, record, arrays)
    finally:
        store.clear_progress(cell)
        lock.release()


class _Note:
    """Passes epochs on and leaves a note of them in the store, a few times a second at most."""

    def __init__(self, store: RunStore, cell: Cell, on_epoch: OnEpoch | None) -> None:
        self._store = store
        self._cell = cell
        self._on_epoch = on_epoch
        self._noted = 0.0

    def __call__(self, report: EpochReport) -> None:
        if time.monotonic() - self._noted > NOTE_SECONDS:
            self._noted = time.monotonic()
            self._store.write_progress(self._cell, report.epoch, report.max_epochs)
        if self._on_epoch is not None:
            self._on_epoch(report)


def finished(store: RunStore, record: CellRecord, arrays: dict[str, Array]) -> Outcome:
    """Store what a cell gave; a disk that takes no more ends the run with a plain sentence."""
    try:
        return Outcome(record.cell, "done", store.write_cell(record, arrays))
    except OSError as error:
        raise _cannot_write(store, error) from error
    except Exception as error:
        # What a method of somebody's own gave, and no file can hold.
        return failed(store, record.cell, f"{type(error).__name__}: {error}", traceback.format_exc())


def failed(store: RunStore, cell: Cell, reason: str, text: str) -> Outcome:
    """Keep what went wrong in a cell."""
    try:
        return Outcome(cell, "failed", None, reason, store.write_failure(cell, text))
    except OSError as error:
        raise _cannot_write(store, error) from error


def _cannot_write(store: RunStore, error: OSError) -> NoRoomError:
    return NoRoomError(
        f"{store.root} takes no more data ({error.strerror or error}); finished cells are kept: "
        "make room and run the same command again"
    )
