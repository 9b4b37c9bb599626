"""Splits that depend on the labels and a seed alone: calibration rows drawn plainly at random, others stratified."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from volta.core.copies import all_of, first_of_each
from volta.core.errors import InputError

Rows = NDArray[np.int64]
Floats = NDArray[np.float64]
FIFTH = 0.2


class FitRows(NamedTuple):
    """Row numbers of the three parts that a method may see, each in ascending order."""

    train: Rows
    val: Rows
    cal: Rows


def split_fit_rows(
    labels: Rows, n_val: int, n_cal: int, rng: np.random.Generator, copies: Rows | None = None
) -> FitRows:
    """Draw ``n_cal`` rows plainly at random, then ``n_val`` of the others with their class shares; the rest is train.

    Conformal guarantees need calibration rows that are drawn as test rows are, which stratified ones are not. Of the
    others, training rows come first: a class that has a row left has one in train. Rows of equal number in ``copies``
    (see `copy_groups`) are copies of one: they count once, stay together, and calibrate once.
    """
    if copies is not None:
        first = first_of_each(copies)
        drawn = split_fit_rows(labels[first], n_val, n_cal, rng)
        return FitRows(all_of(copies, drawn.train), all_of(copies, drawn.val), np.sort(first[drawn.cal]))
    if n_val < 0 or n_cal < 0 or n_val + n_cal > len(labels):
        raise InputError(f"n_val is {n_val} and n_cal is {n_cal}; pass numbers that the {len(labels)} rows suffice for")
    cal, rest = random_take(len(labels), n_cal, rng)
    train, val = stratified_take(labels[rest], len(rest) - n_val, rng)
    return FitRows(rest[train], rest[val], cal)


def random_take(n_all: int, n_rows: int, rng: np.random.Generator) -> tuple[Rows, Rows]:
    """Draw ``n_rows`` of ``n_all`` rows, all equally likely; return (taken, rest), both in ascending order."""
    order = rng.permutation(n_all)
    return np.sort(order[:n_rows]), np.sort(order[n_rows:])


def stratified_folds(labels: Rows, n_folds: int, rng: np.random.Generator) -> list[Rows]:
    """Divide all rows into ``n_folds`` parts with the class shares of ``labels``, sizes as equal as can be."""
    left = np.arange(len(labels), dtype=np.int64)
    folds = []
    for n_left in range(n_folds, 1, -1):
        taken, rest = stratified_take(labels[left], round(len(left) / n_left), rng)
        folds.append(left[taken])
        left = left[rest]
    return [*folds, left]


def stratified_take(
    labels: Rows, n_rows: int, rng: np.random.Generator, *, every_class: bool = True
) -> tuple[Rows, Rows]:
    """Draw ``n_rows`` rows with the class shares of ``labels``; return (taken, rest), both in ascending order.

    Counts follow the largest remainder, so they add up to ``n_rows`` exactly and no class is off by more than one row,
    save that with ``every_class`` each has at least one taken row when ``n_rows`` allows it. Without, what a class's
    share has beyond a whole number is decided by lot, so that every row is as likely to be taken as any other.
    """
    if not 0 <= n_rows <= len(labels):
        raise InputError(f"n_rows is {n_rows}; pass a number from 0 to the {len(labels)} rows there are")
    classes, inverse = np.unique(labels, return_inverse=True)
    sizes = np.bincount(inverse, minlength=len(classes))
    # A generator of its own leaves the draw of rows as it is.
    counts = _allot(sizes, n_rows) if every_class else _allot_by_lot(sizes, n_rows, rng.spawn(1)[0])
    taken = np.zeros(len(labels), dtype=bool)
    by_class = np.split(np.argsort(inverse, kind="stable"), np.cumsum(sizes)[:-1])
    for rows, count in zip(by_class, counts, strict=True):
        taken[rng.permutation(rows)[:count]] = True
    return np.flatnonzero(taken), np.flatnonzero(~taken)


def _allot(sizes: Rows, n_rows: int) -> Rows:
    shares = sizes * (n_rows / max(1, sizes.sum()))
    counts = np.floor(shares).astype(np.int64)
    if n_rows >= len(sizes):
        counts = np.maximum(counts, 1)
    if counts.sum() > n_rows:
        counts = _lowered(counts, shares, int(counts.sum()) - n_rows)
    missing = n_rows - int(counts.sum())
    order = np.argsort(counts - shares, kind="stable")
    counts[order[:missing]] += 1
    return np.asarray(counts, dtype=np.int64)


def _lowered(counts: Rows, shares: Floats, n_rows: int) -> Rows:
    """Take ``n_rows`` away, each from the class that is furthest above its share, leaving every class one.

    The j-th row of a class lies j − share above it, so that these are the ``n_rows`` that lie furthest above.
    """
    spare = np.maximum(counts - 1, 0)
    index = np.repeat(np.arange(len(counts)), spare)
    step = np.arange(len(index)) - np.repeat(np.cumsum(spare) - spare, spare)
    order = np.argsort(-(counts[index] - step - shares[index]), kind="stable")[:n_rows]
    return np.asarray(counts - np.bincount(index[order], minlength=len(counts)))


def _allot_by_lot(sizes: Rows, n_rows: int, rng: np.random.Generator) -> Rows:
    """Return each class's share rounded down or up, up with its fraction as probability, and ``n_rows`` in all."""
    shares = sizes * (n_rows / max(1, sizes.sum()))
    counts = np.floor(shares + 1e-9).astype(np.int64)
    # Systematic sampling: points one apart from a random start, of which each class's fraction holds at most one.
    order = rng.permutation(len(sizes))
    ends = np.cumsum(np.maximum(shares - counts, 0.0)[order])
    missing = n_rows - int(counts.sum())
    # Rounding must not carry an end beyond the last point.
    ends = np.minimum(ends * (missing / max(ends[-1], 1e-9)), missing)
    ends[-1] = missing
    counts[order] += np.diff(np.floor(ends + rng.random()), prepend=0.0).astype(np.int64)
    return np.asarray(counts)


def parts_of_train(given: Collection[str]) -> int:
    """Return how many parts `complete_parts` makes of the training rows: train, and what is not among ``given``."""
    return 1 + ("test" not in given) + ("val" not in given or "cal" not in given)


def complete_parts(
    labels: Mapping[str, Rows], rng: np.random.Generator, where: str, copies_of: Callable[[str], Rows | None]
) -> dict[str, tuple[str, Rows]]:
    """Return train, val, cal and test, each as the part of ``labels`` that it is taken from and its rows there.

    Parts that are given are kept. What is missing is drawn from the training rows: a fifth of all rows as test and a
    fifth for val and cal, so that training rows alone give 60/20/20; a lone ``val`` is halved into val and cal.
    ``where`` says in errors what was divided. ``copies_of`` gives the numbers of `copy_groups` of a part that rows are
    drawn from: copies of one row stay in one part, and drawn test and calibration rows are taken once.
    """
    drawn_from = {"train"} if {"test", "val"} - labels.keys() else set()
    if "val" in labels and "cal" not in labels:
        drawn_from.add("val")
    copies = {part: numbers for part in sorted(drawn_from) if (numbers := copies_of(part)) is not None}
    first = {part: first_of_each(numbers) for part, numbers in copies.items()}
    once = {part: own[first[part]] if part in copies else own for part, own in labels.items()}

    def with_copies(part: str, source: str, rows: Rows) -> Rows:
        if source not in copies:
            return rows
        if part in {"cal", "test"}:
            return np.sort(first[source][rows])
        return all_of(copies[source], rows)

    drawn = _draw_missing(once, rng, where)
    return {part: (source, with_copies(part, source, rows)) for part, (source, rows) in drawn.items()}


def _draw_missing(labels: Mapping[str, Rows], rng: np.random.Generator, where: str) -> dict[str, tuple[str, Rows]]:
    parts = {part: (part, np.arange(len(own), dtype=np.int64)) for part, own in labels.items()}
    share = max(1, round(len(labels["train"]) * FIFTH))

    def labels_of(part: str) -> Rows:
        source, rows = parts[part]
        return labels[source][rows]

    def divide(origin: str, taken: Mapping[str, Rows]) -> None:
        source, rows = parts[origin]
        parts.update({part: (source, rows[own]) for part, own in taken.items()})

    if "test" not in parts:
        # Test rows that held every rare class would not be like calibration rows, and coverage would not hold on them.
        test, rest = stratified_take(labels_of("train"), share, rng, every_class=False)
        divide("train", {"test": test, "train": rest})
    if "val" not in parts and "cal" not in parts:
        n_held_out = max(2, share)
        n_cal = n_held_out // 2
        divide("train", split_fit_rows(labels_of("train"), n_held_out - n_cal, n_cal, rng)._asdict())
    if "val" not in parts:
        val, rest = stratified_take(labels_of("train"), max(1, share // 2), rng)
        divide("train", {"val": val, "train": rest})
    if "cal" not in parts:
        n_val = len(labels_of("val"))
        if n_val < 2:
            raise InputError(f"{where} has {n_val} val row, which cannot be halved into val and cal; give more")
        cal, rest = random_take(n_val, n_val // 2, rng)
        divide("val", {"cal": cal, "val": rest})
    return {part: parts[part] for part in ("train", "val", "cal", "test")}
