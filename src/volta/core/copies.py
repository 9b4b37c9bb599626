"""Copies of rows: which rows are one and the same, and how many of one part of the data stand in another.

Rows of few values are equal by chance, and by right: two patients of one age. Copies are told from them by two counts
of pairs of rows: those that would be equal if columns had nothing to do with one another, and those that are equal in
the half of the columns that tell most and not in all. Copies have next to none of either.
"""

from __future__ import annotations

from collections.abc import Iterable, Sized
from typing import Any

import numpy as np
from numpy.typing import NDArray

from volta.core.scaling import row_parts
from volta.core.seeding import SPLIT_SEED, rng
from volta.core.types import Array

FEWEST_COPIES = 10
MOST_COPIES = 20
"""Rows that are given more often than this, on average, are kinds of rows and no copies."""

_MORE_THAN_CHANCE = 100.0
_OTHER_LABELS = 0.01
_SAMPLE = 4096
_ALIKE_THROUGHOUT = 0.9


def content_keys(
    rows: Array, labels: NDArray[np.int64] | None = None, columns: NDArray[np.int64] | None = None
) -> NDArray[np.uint64]:
    """Return a number for each row (n, d) and its label that their bits decide, or those of some ``columns``."""
    random = np.random.default_rng(SPLIT_SEED)
    factors = random.integers(2**63, size=rows.shape[1] + 1, dtype=np.uint64) * np.uint64(2) + np.uint64(1)
    keys = np.zeros(len(rows), dtype=np.uint64) if labels is None else labels.astype(np.uint64) * factors[-1]
    for part in row_parts(rows):
        seen, own = (rows[part], factors[:-1]) if columns is None else (rows[part][:, columns], factors[columns])
        bits = np.ascontiguousarray(seen, dtype=np.float64).view(np.uint64)
        # The low bits of round numbers are 0: fold the high ones down, or products of few bits would tie.
        keys[part] += ((bits ^ (bits >> np.uint64(29))) * own).sum(axis=1, dtype=np.uint64)
    keys ^= keys >> np.uint64(31)
    return keys


def copy_groups(
    rows: Array, labels: NDArray[np.int64], taken: NDArray[np.int64] | None = None, *, n_parts: int = 2
) -> NDArray[np.int64] | None:
    """Return for each row (n, d) the number of the row that it is a copy of; None where no row is a copy.

    Equal rows are copies where chance would make them a hundred times rarer, where rows that are equal in the columns
    that tell most are equal in all, and equal labels go with them. Rows of a class that has fewer distinct ones than
    ``n_parts`` count as rows of their own: some have to train and others to be held out. Numbers run from 0 in the
    order of the rows. ``taken`` are the places of the rows that ``labels`` are of, where they are not all.
    """
    taken = np.arange(len(rows)) if taken is None else taken
    distinct, groups, counts = np.unique(content_keys(rows)[taken], return_inverse=True, return_counts=True)
    n_rows = len(taken)
    n_repeated = n_rows - len(distinct)
    if n_repeated == 0 or len(distinct) < FEWEST_COPIES or n_rows > MOST_COPIES * len(distinct):
        return None
    first = np.empty(len(distinct), dtype=np.int64)
    first[groups[::-1]] = np.arange(n_rows)[::-1]
    if np.count_nonzero(labels != labels[first][groups]) > _OTHER_LABELS * n_repeated:
        return None
    n_pairs = _pairs_within(counts)
    one, other = np.array_split(taken[_sample(n_rows)], 2)
    chances = _chances(rows[one], rows[other])
    if n_pairs <= _MORE_THAN_CHANCE * n_rows * (n_rows - 1.0) * chances.prod():
        return None
    some = content_keys(rows, columns=_telling(chances))[taken]
    if n_pairs < _ALIKE_THROUGHOUT * _pairs_within(np.unique(some, return_counts=True)[1]):
        return None
    lone = np.bincount(labels[first], minlength=int(labels.max()) + 1) < n_parts
    apart = np.flatnonzero(lone[labels])
    groups[apart] = len(distinct) + np.arange(len(apart))
    _, first, groups = np.unique(groups, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[groups]


def first_of_each(copies: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the place of the first row of each number of `copy_groups`."""
    return np.unique(copies, return_index=True)[1]


def all_of(copies: NDArray[np.int64], numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the places of all rows whose number of `copy_groups` is among ``numbers``, in ascending order."""
    return np.flatnonzero(np.isin(copies, numbers))


def n_copies(rows: Array, others: Array) -> int:
    """Return how many of the rows (m, d) are copies of ``others`` (n, d); 0 where that may be chance."""
    ours, theirs = content_keys(rows), content_keys(others)
    if any(len(keys) > MOST_COPIES * len(np.unique(keys)) for keys in (ours, theirs)):
        return 0
    n_seen = int(np.isin(ours, theirs).sum())
    if n_seen < FEWEST_COPIES:
        return 0
    n_pairs = _pairs_between(ours, theirs)
    chances = _chances(rows[_sample(len(rows))], others[_sample(len(others))])
    if n_pairs <= _MORE_THAN_CHANCE * len(rows) * float(len(others)) * chances.prod():
        return 0
    alike = (content_keys(part, columns=_telling(chances)) for part in (rows, others))
    return n_seen if n_pairs >= _ALIKE_THROUGHOUT * _pairs_between(*alike) else 0


def _pairs_within(counts: NDArray[np.int64]) -> float:
    """Return how many ordered pairs of equal values there are, of distinct values that stand ``counts`` times each."""
    return float((counts * (counts - 1.0)).sum())


def _pairs_between(values: NDArray[Any], others: NDArray[Any]) -> float:
    """Return how many pairs of one of ``values`` and one of ``others`` are equal."""
    (ours, counts), (theirs, times) = (np.unique(part, return_counts=True) for part in (values, others))
    _, here, there = np.intersect1d(ours, theirs, assume_unique=True, return_indices=True)
    return float((counts[here] * times[there].astype(np.float64)).sum())


def _chances(rows: Array, others: Array) -> NDArray[np.float64]:
    """Return for each column how likely one of ``rows`` equals one of ``others`` there."""
    n_pairs = float(len(rows)) * len(others)
    return np.array([_pairs_between(rows[:, at], others[:, at]) / n_pairs for at in range(rows.shape[1])])


def _telling(chances: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the half of the columns in which two rows are equal least often."""
    return np.sort(np.argsort(chances, kind="stable")[: (len(chances) + 1) // 2])


def _sample(n_rows: int) -> NDArray[np.int64]:
    """Return the places of up to twice ``_SAMPLE`` rows, in an order of no meaning."""
    return rng(SPLIT_SEED, "copies").permutation(n_rows)[: 2 * _SAMPLE]


def copies_left_out(given: Iterable[Sized], parts: Iterable[Sized]) -> str:
    """Say how many of the rows given are in no part, because they are copies of rows that are; empty if all are."""
    n_left_out = sum(map(len, given)) - sum(map(len, parts))
    if not n_left_out:
        return ""
    return (
        f"{n_left_out} rows are left out as copies of drawn test or calibration rows: copies of one row stay in one "
        "part, so that no row is learned from and judged, and are judged once"
    )


def copies_in_test(test: Array, train: Array) -> str:
    """Say that test rows are copies of training rows; empty where they are not."""
    n_seen = n_copies(test, train)
    if not n_seen:
        return ""
    return (
        f"test has {n_seen} rows of {len(test)} that are training rows too: what is measured on them says nothing of "
        "new rows; give others, or none, and test rows are drawn"
    )
