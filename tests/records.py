"""Records and manifests made by hand, for tests that need a run folder without a run."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from typing import Any

from volta.bench.cell_metrics import EvalSet
from volta.bench.records import (
    BlasLibrary,
    Cell,
    CellRecord,
    Environment,
    Fingerprints,
    Manifest,
    RunConfig,
    scoring_fingerprint,
)
from volta.bench.store import RunStore
from volta.networks.recipe import Budget

ENVIRONMENT = Environment(
    volta="0.1.0",
    commit="0123abc",
    python="3.12.0",
    packages={"numpy": "2.0.0", "torch": "2.4.0"},
    platform="Linux",
    machine="x86_64",
    cpu="Example CPU",
    cores=2,
    memory_gb=8.0,
    cpu_capability="AVX2",
    blas=(BlasLibrary("openblas", "0.3.27", "Haswell"),),
)


FINGERPRINTS = Fingerprints("training", "method", scoring_fingerprint())


def make_record(cell: Cell, metrics: Mapping[str, Mapping[str, float]] | None = None, **changes: Any) -> CellRecord:
    """Return a record with metrics by stored set name; ``changes`` are fields other than the plain ones here."""
    own = {
        "title": cell.method,
        "origin": "paper",
        "parameters": {},
        "budget": Budget(),
        "device": "cpu",
        "threads": 1,
        "data": {"fit": "a" * 64, "test": "b" * 64},
        "source": "",
        "backbone": None,
        "rows": {"train": 600, "val": 100, "cal": 100},
        "near_ood": (),
        "floored_rows": {},
        "notes": (),
        "environment": ENVIRONMENT,
        "wall_s": 1.5,
        "fingerprints": FINGERPRINTS,
    }
    by_set = {EvalSet(name): dict(values) for name, values in (metrics or {"test": {"accuracy": 0.5}}).items()}
    return CellRecord(cell=cell, metrics=by_set, **(own | changes))


def store_again(store: RunStore, record: CellRecord, arrays: Mapping[str, Any]) -> CellRecord:
    """Store a finished cell anew with other predictions, and a record that fits them."""
    shutil.rmtree(store.folder("cells") / record.cell.folder)
    return store.write_cell(record, dict(arrays))


def make_manifest(cells: Sequence[Cell], budget: Budget | None = None, command: str = "volta bench") -> Manifest:
    """Return the manifest of a run with these cells."""
    config = RunConfig(
        tasks=tuple(dict.fromkeys(cell.task for cell in cells)),
        methods=tuple(dict.fromkeys(cell.method for cell in cells)),
        protocols=tuple(dict.fromkeys(cell.protocol for cell in cells)),
        seeds=tuple(dict.fromkeys(cell.seed for cell in cells)),
        budget=budget or Budget(),
        device="cpu",
        threads=1,
        backbone=None,
        weights=None,
        severities=(1,),
        shifts="auto",
    )
    return Manifest(
        created="2026-01-01T00:00:00+00:00",
        updated="2026-01-01T00:10:00+00:00",
        config=config,
        cells=tuple(cells),
        commands=(command,),
        environment=ENVIRONMENT,
    )
