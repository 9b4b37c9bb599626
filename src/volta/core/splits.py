"""Splits that depend on the labels and a seed alone, and duplicates that must stay in one part."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Sized
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from volta.core.checks import CHUNK_ELEMENTS
from volta.core.errors import InputError
from volta.core.scaling import row_parts
from volta.core.seeding import SPLIT_SEED
from volta.core.types import Array

MOST_DUPLICATES = 20
"""Samples that occur more often than this are ordinary samples, such as a sensor's record while it is off."""

OVERLAP_WARNS, OVERLAP_RAISES = 0.02, 0.5
"""Shares of a user's calibration samples that are training samples too, from which on `fit` warns and raises."""

_SIX_DIGITS, _OF_SPREAD, _MOST_OF_SPREAD = 5e-6, 1e-6, 1e-3
_MOST_STEPS = 64
_MOST_BY_CHANCE = 0.01
_SAMPLE = 2000


def content_keys(rows: Array, labels: NDArray[np.int64] | None = None) -> NDArray[np.uint64]:
    """Return a 64-bit hash of each sample's features (n, d), and of its label where labels are given."""
    random = np.random.default_rng(SPLIT_SEED)
    factors = random.integers(2**63, size=rows.shape[1] + 1, dtype=np.uint64) * np.uint64(2) + np.uint64(1)
    keys = np.zeros(len(rows), dtype=np.uint64) if labels is None else labels.astype(np.uint64) * factors[-1]
    for part in row_parts(rows):
        bits = np.ascontiguousarray(rows[part], dtype=np.float64).view(np.uint64)
        # The low bits of round numbers are 0: fold the high ones down, or products of few bits would tie.
        keys[part] += ((bits ^ (bits >> np.uint64(29))) * factors[:-1]).sum(axis=1, dtype=np.uint64)
    keys ^= keys >> np.uint64(31)
    return keys


def duplicate_groups(
    rows: Array, labels: NDArray[np.int64], taken: NDArray[np.int64] | None = None, *, n_parts: int = 2
) -> NDArray[np.int64] | None:
    """Return the number of each sample's group of duplicates, from 0 in the order of the samples; None without any.

    Duplicates are equal in the label and in all features, or nearly (see `near_groups`). A group of at most
    ``MOST_DUPLICATES`` stays in one part, so that no sample both trains and calibrates. Samples that occur more often
    are ordinary, as they are drawn that often: each is a group of its own. Kept together they would be a lottery of
    one draw, and errors on them would be guaranteed by nothing. So are samples of a class with fewer distinct ones
    than ``n_parts``, which could not be in every part. ``taken``: the places in ``rows`` that ``labels`` belong to,
    all unless set.
    """
    alike = near_groups(rows) if taken is None else near_groups(rows)[taken]
    keys = alike * (int(labels.max(initial=0)) + 1) + labels
    _, first, groups, counts = np.unique(keys, return_index=True, return_inverse=True, return_counts=True)
    n_distinct = np.bincount(labels[first], minlength=int(labels.max(initial=0)) + 1)
    ordinary = np.flatnonzero((counts[groups] > MOST_DUPLICATES) | (n_distinct[labels] < n_parts))
    groups[ordinary] = len(first) + np.arange(len(ordinary))
    _, first, groups = np.unique(groups, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[groups] if len(first) < len(groups) else None


def near_groups(*parts: Array) -> NDArray[np.int64]:
    """Return a number for each sample of arrays (n, d), one after another, that samples equal to six digits share.

    Equal to six digits: in every column the difference is at most 5e-6 of the value's distance from the median, 5e-6
    of the median but no more than a thousandth of the spread, and a millionth of the spread together. The spread is the
    median distance from the median, among values of the first array that differ from it in six digits. So a copy in
    single precision or with six digits is a duplicate.
    Exact duplicates are found by a hash; near ones, of other numbers than integers, among neighbours on a random line,
    and then by comparing all columns, in time O(n log n + n d). Where so many samples of so few columns would be equal
    to six digits by chance, more than one in a hundred, only exact duplicates count.
    """
    keys = np.concatenate([content_keys(rows) for rows in parts])
    _, first, groups = np.unique(keys, return_index=True, return_inverse=True)
    if all(rows.dtype.kind in "biu" for rows in parts):
        return groups
    with np.errstate(over="ignore", invalid="ignore"):  # extreme values differ, and so do those that overflow
        pairs = _near_pairs(parts, first)
    if not len(pairs):
        return groups
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    left, right = groups[pairs].T
    graph = coo_array((np.ones(len(left)), (left, right)), shape=(len(first), len(first)))
    return np.asarray(connected_components(graph, directed=False)[1][groups], dtype=np.int64)


def _near_pairs(parts: Sequence[Array], first: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return (m, 2) numbers of samples that are equal to six digits, of the samples ``first``."""
    some = parts[0][:: max(1, len(parts[0]) // _SAMPLE)].astype(np.float64)
    centre, spread = _centre_and_spread(some)
    tolerance = np.minimum(_SIX_DIGITS * np.abs(centre) / spread, _MOST_OF_SPREAD) + _OF_SPREAD
    if _chance((some - centre) / spread, tolerance) * len(parts[0]) > _MOST_BY_CHANCE:
        return np.empty((0, 2), dtype=np.intp)
    lines = np.random.default_rng(SPLIT_SEED).standard_normal((len(spread), 2))
    ends = np.cumsum([len(rows) for rows in parts]).tolist()
    places, reach = np.empty((ends[-1], 2)), np.empty(ends[-1])
    for rows, end in zip(parts, ends, strict=True):
        for part in row_parts(rows):
            own = slice(end - len(rows) + part.start, min(end - len(rows) + part.stop, end))
            scaled = np.clip((rows[part].astype(np.float64) - centre) / spread, -1e12, 1e12)
            places[own] = scaled @ lines
            # A sum of small differences with normal weights is hardly ever four times as large as their norm.
            reach[own] = 4 * np.linalg.norm(tolerance + _SIX_DIGITS * np.abs(scaled), axis=1)
    order = first[np.argsort(places[first, 0], kind="stable")]
    places, reach = places[order], reach[order]

    def take(numbers: NDArray[np.intp]) -> NDArray[np.float64]:
        found = np.empty((len(numbers), len(spread)))
        for rows, end in zip(parts, ends, strict=True):
            own = (numbers < end) & (numbers >= end - len(rows))
            found[own] = rows[numbers[own] - (end - len(rows))]
        return found

    pairs = [np.empty((0, 2), dtype=np.intp)]
    for step in range(1, min(len(order), _MOST_STEPS + 1)):
        close = places[step:, 0] - places[:-step, 0] <= reach[:-step]
        if not close.any():
            break
        left = np.flatnonzero(close)
        left = left[np.abs(places[left + step, 1] - places[left, 1]) <= reach[left]]
        for chunk in np.array_split(left, 1 + len(left) * len(spread) // CHUNK_ELEMENTS):
            one, other = ((take(order[numbers]) - centre) / spread for numbers in (chunk, chunk + step))
            equal = (np.abs(one - other) <= tolerance + _SIX_DIGITS * np.abs(one)).all(axis=1)
            pairs.append(np.column_stack([order[chunk[equal]], order[chunk[equal] + step]]))
    return np.concatenate(pairs)


def _chance(scaled: NDArray[np.float64], tolerance: NDArray[np.float64]) -> float:
    """Return how likely two samples are equal to six digits if columns are independent, at least one pair in each."""
    ordered = np.sort(scaled, axis=0)
    n, log_chance = len(ordered), 0.0
    for column, width in zip(ordered.T, tolerance.tolist(), strict=True):
        ends = np.searchsorted(column, column + width + _SIX_DIGITS * np.abs(column), side="right")
        n_pairs = max(1, int(ends.sum()) - n * (n + 1) // 2)
        log_chance += np.log(min(1.0, 2 * n_pairs / max(1, n * (n - 1))))
    return float(np.exp(log_chance))


def _centre_and_spread(some: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return each column's median and spread, 1 where values are equal to six digits."""
    centre = np.median(some, axis=0)
    away = np.abs(some - centre)
    away[away <= _SIX_DIGITS * np.abs(centre)] = np.nan
    varies = ~np.isnan(away).all(axis=0)
    spread = np.ones(some.shape[1])
    spread[varies] = np.nanmedian(away[:, varies], axis=0)
    return centre, spread


def first_of_each(duplicates: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the place of the first sample of each group of `duplicate_groups`."""
    return np.unique(duplicates, return_index=True)[1]


def all_of(duplicates: NDArray[np.int64], groups: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the places of all samples of the named groups of `duplicate_groups`, in ascending order."""
    return np.flatnonzero(np.isin(duplicates, groups))


def n_overlapping(rows: Array, others: Array) -> int:
    """Return how many samples (m, d) are among ``others`` (n, d) to six digits, ``MOST_DUPLICATES`` times at most.

    A share of ``OVERLAP_WARNS`` is warned of and one of ``OVERLAP_RAISES`` raised, where the ``others`` trained.
    """
    groups = near_groups(others, rows)
    counts = np.bincount(groups[: len(others)], minlength=int(groups.max(initial=0)) + 1)[groups[len(others) :]]
    return int(np.count_nonzero((counts > 0) & (counts <= MOST_DUPLICATES)))


def check_two_of_each(labels: NDArray[np.int64], names: Sequence[object]) -> None:
    """Refuse class numbers of which one occurs once, by the class's name: it cannot both train and be held out."""
    single = [names[k] for k in np.flatnonzero(np.bincount(labels, minlength=len(names)) < 2).tolist()]
    if single:
        raise InputError(
            f"y has fewer than 2 rows of {len(single)} of {len(names)} classes, first {single[0]!r}; add rows, merge "
            "or drop these classes, or pass eval_set and cal_set, so that none of their rows is held out"
        )


def duplicates_left_out(given: Iterable[Sized], parts: Iterable[Sized]) -> str:
    """Say how many samples are in no part because they duplicate one that is; empty if all are."""
    n_left_out = sum(map(len, given)) - sum(map(len, parts))
    if not n_left_out:
        return ""
    return (
        f"{n_left_out} rows are left out as duplicates of drawn test or calibration rows: duplicates stay in one part, "
        "and count once where they test or calibrate"
    )


def duplicates_in_test(test: Array, train: Array) -> str:
    """Say that test samples are training samples too; empty where fewer than ``OVERLAP_WARNS`` are."""
    n_seen = n_overlapping(test, train)
    if n_seen < OVERLAP_WARNS * len(test) or not n_seen:
        return ""
    return (
        f"test has {n_seen} rows of {len(test)} that are training rows too, so results on them are too good; pass "
        "other test rows, or none: then they are drawn from the training rows"
    )


Rows = NDArray[np.int64]
Floats = NDArray[np.float64]
FIFTH = 0.2


class FitRows(NamedTuple):
    """Row numbers of the three parts that a method may see, each in ascending order."""

    train: Rows
    val: Rows
    cal: Rows


def split_fit_rows(
    labels: Rows, n_val: int, n_cal: int, rng: np.random.Generator, duplicates: Rows | None = None
) -> FitRows:
    """Draw ``n_cal`` rows plainly at random, then ``n_val`` of the others with their class shares; the rest is train.

    Conformal guarantees need calibration rows that are drawn as test rows are, which stratified ones are not. Of the
    others, training rows come first: a class that has a row left has one in train. Rows of equal number in
    ``duplicates`` (see `duplicate_groups`) count once, stay together, and calibrate once.
    """
    if duplicates is not None:
        first = first_of_each(duplicates)
        drawn = split_fit_rows(labels[first], n_val, n_cal, rng)
        return FitRows(all_of(duplicates, drawn.train), all_of(duplicates, drawn.val), np.sort(first[drawn.cal]))
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
    labels: Mapping[str, Rows], rng: np.random.Generator, where: str, duplicates_of: Callable[[str], Rows | None]
) -> dict[str, tuple[str, Rows]]:
    """Return train, val, cal and test, each as the part of ``labels`` that it is taken from and its rows there.

    Parts that are given are kept. What is missing is drawn from the training rows: a fifth of all rows as test and a
    fifth for val and cal, so that training rows alone give 60/20/20; a lone ``val`` is halved into val and cal.
    ``where`` says in errors what was split. ``duplicates_of`` gives the `duplicate_groups` of a part that rows are
    drawn from: duplicates stay in one part, and drawn test and calibration samples are taken once.
    """
    drawn_from = {"train"} if {"test", "val"} - labels.keys() else set()
    if "val" in labels and "cal" not in labels:
        drawn_from.add("val")
    duplicates = {part: numbers for part in sorted(drawn_from) if (numbers := duplicates_of(part)) is not None}
    first = {part: first_of_each(numbers) for part, numbers in duplicates.items()}
    once = {part: own[first[part]] if part in duplicates else own for part, own in labels.items()}

    def with_duplicates(part: str, source: str, rows: Rows) -> Rows:
        if source not in duplicates:
            return rows
        if part in {"cal", "test"}:
            return np.sort(first[source][rows])
        return all_of(duplicates[source], rows)

    drawn = _draw_missing(once, rng, where)
    return {part: (source, with_duplicates(part, source, rows)) for part, (source, rows) in drawn.items()}


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
