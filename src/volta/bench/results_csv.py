"""``results.csv``: one row per cell, set and metric, straight from the stored records."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from typing import TypeAlias

from volta.bench.records import CellRecord
from volta.bench.store import RunStore
from volta.core.files import write_text

RESULT_COLUMNS = ("task", "protocol", "method", "seed", "set", "metric", "value")
ResultRow: TypeAlias = tuple[str, str, str, int, str, str, float]


def write_results(store: RunStore, records: Iterable[CellRecord]) -> None:
    """Write ``results.csv``; equal results give equal bytes, timing metrics aside."""
    write_text(store.root / "results.csv", csv_text(RESULT_COLUMNS, result_rows(records)))


def result_rows(records: Iterable[CellRecord]) -> list[ResultRow]:
    """Return the tidy rows of finished cells, in a fixed order."""
    rows = [
        (record.cell.task, record.cell.protocol, record.cell.method, record.cell.seed, str(eval_set), metric, value)
        for record in records
        for eval_set, values in record.metrics.items()
        for metric, value in values.items()
    ]
    return sorted(rows, key=lambda row: row[:6])


def csv_text(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return CSV with a header; floats are written with all their digits, None as an empty field."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(columns)
    # The writer itself writes floats with all their digits and None as nothing.
    writer.writerows(rows)
    return buffer.getvalue()
