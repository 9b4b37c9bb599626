"""Evidence that a row is unlike the training rows of a table: single columns, their combination, neighbours."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from volta.core.checks import check_count, check_features, check_labels, check_same_length
from volta.core.errors import InputError
from volta.core.seeding import rng
from volta.decisions.conformal import Floats

SCORE_NAMES = ("column", "columns", "distance", "neighbours")
"""The scores of a `TableEvidence`, in the order of its columns."""
EVIDENCE_WEIGHTS = (1.0, 0.5, 1.0, 3.0)
"""Their weights in `fit_join`, chosen on half of the tables of benchmarks/flags.py."""
MODEL_WEIGHT = 0.5
"""The weight of a model's own score next to them."""

MAX_ROWS = 20_000
MAX_ELEMENTS = 1 << 22
MAX_LEVELS = 64
OUTER_LEVELS = 16
MAX_REFERENCE = 250
REFERENCE_ELEMENTS = 1 << 18
DISCRETE_LEVELS = 20
TAIL_SHARE = 0.1
WINSORISED = 0.02
KNEE = 2.0
N_NEIGHBOURS = 2
SPARE_NEIGHBOURS = 2
SAME_VALUE, SAME_IN_TAIL = 2.0**-23, 1e-3
"""Numbers that differ by no more of their size, nor of the column's unit, are one: copies in single precision."""
MIN_SHRINKAGE = 1e-3
# Deviations are cut here: none is infinite, and their logarithm still orders any two inputs that differ much.
LARGEST = 1e300
# Further than any row, whose deviations are logarithmic, and with a finite square.
_FAR = 1e100
_CHUNK_ELEMENTS = 1 << 20
_FEW_ROWS, _FEW_PAIRS = 32, 64

Reason: TypeAlias = Literal["out of range", "unseen value", "unlike the other columns"]


@dataclass(frozen=True)
class ColumnEvidence:
    """One ``column`` that speaks against a row: its ``value``, the training rows' range, and why.

    ``weight``: how strongly, in nats (−log of a tail share); at least log(n + 1) for n training rows.
    """

    column: int
    name: str
    value: float
    low: float
    high: float
    weight: float
    reason: Reason


@dataclass(frozen=True, eq=False)
class TableEvidence:
    """What n training rows of d columns look like; made by `fit_evidence`.

    ``levels`` (d, L): values of each column, ascending, filled up with infinity; ``surprise`` (d, 2 L + 1): −log of the
    tail share at each level (odd places) and between levels (even places); ``high`` (d,): the largest value;
    ``low_unit``, ``high_unit`` (d,): the unit of distances below and above the range; ``centre``, ``scale`` (d,);
    ``whitening`` (d, d); ``class_centres`` (K, d) and ``reference`` (r, d): whitened means and training rows; ``unit``:
    the median distance of a reference row to its neighbours.
    """

    levels: Floats
    surprise: Floats
    high: Floats
    low_unit: Floats
    high_unit: Floats
    centre: Floats
    scale: Floats
    whitening: Floats
    class_centres: Floats
    reference: Floats
    unit: float

    def scores(self, inputs: ArrayLike) -> Floats:
        """Return (n_samples, 4) unbounded scores, higher = further out, named by ``SCORE_NAMES``; see `fit_evidence`.

        inputs: (n_samples, n_features).
        """
        array = self._check(inputs)
        found = np.empty((len(array), len(SCORE_NAMES)))
        for rows in self._chunks(len(array)):
            found[rows] = self.unchecked_scores(np.asarray(array[rows], dtype=np.float64))
        return found

    def unchecked_scores(self, rows: Floats) -> Floats:
        """Return ``scores`` of a few float64 rows of the right width, finite, which are not looked at again.

        Of evidence that was stacked (`stack_evidence`) they are (n_parts, n_samples, 4).
        """
        with np.errstate(over="ignore"):
            surprises, whitened = self._surprises(rows), self._whitened(rows)
        found = np.empty((*surprises.shape[:-1], len(SCORE_NAMES)))
        found[..., 0] = np.maximum.reduce(surprises, axis=-1)
        found[..., 1] = np.add.reduce(surprises, axis=-1)
        found[..., 2] = _nearest(whitened, self.class_centres, self._squares[0], 1)[..., 0]
        near = _nearest(whitened, self.reference, self._squares[1], N_NEIGHBOURS)
        found[..., 3] = np.add.reduce(near, axis=-1) / (near.shape[-1] * self.unit)
        return found

    def explain(
        self, inputs: ArrayLike, *, names: Sequence[str] | None = None, most: int = 3
    ) -> list[tuple[ColumnEvidence, ...]]:
        """Return for each row the columns that speak against it, the strongest first, ``most`` of them at most.

        A column is named where its weight is at least log(n + 1), as if no training row were like it. The weight is
        the larger of the column's own surprise, and half of what the squared distance to the nearest class would lose
        if the column were free to fit the others.
        inputs: (n_samples, n_features); names: what to call the columns, "column 3" unless set.
        """
        array = self._check(inputs)
        check_count(most, "most")
        if names is not None and len(names) != len(self.high):
            raise InputError(
                f"names holds {len(names)} names but inputs has {len(self.high)} columns; pass one for each"
            )
        found: list[tuple[ColumnEvidence, ...]] = []
        for rows in self._chunks(len(array)):
            chunk = np.asarray(array[rows], dtype=np.float64)
            with np.errstate(over="ignore"):
                own, joint = self._surprises(chunk), self._misfits(chunk)
            for row, alone, together in zip(chunk, own, joint, strict=True):
                weights = np.maximum(alone, together)
                order = np.argsort(-weights, kind="stable")[:most]
                found.append(
                    tuple(
                        ColumnEvidence(
                            column=int(j),
                            name=names[j] if names is not None else f"column {j}",
                            value=float(row[j]),
                            low=float(self.levels[j, 0]),
                            high=float(self.high[j]),
                            weight=float(weights[j]),
                            reason=self._reason(int(j), float(row[j]), bool(together[j] > alone[j])),
                        )
                        for j in order
                        if weights[j] >= self._unseen
                    )
                )
        return found

    def _reason(self, column: int, value: float, joint: bool) -> Reason:
        if not self.levels[column, 0] <= value <= self.high[column]:
            return "out of range"
        return "unlike the other columns" if joint else "unseen value"

    @cached_property
    def _unseen(self) -> float:
        """log(n + 1): the surprise of a value that no training row has or exceeds."""
        return float(self.surprise[0, 0])

    @cached_property
    def _squares(self) -> tuple[Floats, Floats]:
        """Squared lengths of class centres and reference rows."""
        return _squared_lengths(self.class_centres), _squared_lengths(self.reference)

    @cached_property
    def _precision(self) -> Floats:
        return np.asarray(self.whitening @ self.whitening.T)

    def _surprises(self, rows: Floats) -> Floats:
        """Return (n, d): −log of each value's tail share, growing on outside the range."""
        high, low, high_unit, low_unit, widest = self._ends
        near = np.minimum(SAME_VALUE * np.abs(rows), widest)
        beyond = np.maximum((rows - high) / high_unit, (low - rows) / low_unit)
        excess = np.log1p(np.minimum(np.maximum(beyond, 0.0), LARGEST) / 2.0)
        excess *= 2.0
        excess += self.surprise.take(self._places(rows - near, rows + near) + self._starts)
        return excess

    def _places(self, low: Floats, high: Floats) -> NDArray[Any]:
        """Return #{levels < low} + #{levels ≤ high} of each value: odd where a level lies in between, else even."""
        if self.levels.ndim == 3 or len(low) <= _FEW_ROWS:
            # At most 64 levels: bytes are summed in a third of the time of whole numbers.
            counts = (self._rows_of_levels < low[..., None, :]).view(np.uint8)
            counts += (self._rows_of_levels <= high[..., None, :]).view(np.uint8)
            return np.asarray(np.add.reduce(counts, axis=-2, dtype=np.uint8))
        found = np.empty(low.shape, dtype=np.intp)
        for column, own in enumerate(self.levels):
            found[:, column] = own.searchsorted(low[:, column]) + own.searchsorted(high[:, column], side="right")
        return found

    @cached_property
    def _rows_of_levels(self) -> Floats:
        """The levels of all columns one after another, for rows (n, d): sums over them then run along memory."""
        return np.ascontiguousarray(self.levels.swapaxes(-1, -2))[..., None, :, :]

    @cached_property
    def _starts(self) -> NDArray[np.intp]:
        """Where each column's surprises begin in the flat table, for rows (n, d)."""
        *parts, width = self.surprise.shape
        return np.asarray(np.arange(0, self.surprise.size, width).reshape(*parts[:-1], 1, parts[-1]))

    @cached_property
    def _ends(self) -> tuple[Floats, ...]:
        """Each column's largest and smallest value, units of distances beyond them and width of a value, for rows."""
        widest = SAME_IN_TAIL * np.minimum(self.low_unit, self.high_unit)
        ends = self.high, self.levels[..., 0], self.high_unit, self.low_unit, widest
        return tuple(values[..., None, :] for values in ends)

    def _whitened(self, rows: Floats) -> Floats:
        return np.asarray(_squeezed(rows, self.centre[..., None, :], self.scale[..., None, :]) @ self.whitening)

    def _misfits(self, rows: Floats) -> Floats:
        """Return (n, d): half of what the squared distance to the nearest class loses without each column."""
        whitened = self._whitened(rows)
        gaps = whitened[:, None] - self.class_centres
        nearest = np.argmin(np.square(gaps).sum(axis=2), axis=1)
        gradient = gaps[np.arange(len(rows)), nearest] @ self.whitening.T
        return np.asarray(np.square(gradient) / (2.0 * np.diagonal(self._precision)))

    def _chunks(self, n_rows: int) -> Iterator[slice]:
        widest = max(self.levels.shape[1], len(self.reference), self.class_centres.size, len(self.high))
        step = max(1, _CHUNK_ELEMENTS // widest)
        return (slice(start, start + step) for start in range(0, n_rows, step))

    def _check(self, inputs: ArrayLike) -> NDArray[Any]:
        array = _check_inputs(inputs)
        if array.shape[1] != len(self.high):
            raise InputError(
                f"inputs has {array.shape[1]} columns but the evidence was fitted on {len(self.high)}; pass those"
            )
        return array


def fit_evidence(
    inputs: ArrayLike, labels: ArrayLike | None = None, *, spreads: ArrayLike | None = None
) -> TableEvidence:
    """Learn what training rows look like, for four scores of new rows, each unbounded and in units of its own.

    ``column``: max_j t_j(x), ``columns``: Σ_j t_j(x). t_j = −log(a_j / (n + 1)) is the surprise of column j, from the
    share of training rows that are at least as far out. For a discrete column a_j − 1 counts the rows whose value is
    no more frequent; no row is counted for an unseen value. For others a_j − 1 is twice the smaller of #{≤ x_j} and
    #{≥ x_j}, at most n. Ranks leave a heavy tail no more say than any other column. Outside the range t_j grows by
    2 log(1 + e_j / 2), e_j the distance in units of the mean excess of the outer tenth of the rows.
    ``distance``: min_k |W'(z − μ_k)|, the whitened distance to the nearest class mean, W W' = Σ⁻¹, Σ the pooled
    covariance within classes, shrunk by Ledoit and Wolf. z are deviations from the median in units of a robust scale,
    logarithmic beyond two of them. ``neighbours``: mean distance of W'z to the 2 nearest of at most 250 training
    rows, over its median among those.
    The first two see values that no training row has, the others columns that do not go together.
    Guarantee: none of its own; join the scores by `fit_join` on rows that were not learnt from, under the weights
    ``EVIDENCE_WEIGHTS``, a model's own score behind them under ``MODEL_WEIGHT``. All are finite for
    finite inputs, and equal rows have equal scores up to rounding.
    At most 20,000 rows are learnt from (fewer of many columns), drawn with a fixed seed: time O(n d² + n d log n) and
    memory O(n d) for those; a row takes O(d (d + r + K)) for r reference rows and K classes.
    Departures: a column has at most 64 levels, of which its 16 smallest and largest values are exact;
    surprises and reference rows are kept in single precision.
    Reference: Ledoit and Wolf (2004), A Well-Conditioned Estimator for Large-Dimensional Covariance Matrices.
    inputs: (n_samples, n_features); labels: (n_samples,) class numbers, one class unless set; spreads: (n_features,),
    what a column that is constant here is taken to spread by, the median of the others where it is NaN or not set. A
    constant indicator of 0 and 1 needs one, or its 1 would be measured in units of the other columns.

    >>> rows = np.random.default_rng(0).normal(size=(500, 3))
    >>> evidence = fit_evidence(rows)
    >>> bool((evidence.scores([[0, 0, 10]]) > evidence.scores(rows).max(axis=0)).all())
    True
    >>> [(found.column, found.reason) for found in evidence.explain([[0, 0, 10]])[0]]
    [(2, 'out of range')]
    """
    array = _check_inputs(inputs)
    classes = np.zeros(len(array), dtype=np.intp) if labels is None else _class_numbers(labels)
    check_same_length(inputs=array, labels=classes)
    n_rows = max(1, min(len(array), MAX_ROWS, MAX_ELEMENTS // array.shape[1]))
    random = rng(0, "evidence")
    if n_rows < len(array):
        picked = np.sort(random.choice(len(array), n_rows, replace=False))
        array, classes = array[picked], classes[picked]
    rows = np.asarray(array, dtype=np.float64)
    columns = [_fit_column(np.sort(values)) for values in rows.T]
    n_levels = max(len(column.levels) for column in columns)
    spread = np.array([column.spread for column in columns])
    fallback = float(np.median(spread[spread > 0])) if (spread > 0).any() else 1.0
    constant = np.full(len(columns), np.nan) if spreads is None else np.asarray(spreads, dtype=np.float64)
    spread = np.where(spread > 0, spread, np.where(np.isnan(constant), fallback, constant))
    centre = np.array([column.centre for column in columns])
    scale = np.array([column.scale for column in columns])
    scale = np.where(scale > 0, np.maximum(scale, TAIL_SHARE * spread), spread)
    low_unit, high_unit = (np.maximum([column.tails[side] for column in columns], 0.15 * spread) for side in (0, 1))
    with np.errstate(over="ignore"):
        z = _squeezed(rows, centre, scale)
    numbers = np.unique(classes, return_inverse=True)[1]
    means = _class_means(z, numbers)
    whitening = _whitening(z - means[numbers])
    n_reference = min(len(rows), MAX_REFERENCE, max(REFERENCE_ELEMENTS // rows.shape[1], 2 * N_NEIGHBOURS))
    chosen = np.sort(random.choice(len(rows), n_reference, replace=False))
    reference = _single(z[chosen] @ whitening)
    return TableEvidence(
        levels=np.stack([_padded(column.levels, n_levels, np.inf) for column in columns]),
        surprise=_single(
            np.stack([_padded(column.surprise, 2 * n_levels + 1, column.surprise[-1]) for column in columns])
        ),
        high=rows.max(axis=0),
        low_unit=low_unit,
        high_unit=high_unit,
        centre=centre,
        scale=scale,
        whitening=whitening,
        class_centres=means @ whitening,
        reference=reference,
        unit=_neighbour_unit(reference),
    )


@dataclass(frozen=True, eq=False)
class _Column:
    """What one column's values look like; ``tails``: mean excess of its lower and upper tenth."""

    levels: Floats
    surprise: Floats
    centre: float
    scale: float
    spread: float
    tails: tuple[float, float]


def _fit_column(ordered: Floats) -> _Column:
    n = len(ordered)
    levels, counts = np.unique(ordered, return_counts=True)
    upto = np.cumsum(counts)
    if len(levels) > MAX_LEVELS:
        inner = np.linspace(OUTER_LEVELS, len(levels) - 1 - OUTER_LEVELS, MAX_LEVELS - 2 * OUTER_LEVELS)
        kept = np.r_[:OUTER_LEVELS, inner.round().astype(np.intp), len(levels) - OUTER_LEVELS : len(levels)]
        levels, counts, upto = levels[kept], counts[kept], upto[kept]
    below, above = upto - counts, n - upto
    tail = np.zeros(2 * len(levels) + 1)
    if len(levels) <= min(DISCRETE_LEVELS, max(2, n // 10)):
        tail[1::2] = [counts[counts <= count].sum() for count in counts]
    else:
        tail[1::2] = 2 * np.minimum(upto, n - below)
        # Between two levels that are kept others may have been: the tail is the larger of theirs.
        tail[2:-1:2] = 2 * np.minimum(below[1:], above[:-1])
    low, lower, centre, upper, high = np.quantile(ordered, [WINSORISED, 0.1, 0.5, 0.9, 1 - WINSORISED])
    spread = _deviation(np.clip(ordered, low, high)) or _deviation(ordered)
    outer = min(n - 1, max(5, int(TAIL_SHARE * n)))
    tails = (0.0, 0.0)
    if outer:
        tails = (float(ordered[outer] - ordered[:outer].mean()), float(ordered[-outer:].mean() - ordered[-outer - 1]))
    return _Column(
        levels=levels,
        surprise=-np.log((1.0 + np.minimum(tail, n)) / (n + 1.0)),
        centre=float(centre),
        scale=float(upper - lower) / 2.56,  # of a Gaussian column the standard deviation
        spread=spread,
        tails=tails,
    )


def _deviation(values: Floats) -> float:
    """Return the standard deviation, and 0 for what rounding leaves in a constant column."""
    found = float(np.std(values))
    return found if found > 1e-12 * float(np.abs(values).max()) else 0.0


def _padded(values: Floats, length: int, filling: float) -> Floats:
    return np.concatenate([values, np.full(length - len(values), filling)])


def _squeezed(rows: Floats, centre: Floats, scale: Floats) -> Floats:
    """Return robust deviations, linear up to the knee and logarithmic beyond it; the caller ignores overflow."""
    deviation = (rows - centre) / scale
    size = np.minimum(np.abs(deviation), LARGEST)
    size = np.minimum(size, KNEE) + KNEE * np.log1p(np.maximum(size - KNEE, 0.0) / KNEE)
    return np.asarray(np.copysign(size, deviation))


def _class_means(z: Floats, numbers: NDArray[np.intp]) -> Floats:
    sums = np.zeros((int(numbers.max()) + 1, z.shape[1]))
    np.add.at(sums, numbers, z)
    return np.asarray(sums / np.bincount(numbers)[:, None])


def _whitening(z: Floats) -> Floats:
    """Return W with W W' = Σ⁻¹, the inverse of the shrunk covariance of centred rows."""
    n, d = z.shape
    covariance = z.T @ z / n
    mean_variance = float(np.trace(covariance)) / d
    if mean_variance <= 0:
        return np.eye(d)
    target = mean_variance * np.eye(d)
    distance = float(np.sum((covariance - target) ** 2))
    fourth = float(np.mean(np.einsum("ij,ij->i", z, z) ** 2))
    noise = (fourth - float(np.sum(covariance**2))) / n
    shrinkage = min(1.0, max(MIN_SHRINKAGE, noise / distance if distance > 0 else 1.0))
    factor = np.linalg.cholesky((1 - shrinkage) * covariance + shrinkage * target)
    return np.asarray(np.linalg.inv(factor).T)


def _neighbour_unit(reference: Floats) -> float:
    if len(reference) < 2:
        return 1.0
    step, squares = max(1, _CHUNK_ELEMENTS // len(reference)), _squared_lengths(reference)
    parts = [
        _nearest(reference[start : start + step], reference, squares, 1 + N_NEIGHBOURS)[:, 1:].mean(axis=1)
        for start in range(0, len(reference), step)
    ]
    found = float(np.median(np.concatenate(parts)))
    return found if found > 0 else 1.0


def _single(values: Floats) -> Floats:
    """Return values that single precision holds, in double precision: a saved file is smaller, and nothing is lost."""
    return values.astype(np.float32).astype(np.float64)


def _squared_lengths(points: Floats) -> Floats:
    return np.asarray(np.einsum("...i,...i->...", points, points))


def _nearest(rows: Floats, points: Floats, squared_lengths: Floats, k: int) -> Floats:
    """Return each row's distances to its k nearest points, ascending, (n, k) or fewer where there are fewer points.

    A matrix product finds candidates and differences give their distances: products round by how many rows there are,
    and would leave equal rows at different small distances.
    """
    n_candidates = k + SPARE_NEIGHBOURS
    near = points[..., None, :, :]
    if n_candidates < points.shape[-2] and rows.shape[-2] * points.shape[-2] > _FEW_PAIRS:
        rough = (-2.0 * rows) @ points.swapaxes(-1, -2)
        rough += squared_lengths[..., None, :]
        found = np.argpartition(rough, n_candidates - 1, axis=-1)[..., :n_candidates]
        starts = np.arange(0, points.size // points.shape[-1], points.shape[-2]).reshape(*points.shape[:-2], 1, 1)
        near = points.reshape(-1, points.shape[-1]).take(found + starts, axis=0)
    gaps = rows[..., None, :] - near
    squares = np.einsum("...i,...i->...", gaps, gaps)
    squares.sort(axis=-1)
    return np.asarray(np.sqrt(squares[..., :k]))


def stack_evidence(parts: Sequence[TableEvidence]) -> TableEvidence:
    """Return the evidence of several parts of a table as one, for ``unchecked_scores`` of a few rows at once.

    Arrays have a further first axis; shorter ones are filled up, with levels and points that are beyond all others.
    """
    whole = {field.name: [np.asarray(getattr(part, field.name)) for part in parts] for field in fields(TableEvidence)}
    whole["unit"] = [unit[None] for unit in whole["unit"]]
    fillings = {"levels": np.inf, "class_centres": _FAR, "reference": _FAR}
    return TableEvidence(**{name: _stacked(arrays, fillings.get(name, 0.0)) for name, arrays in whole.items()})


def _stacked(arrays: list[Floats], filling: float) -> Any:
    shape = np.max([array.shape for array in arrays], axis=0)
    found = np.full((len(arrays), *shape), filling)
    for place, array in zip(found, arrays, strict=True):
        place[tuple(map(slice, array.shape))] = array
    return found


def _class_numbers(labels: ArrayLike) -> NDArray[np.intp]:
    return check_labels(labels, int(np.max(np.asarray(labels), initial=0)) + 1)


def _check_inputs(inputs: ArrayLike) -> NDArray[Any]:
    array = check_features(inputs, "inputs")
    if array.ndim != 2:
        raise InputError(f"inputs has shape {array.shape}; pass (n_samples, n_features), e.g. features of the images")
    return array
