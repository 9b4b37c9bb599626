"""Maps of one class's score to its probability, each fitted against all other classes. Without torch or a contract.

A score x is the log-odds of a class's probability, log p − log(1 − p), unless said otherwise; ``hits`` (n,) says which
rows are of the class, ``counts`` (n,) how much each row counts, 1 on average.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from volta.methods.scores import Floats

Hits: TypeAlias = NDArray[np.bool_]
Steps: TypeAlias = tuple[Floats, Floats]
"""Thresholds (m,) and the m + 1 values before, between and after them."""

_N_KNOTS = 10
_N_PLACES = 20
_SMOOTHNESS = np.logspace(0, -6, 7)
_SMALLEST_GAIN = 1e-4


def isotonic_corners(scores: Floats, hits: Hits, counts: Floats) -> tuple[Floats, Floats]:
    """Return the corners of the non-decreasing map of scores to hits by least squares, ties taken together."""
    from scipy.optimize import isotonic_regression

    distinct, index = np.unique(scores, return_inverse=True)
    weights = np.bincount(index, counts)
    fitted = np.asarray(isotonic_regression(np.bincount(index, hits * counts) / weights, weights=weights).x)
    # Inside a level only its two ends matter.
    corner = np.ones(len(fitted), dtype=bool)
    corner[1:-1] = (fitted[1:-1] != fitted[:-2]) | (fitted[1:-1] != fitted[2:])
    return distinct[corner], np.clip(fitted[corner], 0.0, 1.0)


def beta_features(x: Floats) -> Floats:
    """Return log p, −log(1 − p) and 1 of each log-odds x, with one more axis of 3."""
    return np.stack([-np.logaddexp(0.0, -x), np.logaddexp(0.0, x), np.ones_like(x)], axis=-1)


def fit_beta(x: Floats, hits: Hits, counts: Floats, ridge: float) -> Floats:
    """Return (a, b, c) of logit q = a log p − b log(1 − p) + c, a and b at least 0.

    They minimise NLL + λ ((a − 1)² + (b − 1)² + c²), λ = ridge/n.
    """
    return _fit_rising(beta_features(x), hits, counts, ridge)


def quadratic_features(x: Floats, low: Floats | float, high: Floats | float) -> Floats:
    """Return φ₁, φ₂ and 1 of each x, with one more axis of 3.

    u φ₁ + v φ₂ is 0 at 0, has slope u up to ``low``, v from ``high`` on, and slopes in a straight line between.
    """
    inside = np.clip(x, low, high)
    falling = (high * inside - inside**2 / 2) / (high - low) + np.minimum(x - low, 0.0)
    rising = (inside**2 / 2 - low * inside) / (high - low) + np.maximum(x - high, 0.0)
    return np.stack([falling, rising, np.ones_like(x)], axis=-1)


def fit_quadratic(x: Floats, hits: Hits, counts: Floats, ridge: float) -> Floats:
    """Return (low, high, u, v, c): the range of x, the slopes at its ends, at least 0, and the value at 0.

    They minimise NLL + λ ((u − 1)² + (v − 1)² + c²), λ = ridge/n, of logit q = c + w₁ x + w₂ x², u and v its slopes.
    """
    low, high = _range(x[counts > 0.0])
    return np.array([low, high, *_fit_rising(quadratic_features(x, low, high), hits, counts, ridge)])


def fit_spline(x: Floats, hits: Hits, counts: Floats) -> tuple[Floats, Floats]:
    """Return knots t (m,) and values there of the natural cubic spline f that is the logit of q.

    f minimises NLL + λ r³ ∫ f''² + (1/n) mean_j (f(t_j) − t_j)², r the range of x. Knots: at most ten quantiles of x,
    none closer than r/20. λ is one of 1, 0.1, … 10⁻⁶, by the NLL of each row under the fit without it, to first order;
    a smaller one has to gain 10⁻⁴.
    """
    order = np.argsort(x[counts > 0.0], kind="stable")
    rising, mass = x[counts > 0.0][order], counts[counts > 0.0][order].cumsum()
    quantiles = rising[np.searchsorted(mass, np.linspace(0.0, 1.0 - 1e-9, _N_KNOTS) * mass[-1])]
    low, high = _range(rising)
    shares = np.unique([0.0, *np.round((quantiles - low) / (high - low) * _N_PLACES) / _N_PLACES, 1.0])
    knots = low + (high - low) * shares
    design, bend = spline_features(x, knots), _bending(shares)
    pull = np.eye(len(knots)) / (len(knots) * len(x))
    best, least = knots, np.inf
    for smoothness in _SMOOTHNESS:
        penalty = smoothness * bend + pull
        values = _fit_logistic(design, hits, counts, penalty, knots)
        loss = _left_out_nll(design, hits, counts, penalty, values)
        if loss < least - _SMALLEST_GAIN:
            best, least = values, loss
    return knots, best


def spline_features(x: Floats, knots: Floats) -> Floats:
    """Return the (n, m) matrix from a natural cubic spline's values at m knots to those at x; straight outside."""
    from scipy.interpolate import CubicSpline

    basis = CubicSpline(knots, np.eye(len(knots)), bc_type="natural")
    inside = np.clip(x, knots[0], knots[-1])
    return np.asarray(basis(inside) + (x - inside)[:, None] * basis(inside, 1))


def spline_pieces(knots: Sequence[Floats], values: Sequence[Floats]) -> tuple[Floats, Floats, Floats]:
    """Return natural cubic splines as lines (K, 3) and knots and factors (K, m) of the cubes that begin there.

    f(x) = value + slope (x − first) + Σ_j θ_j max(x − t_j, 0)³; a line is (first, value, slope). Splines with fewer
    knots have factors of 0 at the end.
    """
    from scipy.interpolate import CubicSpline

    most = max(map(len, knots))
    lines, places, cubes = np.empty((len(knots), 3)), np.zeros((len(knots), most)), np.zeros((len(knots), most))
    for k, (at, heights) in enumerate(zip(knots, values, strict=True)):
        curve = CubicSpline(at, heights, bc_type="natural")
        lines[k] = at[0], heights[0], float(curve(at[0], 1))
        places[k, : len(at)] = at
        cubes[k, : len(at)] = np.diff(curve.c[0], prepend=0.0, append=0.0)
    return lines, places, cubes


def _bending(knots: Floats) -> Floats:
    """Return the (m, m) matrix of ∫ f''² in the values at the knots: f'' goes in straight lines between them."""
    from scipy.interpolate import CubicSpline

    curvature = CubicSpline(knots, np.eye(len(knots)), bc_type="natural")(knots, 2)
    steps = np.diff(knots)
    mass = np.zeros((len(knots), len(knots)))
    for j, step in enumerate(steps):
        mass[j : j + 2, j : j + 2] += step / 6.0 * np.array([[2.0, 1.0], [1.0, 2.0]])
    return np.asarray(curvature.T @ mass @ curvature)


def _range(x: Floats) -> tuple[float, float]:
    low, high = float(x.min()), float(x.max())
    return (low, high) if high - low > 1e-9 else (low - 0.5, high + 0.5)


def _fit_rising(design: Floats, hits: Hits, counts: Floats, ridge: float) -> Floats:
    """Return θ (3,) near (1, 1, 0), the first two at least 0: on a face of what is allowed where it lies beyond."""
    target, penalty = np.array([1.0, 1.0, 0.0]), ridge / len(design) * np.eye(3)
    found: list[tuple[float, Floats]] = []
    for free in ([0, 1, 2], [0, 2], [1, 2], [2]):
        values = np.zeros(3)
        part = np.ix_(free, free)
        values[free] = _fit_logistic(design[:, free], hits, counts, penalty[part], target[free])
        if values[:2].min() >= 0.0:
            moved = values - target
            found.append((_nll(design @ values, hits, counts) + float(moved @ penalty @ moved), values))
            if len(free) == 3:
                break
    return min(found, key=lambda pair: pair[0])[1]


def _nll(logits: Floats, hits: Hits, counts: Floats) -> float:
    return float((counts * (np.logaddexp(0.0, logits) - hits * logits)).mean())


def _fit_logistic(design: Floats, hits: Hits, counts: Floats, penalty: Floats, target: Floats) -> Floats:
    """Return θ minimising NLL of logits X θ + (θ − target)ᵀ P (θ − target), a convex problem, by Newton's method."""

    def value(candidate: Floats) -> float:
        return _nll(design @ candidate, hits, counts) + float((candidate - target) @ penalty @ (candidate - target))

    found, now = target.copy(), value(target)
    for _ in range(100):
        slope, curvature = _derivatives(design, hits, counts, penalty, found)
        slope += 2.0 * penalty @ (found - target)
        step = np.linalg.lstsq(curvature, slope, rcond=None)[0]
        size = 1.0
        while size > 1e-8 and value(found - size * step) > now:
            size /= 2.0
        moved = found - size * step
        if (after := value(moved)) > now or float(slope @ step) < 1e-18:
            break
        found, now = moved, after
    return found


def _derivatives(design: Floats, hits: Hits, counts: Floats, penalty: Floats, found: Floats) -> tuple[Floats, Floats]:
    """Return the gradient of the mean NLL, (m,), and the second derivatives with the penalty's, (m, m)."""
    probs = 0.5 * (1.0 + np.tanh(0.5 * (design @ found)))
    n_rows = len(design)
    slope = design.T @ (counts * (probs - hits)) / n_rows
    curvature = (design * (counts * probs * (1.0 - probs))[:, None]).T @ design / n_rows + 2.0 * penalty
    return slope, curvature


def _left_out_nll(design: Floats, hits: Hits, counts: Floats, penalty: Floats, found: Floats) -> float:
    """Return the mean NLL of rows under fits without them, to first order: η + g (q − y)/(1 − g w), w = q (1 − q).

    g = xᵀ H⁻¹ x/n, H the second derivatives. Reference: Pregibon (1981), Logistic Regression Diagnostics.
    """
    _, curvature = _derivatives(design, hits, counts, penalty, found)
    leverage = np.einsum("ij,ij->i", design, np.linalg.solve(curvature, design.T).T) / len(design)
    logits = design @ found
    probs = 0.5 * (1.0 + np.tanh(0.5 * logits))
    left_out = logits + leverage * (probs - hits) / np.maximum(1.0 - leverage * probs * (1.0 - probs), 1e-3)
    return _nll(left_out, hits, counts)


def fit_venn_abers(scores: Floats, hits: Hits, counts: Floats) -> tuple[Steps, Steps]:
    """Return p₀ and p₁ of each score as steps: its isotonic value where it joins the rows as a miss, and as a hit.

    Scores may be any that rise with the class. Reference: Vovk, Petej & Fedorova (2015), Large-scale probabilistic
    predictors with and without guarantees of validity, algorithms 1 to 4.
    """
    counted = counts > 0.0
    distinct, index = np.unique(scores[counted], return_inverse=True)
    weights = np.bincount(index, counts[counted]).astype(np.float64)
    hit = np.bincount(index, (hits * counts)[counted]).astype(np.float64)
    as_hit = np.append(_joined_as_hit(weights, hit), 1.0)
    # A miss that joins from above is a hit that joins from below, in the mirror.
    as_miss = np.append(0.0, 1.0 - _joined_as_hit(weights[::-1], (weights - hit)[::-1])[::-1])
    return _steps(distinct, as_miss), _steps(distinct, as_hit)


def step_values(x: Floats, steps: Steps, *, after: bool) -> Floats:
    """Return the value of the steps at x; at a threshold the one ``after`` it, or the one before."""
    thresholds, values = steps
    return np.asarray(values[np.searchsorted(thresholds, x, side="right" if after else "left")])


def _steps(thresholds: Floats, values: Floats) -> Steps:
    changes = values[1:] != values[:-1]
    return thresholds[changes], np.append(values[:-1][changes], values[-1])


def _joined_as_hit(weights: Floats, hits: Floats) -> Floats:
    """Return the isotonic value of each distinct score, in rising order, where one more hit joins there.

    It is the slope of the greatest convex minorant of the sums of hits over those of weights. What is below the score
    moves by (−1, −1); ``corners`` are those of the minorant from the score on, the lowest last.
    """
    xs, ys = np.append(0.0, weights.cumsum()).tolist(), np.append(0.0, hits.cumsum()).tolist()
    corners: list[tuple[float, float]] = [(-1.0, -1.0)]
    for point in zip(xs, ys, strict=True):
        while len(corners) > 1 and not _turns_left(corners[-2], corners[-1], point):
            corners.pop()
        corners.append(point)
    corners.reverse()
    moved, found = (-1.0, -1.0), []
    for before, here in pairwise(zip(xs, ys, strict=True)):
        (x_low, y_low), (x_next, y_next) = corners[-1], corners[-2]
        slope = (y_next - y_low) / (x_next - x_low)
        found.append(slope)
        moved = (moved[0] + here[0] - before[0], moved[1] + here[1] - before[1])
        if moved[1] >= y_low + slope * (moved[0] - x_low):
            continue
        corners.pop()
        while len(corners) > 1 and not _turns_left(moved, corners[-1], corners[-2]):
            corners.pop()
        corners.append(moved)
    return np.asarray(np.clip(found, 0.0, 1.0))


def _turns_left(first: tuple[float, float], second: tuple[float, float], third: tuple[float, float]) -> bool:
    return (second[0] - first[0]) * (third[1] - second[1]) > (second[1] - first[1]) * (third[0] - second[0])
