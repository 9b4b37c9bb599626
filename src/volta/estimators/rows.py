"""Which of the rows given train, which steer training, and which calibrate."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from volta.core.copies import content_keys, n_copies
from volta.core.errors import InputError, VoltaWarning
from volta.core.seeding import SPLIT_SEED, rng
from volta.core.types import Array
from volta.core.user_warning import warn_user

if TYPE_CHECKING:
    from volta.core.splits import FitRows

HELD_OUT = 0.2
MIN_ROWS = 10

FEW_VAL_ROWS = 300
"""Fewer validation rows than this are too few for a temperature: all rows but calibration rows train, and what
validation rows are for is done by folds."""

N_FOLDS = 5

FEWEST_SEEN = 0.02
"""Own calibration rows are looked at where at least this share of them is seen among the rows that are learned from."""


class RepeatedRowsWarning(VoltaWarning):
    """Copies of one row may train and calibrate; the message says what to do."""


def split_rows(
    labels: NDArray[np.int64],
    *,
    hold_val: bool = True,
    hold_cal: bool = True,
    draw: int = 0,
    copies: NDArray[np.int64] | None = None,
) -> FitRows:
    """Hold out a tenth of the rows to steer training (``val``) and a tenth to calibrate (``cal``).

    Calibration rows are a plain random draw from all rows, so that they are exchangeable with new rows, rare classes
    included; see `split_fit_rows`. What is not held out, because the user has rows for it, is empty. The draw depends
    on the number of rows, the labels and ``draw`` alone. Rows of equal number in ``copies`` (see `copy_groups`) are
    copies of one: they stay together, and calibrate once.
    """
    from volta.core.splits import split_fit_rows

    if hold_val or hold_cal:
        _check_rows(labels)
    n_rows = len(labels) if copies is None else int(copies.max()) + 1
    n_held_out = max(2, round(HELD_OUT * n_rows))
    n_val = n_held_out // 2 if hold_val else 0
    n_cal = n_held_out - n_held_out // 2 if hold_cal else 0
    return split_fit_rows(labels, n_val, n_cal, rng(SPLIT_SEED, "estimator", "splits", draw), copies)


def shuffled_by_content(rows: Array, labels: NDArray[np.int64]) -> tuple[NDArray[np.int64], int]:
    """Return an order of the rows (n, d) that their values alone decide, and a number that they decide too.

    Rows in another order are split and trained on alike, and so are rows that are given once with a count and as often
    as that. The order is by a random linear function of the bits, modulo 2^64, which has nothing to do with what the
    values mean; the number is for further draws.
    """
    keys = content_keys(rows, labels)
    order = np.argsort(keys, kind="stable")
    return order, int(keys.sum(dtype=np.uint64) % (2**31))


def check_unseen(cal: Array, learned: Array, name: str) -> None:
    """Refuse calibration rows (m, d) that are copies of the rows (n, d) a model learns from."""
    n_seen = n_copies(cal, learned)
    if n_seen < FEWEST_SEEN * len(cal):
        return
    said = (
        f"{name} has {n_seen} rows of {len(cal)} among those that the model learns from, so that no promise would "
        "hold for new rows; pass rows that are in no other part"
    )
    # Rows that are mostly one of a kind are no kinds of rows: there is no doubt that they are copies.
    if n_seen >= len(cal) / 2 and len(np.unique(content_keys(cal))) >= len(cal) / 2:
        raise InputError(said)
    warn_user(said, RepeatedRowsWarning)


def _check_rows(labels: NDArray[np.int64]) -> None:
    if len(labels) < MIN_ROWS:
        count = "1 sample" if len(labels) == 1 else f"{len(labels)} rows"
        raise InputError(f"X has {count}; fit needs at least {MIN_ROWS} to hold some out")
    if (rarest := int((counts := np.bincount(labels)).min())) < 2:
        row = int(np.argmax(labels == counts.argmin()))
        raise InputError(
            f"y has a class with {rarest} row, that of row {row}; fit needs 2 of each, to train on and to hold out, "
            "or rows of your own in eval_set and cal_set"
        )
