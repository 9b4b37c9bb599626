"""How the networks of a group were trained: epochs, the best one, and marks where a training ended oddly."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from volta.networks.training_log import TrainingLog, TrainingMark
from volta.report.run import Group
from volta.report.table_model import Column, Row, Table, TableCell

CLIMB: TrainingMark = "stopped in the climb"


def training_table(group: Group) -> Table | None:
    """Return each method's epochs, best epochs and marks over its seeds, or None where no record tells of them."""
    rows = []
    for method in group.methods:
        by_seed = {seed: record.trainings for (name, seed), record in group.records.items() if name == method}
        logs = [log for trainings in by_seed.values() for log in trainings]
        if not logs:
            continue
        tip = "\n".join(
            f"seed {seed}: {', '.join(f'{log.best_epoch} of {log.epochs}' for log in by_seed[seed])}"
            for seed in sorted(by_seed)
        )
        rows.append(
            Row(
                method,
                (
                    TableCell(group.title(method), group.title(method), tip=method),
                    TableCell(str(len(logs)), float(len(logs))),
                    _range([log.epochs for log in logs], tip),
                    _range([log.max_epochs for log in logs], tip),
                    _range([log.best_epoch for log in logs], tip),
                    TableCell(_ending(logs), _ending(logs)),
                    _marks(logs),
                ),
                group.origin(method),
                group.is_ours(method),
            )
        )
    if not rows:
        return None
    columns = (
        Column("method", "Method", numeric=False),
        Column("networks", "Networks", help="trainings over all seeds, those of shared networks too"),
        Column("epochs", "Epochs"),
        Column("limit", "Limit", help="the most epochs a training may have"),
        Column("best_epoch", "Best epoch", help="the epoch with the lowest validation loss, before any temperature"),
        Column("kept", "Weights kept", numeric=False),
        Column("marks", "Marks", numeric=False),
    )
    legend = (
        "Lowest to highest over seeds and networks. Where fits may stop early they are marked: stopped early, still "
        "improving at the limit, or stopped in the climb of the learning rate, where chance picks the weights."
    )
    return Table(f"training-{group.key}", "Training", columns, tuple(rows), legend)


def climb_sentence(group: Group) -> str:
    """Return how many cells rest on a training that stopped while the learning rate still climbed; empty if none."""
    known = [record for record in group.records.values() if record.trainings]
    stopped = [record for record in known if any(CLIMB in log.marks for log in record.trainings)]
    if not stopped:
        return ""
    return f"{len(stopped)} of {len(known)} cells rest on a training that stopped in the climb of the learning rate."


def _range(values: Sequence[int], tip: str) -> TableCell:
    low, high = min(values), max(values)
    return TableCell(str(low) if low == high else f"{low}–{high}", sum(values) / len(values), tip=tip)


def _ending(logs: Sequence[TrainingLog]) -> str:
    stopping = [log.patience is not None for log in logs]
    return "best epoch’s" if all(stopping) else "last epoch’s" if not any(stopping) else "mixed"


def _marks(logs: Sequence[TrainingLog]) -> TableCell:
    count = Counter(mark for log in logs for mark in log.marks)
    words = "; ".join(f"{mark}: {n} of {len(logs)}" for mark, n in count.items()) or "–"
    return TableCell(words, words, tone="bad" if count[CLIMB] or count["still improving"] else "")
