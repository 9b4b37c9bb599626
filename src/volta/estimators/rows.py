"""Which of the rows given train, which steer training, and which calibrate."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from volta.core.errors import InputError
from volta.core.seeding import SPLIT_SEED, rng
from volta.data.splits import stratified_take

HELD_OUT = 0.2
MIN_ROWS = 10

RowIndex = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class RowSplit:
    """Row numbers, ascending: ``train``, ``val`` and ``cal``; the last two are empty where they were not asked for."""

    train: RowIndex
    val: RowIndex
    cal: RowIndex


def split_rows(labels: RowIndex, *, hold_val: bool = True, hold_cal: bool = True) -> RowSplit:
    """Hold out a tenth of the rows to steer training (``val``) and a tenth to calibrate (``cal``).

    Calibration rows are a plain random draw from all rows, so that they are exchangeable with new rows, rare classes
    included: a stratified draw would not be. Validation rows are drawn from the others with the classes' shares; a
    class with a single row left keeps it for training. The draw depends on the number of rows and the labels alone.
    """
    n_rows = len(labels)
    every = np.arange(n_rows)
    if not (hold_val or hold_cal):
        return RowSplit(every, every[:0], every[:0])
    _check_rows(labels)
    random = rng(SPLIT_SEED, "estimator", "rows")
    n_held_out = max(2, round(HELD_OUT * n_rows))
    n_val = n_held_out // 2
    cal = np.sort(random.permutation(n_rows)[: n_held_out - n_val]) if hold_cal else every[:0]
    left = np.setdiff1d(every, cal)
    val = _draw_validation(left, labels, n_val, random) if hold_val else every[:0]
    return RowSplit(np.setdiff1d(left, val), val, cal)


def _draw_validation(left: RowIndex, labels: RowIndex, n_val: int, random: np.random.Generator) -> RowIndex:
    counts = np.bincount(labels[left], minlength=int(labels.max()) + 1)
    spare = left[counts[labels[left]] > 1]
    if len(spare) == 0:
        raise InputError("y has one row of each class left to train on and none to spare; pass eval_set=(X, y)")
    taken, _ = stratified_take(labels[spare], min(n_val, len(spare) - 1), random)
    return spare[taken]


def _check_rows(labels: RowIndex) -> None:
    if len(labels) < MIN_ROWS:
        count = "1 sample" if len(labels) == 1 else f"{len(labels)} rows"
        raise InputError(f"X has {count}; fit needs at least {MIN_ROWS} to hold some out")
    if (rarest := int(np.bincount(labels).min())) < 2:
        raise InputError(
            f"y has a class with {rarest} row; fit needs 2 of each, to train on and to hold out, "
            "or rows of your own in eval_set and cal_set"
        )
