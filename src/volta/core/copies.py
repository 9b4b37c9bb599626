"""Rows that stand in two parts of the data: a number for the content of each, and how many of one are in another."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from volta.core.scaling import row_parts
from volta.core.seeding import SPLIT_SEED
from volta.core.types import Array

FEWEST_COPIES = 10


def content_keys(rows: Array, labels: NDArray[np.int64] | None = None) -> NDArray[np.uint64]:
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


def n_copies(rows: Array, others: Array) -> int:
    """Return how many of the rows (m, d) are copies of ``others`` (n, d); 0 where that may be chance.

    Rows of few values are equal by chance; it takes rows that are mostly one of a kind on both sides, and half of them
    on both.
    """
    ours, theirs = (np.unique(content_keys(part), return_counts=True) for part in (rows, others))
    single = ours[0][ours[1] == 1]
    n_seen = int(np.isin(single, theirs[0][theirs[1] == 1]).sum())
    alike = n_seen >= FEWEST_COPIES and 2 * n_seen >= len(rows) and 2 * np.count_nonzero(theirs[1] == 1) >= len(others)
    return n_seen if alike else 0


def copies_in_test(test: Array, train: Array) -> str:
    """Say that test rows are copies of training rows; empty where they are not."""
    n_seen = n_copies(test, train)
    if not n_seen:
        return ""
    return (
        f"test has {n_seen} rows of {len(test)} that are training rows too: what is measured on them says nothing of "
        "new rows; give others, or none, and test rows are drawn"
    )
