"""``results.csv``: one row per cell, set and metric, straight from the stored records."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from typing import TypeAlias

from volta.bench.records import CellRecord
from volta.bench.store import RunStore
from volta.core.files import write_text

_MADE = ("split", "epochs", "best_epoch", "instruction_set")
RESULT_COLUMNS = ("task", "protocol", "method", "seed", "set", "metric", "value", *_MADE)
ResultRow: TypeAlias = tuple[str, str, str, int, str, str, float, str, str, str, str]


def write_results(store: RunStore, records: Iterable[CellRecord]) -> None:
    """Write ``results.csv``; equal results give equal bytes, timing metrics aside."""
    write_text(store.root / "results.csv", csv_text(RESULT_COLUMNS, result_rows(records)))


def result_rows(records: Iterable[CellRecord]) -> list[ResultRow]:
    """Return the tidy rows of finished cells, in a fixed order, each with what its value was made with."""
    rows: list[ResultRow] = []
    for record in records:
        cell, made = record.cell, _made(record)
        for eval_set, values in record.metrics.items():
            for metric, value in values.items():
                rows.append((cell.task, cell.protocol, cell.method, cell.seed, str(eval_set), metric, value, *made))
    return sorted(rows, key=lambda row: row[:6])


def _made(record: CellRecord) -> tuple[str, str, str, str]:
    """Return the draw of rows, the epochs and the best of them, a number for each network, and the instruction set."""
    drawn = record.split
    split = "fixed" if drawn.seed is None else f"seed {drawn.seed}"
    if drawn.fold is not None:
        split += f", fold {drawn.fold + 1} of {drawn.n_folds}"
    epochs, best = (" ".join(str(getattr(log, name)) for log in record.trainings) for name in ("epochs", "best_epoch"))
    return split, epochs, best, record.environment.instruction_set


def csv_text(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return CSV with a header; floats are written with all their digits, None as an empty field."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(columns)
    # The writer itself writes floats with all their digits and None as nothing.
    writer.writerows(rows)
    return buffer.getvalue()
