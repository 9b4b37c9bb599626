"""Listeners for machines: events as JSON lines, and two listeners at once."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import IO

from volta.bench.cells import Cell
from volta.bench.progress import Listener
from volta.bench.records import CellRecord
from volta.features.extract import ExtractionProgress
from volta.networks.loop import EpochReport


class JsonLog(Listener):
    """One JSON object per event and line, for machines."""

    def __init__(self, file: IO[str]) -> None:
        self._file = file

    def start(self, cells: list[Cell], missing: list[Cell]) -> None:
        """Write the size of the plan."""
        self._write("start", cells=len(cells), missing=len(missing))

    def cell_started(self, cell: Cell) -> None:
        """Write which cell begins."""
        self._write("cell_started", cell=cell.to_json())

    def epoch(self, cell: Cell, report: EpochReport) -> None:
        """Write the epoch."""
        self._write("epoch", cell=cell.to_json(), epoch=report.epoch, max_epochs=report.max_epochs)

    def cell_done(self, cell: Cell, record: CellRecord) -> None:
        """Write which cell is stored and its test metrics."""
        self._write("cell_done", cell=cell.to_json(), wall_s=record.wall_s, metrics=dict(record.test))

    def cell_failed(self, cell: Cell, reason: str, path: Path | None) -> None:
        """Write which cell failed and why."""
        self._write("cell_failed", cell=cell.to_json(), reason=reason, traceback=str(path))

    def message(self, text: str) -> None:
        """Write the text."""
        self._write("message", text=text)

    def finish(self) -> None:
        """Write that the run is over."""
        self._write("finish")

    def _write(self, event: str, **fields: object) -> None:
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        self._file.write(json.dumps({"event": event, "time": now, **fields}) + "\n")
        self._file.flush()


class Both(Listener):
    """Passes everything on to two listeners."""

    def __init__(self, first: Listener, second: Listener) -> None:
        self._listeners = (first, second)

    def start(self, cells: list[Cell], missing: list[Cell]) -> None:
        """Pass on."""
        for listener in self._listeners:
            listener.start(cells, missing)

    def cell_started(self, cell: Cell) -> None:
        """Pass on."""
        for listener in self._listeners:
            listener.cell_started(cell)

    def epoch(self, cell: Cell, report: EpochReport) -> None:
        """Pass on."""
        for listener in self._listeners:
            listener.epoch(cell, report)

    def cell_done(self, cell: Cell, record: CellRecord) -> None:
        """Pass on."""
        for listener in self._listeners:
            listener.cell_done(cell, record)

    def cell_failed(self, cell: Cell, reason: str, path: Path | None) -> None:
        """Pass on."""
        for listener in self._listeners:
            listener.cell_failed(cell, reason, path)

    def extracting(self, name: str) -> Callable[[ExtractionProgress], None] | None:
        """Let the first listener hear."""
        return self._listeners[0].extracting(name)

    def phase(self, text: str) -> None:
        """Pass on."""
        for listener in self._listeners:
            listener.phase(text)

    def message(self, text: str) -> None:
        """Pass on."""
        for listener in self._listeners:
            listener.message(text)

    def finish(self) -> None:
        """Pass on."""
        for listener in self._listeners:
            listener.finish()
