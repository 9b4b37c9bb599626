"""Which of the rows given train, which steer training, and which calibrate."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from volta.core.errors import InputError
from volta.core.seeding import SPLIT_SEED, rng
from volta.data.splits import FitRows, split_fit_rows

HELD_OUT = 0.2
MIN_ROWS = 10


def split_rows(labels: NDArray[np.int64], *, hold_val: bool = True, hold_cal: bool = True) -> FitRows:
    """Hold out a tenth of the rows to steer training (``val``) and a tenth to calibrate (``cal``).

    Calibration rows are a plain random draw from all rows, so that they are exchangeable with new rows, rare classes
    included; see `split_fit_rows`. What is not held out, because the user has rows for it, is empty. The draw depends
    on the number of rows and the labels alone.
    """
    if hold_val or hold_cal:
        _check_rows(labels)
    n_held_out = max(2, round(HELD_OUT * len(labels)))
    n_val = n_held_out // 2 if hold_val else 0
    n_cal = n_held_out - n_held_out // 2 if hold_cal else 0
    return split_fit_rows(labels, n_val, n_cal, rng(SPLIT_SEED, "estimator", "splits"))


def _check_rows(labels: NDArray[np.int64]) -> None:
    if len(labels) < MIN_ROWS:
        count = "1 sample" if len(labels) == 1 else f"{len(labels)} rows"
        raise InputError(f"X has {count}; fit needs at least {MIN_ROWS} to hold some out")
    if (rarest := int(np.bincount(labels).min())) < 2:
        raise InputError(
            f"y has a class with {rarest} row; fit needs 2 of each, to train on and to hold out, "
            "or rows of your own in eval_set and cal_set"
        )
