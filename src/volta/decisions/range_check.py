"""The range check: how far a row lies outside the training rows."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from volta.core.checks import CHUNK_ELEMENTS, FLOAT32_MAX, check_count, check_features
from volta.core.errors import InputError
from volta.core.files import row_chunks
from volta.decisions.conformal import Floats

# Rows are taken in pieces of this many times the values that are kept, so that those are sorted out again but seldom.
_PIECE = 8


def column_range(array: NDArray[Any], tail: float) -> tuple[Floats, Floats]:
    """Return the ``tail`` and the 1 − ``tail`` quantile of each column of (n, d) rows, as `numpy.quantile` does.

    Time O(n d); of each column the ``tail`` · n smallest and largest values are held.

    >>> column_range(np.arange(101.0)[:, None], 0.025)
    (array([2.5]), array([97.5]))
    """
    place = tail * (len(array) - 1)
    n_kept = min(len(array), math.floor(place) + 2)
    smallest, largest = _extremes(array, n_kept)
    share = place - math.floor(place)
    return _between(np.sort(smallest, axis=0), share), _between(np.sort(largest, axis=0)[::-1], share)


def _between(ordered: NDArray[Any], share: float) -> Floats:
    """Return the value between the last two rows, all rows being ordered from the outside in."""
    outer, inner = ordered[-2:].astype(np.float64) if len(ordered) > 1 else ordered[[0, 0]].astype(np.float64)
    return np.asarray(outer + share * (inner - outer))


def _extremes(array: NDArray[Any], n_kept: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return each column's ``n_kept`` smallest and its largest values, in any order."""
    smallest = largest = array[:0]
    for chunk in row_chunks(array, max(_PIECE * n_kept, CHUNK_ELEMENTS // array.shape[1], 1)):
        smallest, largest = np.concatenate([smallest, chunk]), np.concatenate([largest, chunk])
        if len(smallest) > n_kept:
            smallest = np.partition(smallest, n_kept - 1, axis=0)[:n_kept]
            largest = np.partition(largest, len(largest) - n_kept, axis=0)[-n_kept:]
    return smallest, largest


RANGE_TAIL = 0.001
DISTANCE_QUANTILE = 0.99
MIN_SHRINKAGE = 1e-3
# Large enough to order any two inputs that differ much, small enough for sums of squares to stay finite.
LARGEST = 1e100


@dataclass(frozen=True)
class OutOfRange:
    """One ``column`` of one row whose ``value`` is ``excess`` standard deviations outside [``low``, ``high``]."""

    column: int
    name: str
    value: float
    low: float
    high: float
    excess: float


@dataclass(frozen=True, eq=False)
class RangeCheck:
    """What training rows look like, column by column and together; made by `fit_range_check`.

    ``low``, ``high``, ``centre``, ``scale``: (n_features,); ``whitening``: (n_features, n_features);
    ``unit``: the distance that 99 % of the training rows stay within.
    """

    low: Floats
    high: Floats
    centre: Floats
    scale: Floats
    whitening: Floats
    unit: float

    def score(self, inputs: ArrayLike) -> Floats:
        """Return g(x) of each row, higher = further outside; see `fit_range_check`. inputs: (n_samples, n_features)."""
        furthest, distance = self.parts(inputs)
        return furthest + distance

    def parts(self, inputs: ArrayLike) -> tuple[Floats, Floats]:
        """Return the two terms of g(x), max_j e_j(x) and D(x) / D₉₉, for a combination that ranks each by itself."""
        array = self._check(inputs)
        furthest, distance = np.empty(len(array)), np.empty(len(array))
        for rows, chunk in _chunks(array):
            furthest[rows], distance[rows] = self.unchecked_parts(chunk)
        return furthest, distance

    def unchecked_parts(self, rows: Floats) -> tuple[Floats, Floats]:
        """Return ``parts`` of float64 rows of the right width within float32's range, which are not looked at again."""
        beyond = np.maximum(rows - self.high, self.low - rows)
        beyond /= self.scale
        furthest = np.maximum(np.maximum.reduce(beyond, axis=1), 0.0)
        standard = rows - self.centre
        standard /= self.scale
        if self.has_tiny_scale:
            np.minimum(furthest, LARGEST, out=furthest)
            _within(standard, -LARGEST, LARGEST)
        return furthest, self._distances(standard) / self.unit

    def excess(self, inputs: ArrayLike) -> Floats:
        """Return (n_samples, n_features): standard deviations outside the training rows' range, 0 inside it."""
        rows = np.asarray(self._check(inputs), dtype=np.float64)
        beyond = np.maximum(rows - self.high, self.low - rows)
        beyond /= self.scale
        return _within(beyond, 0.0, LARGEST)

    def explain(
        self, inputs: ArrayLike, *, names: Sequence[str] | None = None, most: int = 3
    ) -> list[tuple[OutOfRange, ...]]:
        """Return for each row its columns out of range, the furthest first, ``most`` of them at most.

        inputs: (n_samples, n_features); names: what to call the columns, "column 3" unless set.
        """
        array = self._check(inputs)
        check_count(most, "most")
        if names is not None and len(names) != len(self.low):
            raise InputError(
                f"names holds {len(names)} names but inputs has {len(self.low)} columns; pass one for each"
            )
        outside = self.excess(array)
        return [
            tuple(
                OutOfRange(
                    column=int(column),
                    name=names[column] if names is not None else f"column {column}",
                    value=float(row[column]),
                    low=float(self.low[column]),
                    high=float(self.high[column]),
                    excess=float(beyond[column]),
                )
                for column in np.argsort(-beyond, kind="stable")[:most]
                if beyond[column] > 0
            )
            for row, beyond in zip(array, outside, strict=True)
        ]

    def _check(self, inputs: ArrayLike) -> NDArray[Any]:
        array = _check_inputs(inputs)
        if array.shape[1] != len(self.low):
            raise InputError(
                f"inputs has {array.shape[1]} columns but the range check was fitted on {len(self.low)}; pass those"
            )
        return array

    @cached_property
    def has_tiny_scale(self) -> bool:
        """Whether a row within float32's range may be further out than LARGEST."""
        return bool(2.0 * FLOAT32_MAX / self.scale.min() > LARGEST)

    def _distances(self, standard: Floats) -> Floats:
        """Return D of rows that are standardised."""
        whitened = standard @ self.whitening
        # A dot product of huge terms that cancel may round to anything but not overflow: LARGEST² · d is finite.
        whitened *= whitened
        return np.asarray(np.sqrt(np.add.reduce(whitened, axis=1) / len(self.low)))


def fit_range_check(inputs: ArrayLike) -> RangeCheck:
    """Learn range and shape of training rows, for one score a row: g(x) = max_j e_j(x) + D(x) / D₉₉.

    e_j(x) = max(0, x_j − h_j, l_j − x_j) / σ_j: standard deviations outside the range [l_j, h_j] of column j, its
    0.1 % and 99.9 % quantiles in training rows; σ_j from values cut to that range, so that a few wild training values
    decide nothing, and for a column that hardly ever moves the median σ of the others.
    D(x)² = zᵀ Σ⁻¹ z / d, z = (x − m) / σ, d columns: whitened distance with the shrunk covariance
    Σ = (1 − λ) S + λ (tr S / d) I of the cut training rows, λ by Ledoit and Wolf; D₉₉ is what 99 % of the training rows
    stay within. The range sees one column far out and can be explained; the distance sees columns that do not go
    together.
    Guarantee: none of its own; it is a score, to be calibrated on other rows (`fit_ood`), alone or with a method's
    score (`fit_combination`). It is finite for every input that is, and grows without end along every line out of
    the training rows.
    Time O(n d²) in six walks over the rows; memory O(d²), a bounded number of rows, and of each column the 0.2 % of
    its values that lie furthest out.
    Reference: Ledoit and Wolf (2004), A Well-Conditioned Estimator for Large-Dimensional Covariance Matrices.
    inputs: (n_samples, n_features), on the scale the model sees.

    >>> rows = np.random.default_rng(0).normal(size=(500, 3))
    >>> range_check = fit_range_check(rows)
    >>> bool(range_check.score([[0, 0, 10]])[0] > range_check.score(rows).max())
    True
    >>> [found.column for found in range_check.explain([[0, 0, 10]])[0]]
    [2]
    """
    array = _check_inputs(inputs)
    low, high, centre, deviation = _columns(array)
    moving = deviation > 0
    scale = np.where(moving, deviation, np.median(deviation[moving]) if moving.any() else 1.0)
    whitening = _whitening(array, low, high, centre, scale)
    check = RangeCheck(low, high, centre, scale, whitening, unit=1.0)
    distances = np.concatenate([check._distances(_standardise(chunk, centre, scale)) for _, chunk in _chunks(array)])
    unit = float(np.quantile(distances, DISTANCE_QUANTILE))
    return RangeCheck(low, high, centre, scale, whitening, unit=unit if unit > 0 else 1.0)


def _columns(array: NDArray[Any]) -> tuple[Floats, Floats, Floats, Floats]:
    """Return each column's range, and mean and standard deviation of its values cut to the range."""
    low, high = column_range(array, RANGE_TAIL)
    total, squares = np.zeros(len(low)), np.zeros(len(low))
    for _, chunk in _chunks(array):
        total += (np.clip(chunk, low, high) - low).sum(axis=0)
    above = total / len(array)
    for _, chunk in _chunks(array):
        squares += np.square(np.clip(chunk, low, high) - low - above).sum(axis=0)
    centre, deviation = low + above, np.sqrt(squares / len(array))
    # The spread that rounding leaves in a constant column is none.
    return low, high, centre, np.where(deviation > 1e-12 * np.maximum(np.abs(low), np.abs(high)), deviation, 0.0)


def _whitening(array: NDArray[Any], low: Floats, high: Floats, centre: Floats, scale: Floats) -> Floats:
    """Return W with W Wᵀ = Σ⁻¹, the inverse of the shrunk covariance of the cut, standardised rows."""
    n, d = array.shape
    outer, fourth = np.zeros((d, d)), 0.0
    for _, chunk in _chunks(array):
        z = _standardise(np.clip(chunk, low, high), centre, scale)
        outer += z.T @ z
        fourth += float(np.sum(np.einsum("ij,ij->i", z, z) ** 2))
    covariance = outer / n
    mean_variance = float(np.trace(covariance)) / d
    if mean_variance <= 0:
        return np.eye(d)
    target = mean_variance * np.eye(d)
    distance = float(np.sum((covariance - target) ** 2))
    noise = (fourth / n - float(np.sum(covariance**2))) / n
    shrinkage = min(1.0, max(MIN_SHRINKAGE, noise / distance if distance > 0 else 1.0))
    factor = np.linalg.cholesky((1 - shrinkage) * covariance + shrinkage * target)
    return np.asarray(np.linalg.inv(factor).T)


def _standardise(rows: Floats, centre: Floats, scale: Floats) -> Floats:
    with np.errstate(over="ignore"):
        standard = rows - centre
        standard /= scale
    return _within(standard, -LARGEST, LARGEST)


def _within(values: Floats, low: float, high: float) -> Floats:
    """Clip ``values`` in place: np.clip takes longer than both bounds by themselves where there are few."""
    np.maximum(values, low, out=values)
    return np.minimum(values, high, out=values)


def _chunks(array: NDArray[Any]) -> Iterator[tuple[slice, Floats]]:
    step = max(1, CHUNK_ELEMENTS // array.shape[1])
    for start, chunk in zip(range(0, len(array), step), row_chunks(array, step), strict=True):
        yield slice(start, start + len(chunk)), np.asarray(chunk, dtype=np.float64)


def _check_inputs(inputs: ArrayLike) -> NDArray[Any]:
    array = check_features(inputs, "inputs")
    if array.ndim != 2:
        raise InputError(f"inputs has shape {array.shape}; pass (n_samples, n_features), e.g. features of the images")
    return array
