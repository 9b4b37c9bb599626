"""How long missing cells may take, from what cells like them took: in this run, else in the runs beside it."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from dataclasses import dataclass

from volta.bench.cells import Cell
from volta.bench.store import MANIFEST, RunStore
from volta.core.errors import StoreError

Rates = dict[tuple[str, str], list[float]]
"""Seconds that cells took, by task and method."""


@dataclass(frozen=True)
class Estimate:
    """Seconds that missing cells may take one after another, and how many measured cells that rests on."""

    seconds: float
    n_measured: int


def estimate_seconds(store: RunStore, cells: Iterable[Cell], missing: Iterable[Cell]) -> Estimate | None:
    """Return what the missing cells may take: the same method's median on the task, or else any cell's.

    Where this run has no finished cell, finished cells of the same tasks in the runs beside it count; None without any.
    """
    missing = list(missing)
    rates = _rates(store, [cell for cell in cells if store.is_done(cell) and store.is_intact(cell)])
    if not rates:
        rates = _rates_of_other_runs(store, {cell.task for cell in missing})
    if not rates:
        return None
    measured = [seconds for found in rates.values() for seconds in found]
    usual = statistics.median(measured)
    total = 0.0
    for cell in missing:
        alike = rates.get((cell.task, cell.method))
        total += statistics.median(alike) if alike else usual
    return Estimate(total, len(measured))


def _rates(store: RunStore, cells: Iterable[Cell]) -> Rates:
    rates: Rates = {}
    for cell in cells:
        rates.setdefault((cell.task, cell.method), []).append(store.read_record(cell).wall_s)
    return rates


def _rates_of_other_runs(store: RunStore, tasks: set[str]) -> Rates:
    rates: Rates = {}
    for path in sorted(store.root.absolute().parent.glob(f"*/{MANIFEST}")):
        other = RunStore(path.parent)
        try:
            found = _rates(other, [cell for cell in other.cells() if cell.task in tasks and other.is_done(cell)])
        except (StoreError, OSError):
            # A damaged run beside this one is not this run's business.
            continue
        for key, seconds in found.items():
            rates.setdefault(key, []).extend(seconds)
    return rates
