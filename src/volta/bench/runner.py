"""Run what is missing of a plan; store what finishes; keep failures apart and go on."""

from __future__ import annotations

import traceback
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from volta.bench.cells import SCHEMA, Cell
from volta.bench.config import RunConfig, plan_cells
from volta.bench.environment import environment
from volta.bench.job import CellRunner
from volta.bench.progress import Listener
from volta.bench.store import MANIFEST, RunStore
from volta.core.errors import StoreError


@dataclass(frozen=True)
class RunSummary:
    """How a run ended."""

    n_cells: int
    n_done_before: int
    n_run: int
    n_failed: int


def run(config: RunConfig, store: RunStore, listener: Listener, command: str) -> RunSummary:
    """Bring the run folder up to ``config``: run every cell that is not finished, and only those."""
    store.check_usable()
    runner = CellRunner(config, store.networks_folder)
    cells = plan_cells(config, runner.shelf)
    known = store.read_manifest() if (store.root / MANIFEST).is_file() else None
    manifest = _merge(known, config, cells, command)
    store.create()
    store.write_manifest(manifest)
    store.sweep()
    for cell in store.set_aside_damaged(cells):
        listener.message(f"set aside (files do not match their checksums): {cell.label}")
    missing = [cell for cell in cells if not store.is_done(cell)]
    listener.start(cells, missing)
    n_failed = 0
    for cell in missing:
        listener.cell_started(cell)
        try:
            record, arrays = runner.run(cell, listener.epoch)
        except Exception as error:
            n_failed += 1
            path = store.write_failure(cell, traceback.format_exc())
            listener.cell_failed(cell, f"{type(error).__name__}: {error}", path)
            continue
        store.write_cell(cell, record, arrays)
        listener.cell_done(cell, record)
    listener.finish()
    return RunSummary(len(cells), len(cells) - len(missing), len(missing) - n_failed, n_failed)


def _merge(known: dict[str, Any] | None, config: RunConfig, cells: list[Cell], command: str) -> dict[str, Any]:
    """Return the manifest for the union of what the folder was for and what is asked now."""
    now = datetime.now(UTC).isoformat(timespec="seconds")
    wanted = config.to_json()
    if known is None:
        known = {"schema": SCHEMA, "created": now, "config": wanted, "cells": [], "commands": []}
    for name, value in config.fixed.items():
        if known["config"][name] != value:
            raise StoreError(
                f"--out holds a run with {name} {known['config'][name]}, now asked with {value}; "
                "results of both would mix, name another --out"
            )
    union = {
        name: [*known["config"][name], *(item for item in wanted[name] if item not in known["config"][name])]
        for name in ("tasks", "methods", "protocols", "seeds")
    }
    asked = {(cell.task, cell.protocol, cell.method, cell.seed) for cell in cells}
    kept = [
        cell for cell in known["cells"] if (cell["task"], cell["protocol"], cell["method"], cell["seed"]) not in asked
    ]
    commands = [*known["commands"], command] if command not in known["commands"] else known["commands"]
    return {
        **known,
        "updated": now,
        "config": wanted | union,
        "commands": commands,
        "environment": environment(),
        "cells": [*kept, *(cell.to_json() for cell in cells)],
    }
