"""``results.csv``: one row per cell, set and metric, straight from the stored records."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from typing import Any

from volta.bench.store import RunStore
from volta.core.files import write_text

RESULT_COLUMNS = ("task", "protocol", "method", "seed", "set", "metric", "value")


def write_results(store: RunStore) -> None:
    """Write ``results.csv``; equal results give equal bytes, timing metrics aside."""
    write_text(store.root / "results.csv", csv_text(RESULT_COLUMNS, result_rows(store.records())))


def result_rows(records: Iterable[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """Return the tidy rows of finished cells, in a fixed order."""
    rows = [
        (*(record["cell"][name] for name in RESULT_COLUMNS[:4]), set_name, metric, value)
        for record in records
        for set_name, values in record["metrics"].items()
        for metric, value in values.items()
    ]
    return sorted(rows, key=lambda row: row[:6])


def csv_text(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Return CSV with a header; floats are written with all their digits, None as an empty field."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([_field(value) for value in row] for row in rows)
    return buffer.getvalue()


def _field(value: Any) -> str:
    return "" if value is None else repr(value) if isinstance(value, float) else str(value)
