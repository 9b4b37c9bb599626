"""The predictions of a group, read once for all that is made of them: the curves of the figures and the bootstrap."""

from __future__ import annotations

from dataclasses import dataclass

from volta.bench.store import RunStore
from volta.report.curves import CurveCollector, Curves
from volta.report.run import Group
from volta.stats import RowsOfCells, rows_of_cell


@dataclass(frozen=True)
class Predictions:
    """What a group's stored predictions come to: its curves, and the rows of its cells for the bootstrap."""

    curves: Curves
    rows: RowsOfCells


def read_group(store: RunStore, group: Group, with_rows: bool = True) -> Predictions:
    """Return the curves and, unless left out, the rows of every method, reading one cell's predictions at a time."""
    collector, rows = CurveCollector(group), {}
    for key, record in group.records.items():
        arrays = store.arrays_of(record)
        collector.add(record, arrays)
        found = rows_of_cell(group.table, arrays) if with_rows and group.table is not None else None
        if found is not None:
            rows[key] = found
    return Predictions(collector.curves(), rows)
