"""Which of the rows given train, which steer training, and which calibrate."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from volta.core.errors import InputError
from volta.core.scaling import row_parts
from volta.core.seeding import SPLIT_SEED, rng
from volta.core.types import Array

if TYPE_CHECKING:
    from volta.core.splits import FitRows

HELD_OUT = 0.2
MIN_ROWS = 10
FEWEST_COPIES = 10

FEW_VAL_ROWS = 300
"""Fewer validation rows than this are too few for a temperature: all rows but calibration rows train, and what
validation rows are for is done by folds."""

N_FOLDS = 5


def split_rows(labels: NDArray[np.int64], *, hold_val: bool = True, hold_cal: bool = True, draw: int = 0) -> FitRows:
    """Hold out a tenth of the rows to steer training (``val``) and a tenth to calibrate (``cal``).

    Calibration rows are a plain random draw from all rows, so that they are exchangeable with new rows, rare classes
    included; see `split_fit_rows`. What is not held out, because the user has rows for it, is empty. The draw depends
    on the number of rows, the labels and ``draw`` alone.
    """
    from volta.core.splits import split_fit_rows

    if hold_val or hold_cal:
        _check_rows(labels)
    n_held_out = max(2, round(HELD_OUT * len(labels)))
    n_val = n_held_out // 2 if hold_val else 0
    n_cal = n_held_out - n_held_out // 2 if hold_cal else 0
    return split_fit_rows(labels, n_val, n_cal, rng(SPLIT_SEED, "estimator", "splits", draw))


def shuffled_by_content(rows: Array, labels: NDArray[np.int64]) -> tuple[NDArray[np.int64], int]:
    """Return an order of the rows (n, d) that their values alone decide, and a number that they decide too.

    Rows in another order are split and trained on alike, and so are rows that are given once with a count and as often
    as that. The order is by a random linear function of the bits, modulo 2^64, which has nothing to do with what the
    values mean; the number is for further draws.
    """
    keys = _content_keys(rows, labels)
    order = np.argsort(keys, kind="stable")
    return order, int(keys.sum(dtype=np.uint64) % (2**31))


def check_unseen(cal: Array, learned: Array, name: str) -> None:
    """Refuse calibration rows (m, d) that are copies of the rows (n, d) a model learns from.

    Rows of few values are equal by chance; it takes rows that are mostly one of a kind on both sides, and half of them
    on both.
    """
    ours, theirs = (np.unique(_content_keys(rows), return_counts=True) for rows in (cal, learned))
    single = ours[0][ours[1] == 1]
    n_seen = int(np.isin(single, theirs[0][theirs[1] == 1]).sum())
    if n_seen >= FEWEST_COPIES and 2 * n_seen >= len(cal) and 2 * np.count_nonzero(theirs[1] == 1) >= len(learned):
        raise InputError(
            f"{name} has {n_seen} rows of {len(cal)} among those that the model learns from, so that no promise would "
            "hold for new rows; pass rows that are in no other part"
        )


def _content_keys(rows: Array, labels: NDArray[np.int64] | None = None) -> NDArray[np.uint64]:
    """Return a number for each row (n, d) and its label that their bits decide."""
    random = np.random.default_rng(SPLIT_SEED)
    factors = random.integers(2**63, size=rows.shape[1] + 1, dtype=np.uint64) * np.uint64(2) + np.uint64(1)
    keys = np.zeros(len(rows), dtype=np.uint64) if labels is None else labels.astype(np.uint64) * factors[-1]
    for part in row_parts(rows):
        bits = np.ascontiguousarray(rows[part], dtype=np.float64).view(np.uint64)
        # The low bits of round numbers are 0: fold the high ones down, or products of few bits would tie.
        keys[part] += ((bits ^ (bits >> np.uint64(29))) * factors[:-1]).sum(axis=1, dtype=np.uint64)
    keys ^= keys >> np.uint64(31)
    return keys


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
