"""Sets with no more rows than a user asks for; always the same ones, labelled rows drawn with the classes' shares."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from volta.core.seeding import SPLIT_SEED, rng
from volta.core.splits import stratified_take
from volta.core.types import OodSet, Split
from volta.data.raw_sets import LazyMapping, RawSets

Rows = NDArray[np.int64]
LIMIT_TRAIN, LIMIT_TEST = "limit_train", "limit_test"


def limited_rows(labels: Rows, n_rows: int | None, task: str, purpose: str = LIMIT_TEST) -> Rows | None:
    """Return which rows of a labelled set are kept; None where all are. Sets with equal labels keep the same ones.

    Training rows keep every class that they can; of test rows each is as likely to be kept as any other, so that they
    stay as calibration rows are.
    """
    if n_rows is None or n_rows >= len(labels):
        return None
    every_class = purpose == LIMIT_TRAIN
    rows, _ = stratified_take(labels, n_rows, rng(SPLIT_SEED, task, purpose), every_class=every_class)
    return rows


def limit_split(split: Split, n_rows: int | None, task: str, purpose: str = LIMIT_TEST) -> Split:
    """Return at most ``n_rows`` rows of a labelled set; of sets with equal labels, as shifted tests have, the same."""
    rows = limited_rows(split.labels, n_rows, task, purpose)
    return split if rows is None else split.take(rows)


def limit_ood(ood_set: OodSet, n_rows: int | None, task: str, name: str) -> OodSet:
    """Return at most ``n_rows`` rows of an OOD set."""
    if n_rows is None or n_rows >= len(ood_set.inputs):
        return ood_set
    rows = np.sort(rng(SPLIT_SEED, LIMIT_TEST, task, name).permutation(len(ood_set.inputs))[:n_rows])
    return replace(ood_set, inputs=ood_set.inputs[rows])


def limit_sets(raw: RawSets, n_rows: int | None, task: str) -> RawSets:
    """Return the sets with at most ``n_rows`` rows in test, in each OOD set and in each shifted set."""
    if n_rows is None:
        return raw
    return replace(
        raw,
        parts={**raw.parts, "test": limit_split(raw.parts["test"], n_rows, task)},
        ood={name: limit_ood(part, n_rows, task, name) for name, part in raw.ood.items()},
        shifts=LazyMapping({name: partial(_limited_shift, raw.shifts, name, n_rows, task) for name in raw.shifts}),
    )


def _limited_shift(shifts: Mapping[str, Split], name: str, n_rows: int, task: str) -> Split:
    return limit_split(shifts[name], n_rows, task)
