"""Metrics computed again from stored predictions, where the code of metrics has changed since or a user asks for it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from volta.bench.cells import COST_METRICS, Cell
from volta.bench.records import TEST, CellRecord
from volta.bench.scoring import metrics_of
from volta.bench.stamps import scoring_stamp
from volta.bench.store import RunStore
from volta.core.errors import StoreError


def current_records(
    store: RunStore, cells: Iterable[Cell], say: Callable[[str], object] | None = None
) -> list[CellRecord]:
    """Return the records of the finished ones of ``cells``, with metrics as today's code computes them.

    Records whose metrics other code computed are scored again and stored; nothing is trained or predicted. ``say``
    hears of it in a sentence. A cell whose predictions are not those that its record was made of is refused.
    """
    records = [store.read_record(cell) for cell in cells if store.is_done(cell)]
    for record in records:
        if store.has_predictions(record.cell):
            store.check_predictions(record)
    return rescore_stale(store, records, say)


def rescore_stale(
    store: RunStore, records: list[CellRecord], say: Callable[[str], object] | None = None
) -> list[CellRecord]:
    """Return ``records``, whose predictions were checked, with metrics as today's code computes them."""
    stamp = scoring_stamp()
    n_stale = sum(record.stamps.scoring != stamp for record in records)
    if n_stale and say is not None:
        say(f"the code of metrics has changed: computing those of {n_stale} cells again from their stored predictions")
    return [record if record.stamps.scoring == stamp else rescore(store, record) for record in records]


def recompute(store: RunStore) -> list[Cell]:
    """Score every finished cell again; return the cells whose values changed."""
    changed = []
    for cell in store.cells():
        if store.is_done(cell):
            record = store.read_record(cell)
            again = rescore(store, record)
            if (again.metrics, again.floored_rows) != (record.metrics, record.floored_rows):
                changed.append(cell)
    return changed


def rescore(store: RunStore, record: CellRecord) -> CellRecord:
    """Score a finished cell again from its predictions, and store the record if it differs.

    What was measured while the cell ran (latency, size, memory, training time) is kept.
    """
    near = [eval_set.name for eval_set in record.near_ood]
    metrics, floored = metrics_of(store.read_arrays(record.cell), near)
    metrics[TEST] |= {name: value for name, value in record.test.items() if name in COST_METRICS}
    stamps = replace(record.stamps, scoring=scoring_stamp())
    again = replace(record, metrics=metrics, floored_rows=floored, stamps=stamps)
    if again == record:
        return record
    try:
        store.replace_record(again)
    except OSError as error:
        raise StoreError(
            f"{store.root} holds metrics of other code and cannot be written: {error.strerror or error}; "
            "make the folder writable, or read it with the version that wrote it"
        ) from error
    # As stored: sets and metrics are then in the same order whether or not they were scored again just now.
    return store.read_record(record.cell)
