"""Temperature: the one β = 1/T that fits logits to labels, and what is fitted like it. Without torch."""

from __future__ import annotations

import warnings

import numpy as np
from numpy.typing import NDArray

from volta.core.errors import VoltaWarning
from volta.methods.scores import Floats, softmax

_MAX_STEPS = 200
_RELATIVE_TOLERANCE = 1e-12


class CalibrationWarning(VoltaWarning):
    """A temperature has no finite optimum on the rows it was to be fitted on."""


def fit_temperature(
    scores: Floats,
    labels: NDArray[np.int64],
    start: float = 1.0,
    weights: Floats | None = None,
    *,
    doubt: float = 0.0,
) -> float:
    """Return the β = 1/τ that minimises L(β) = (1/n) Σ_i [log Σ_k exp(β s_ik) − β s_{i,y_i}] over β > 0.

    Newton's method inside a shrinking bracket, in float64. L'' is the mean variance of s under softmax(β s), so L is
    strictly convex unless every row's scores are equal, and L' crosses zero at most once. Where there is no finite
    positive optimum, β stays ``start``, with a :class:`CalibrationWarning`. ``weights`` (n,) say how much each row
    counts. ``doubt`` is how much of a row's class its label leaves to the other classes, see :func:`half_a_row`; with
    any, rows that are all right have an optimum too.
    """
    problem = _Problem(scores, labels, weights, doubt)
    if reason := problem.why_no_optimum():
        warnings.warn(
            f"no finite temperature fits best: {reason}; 1/temperature stays as it was before, at {start:.6g}. "
            "Pass more held-out rows.",
            CalibrationWarning,
            stacklevel=2,
        )
        return start
    low, high, beta = 0.0, np.inf, start
    for _ in range(_MAX_STEPS):
        slope, curvature = problem.derivatives(beta)
        if slope < 0.0:
            low = beta
        else:
            high = beta
        proposal = beta - slope / curvature if curvature > 0.0 else np.nan
        if not low < proposal < high or proposal > 10.0 * beta:
            proposal = 4.0 * beta if np.isinf(high) else 0.5 * (low + high)
        settled = abs(proposal - beta) <= _RELATIVE_TOLERANCE * beta
        beta = proposal
        if settled:
            break
    return float(beta)


def half_a_row(n_rows: int) -> float:
    """Return the doubt in n labels that comes to half a wrong row in n + 1: 1 / (2 (n + 1)).

    Of n rows that are all right one would say that a share of (n + ½)/(n + 1) is right (Jeffreys), not all: a
    temperature that is fitted to few rows without that doubt is too sure of them. With thousands of rows it is nothing.
    Reference: Platt (1999), Probabilistic outputs for support vector machines, 2.2 (targets that are not 0 and 1).

    >>> half_a_row(49), half_a_row(4999)
    (0.01, 0.0001)
    """
    return 0.5 / (n_rows + 1)


def fit_share(
    first: Floats, second: Floats, labels: NDArray[np.int64], weights: Floats | None = None, *, doubt: float = 0.0
) -> float:
    """Return the w in [0, 1] for which the logits (1 − w) a + w b have the least NLL, to 2⁻⁴⁰.

    NLL is convex in w; where its slope has one sign, the better of a and b is taken whole. ``weights`` and ``doubt``
    are as in :func:`fit_temperature`.
    """
    difference = second - first
    true = _of_labels(difference, labels, doubt)

    def slope(share: float) -> float:
        return float(np.average((softmax(first + share * difference) * difference).sum(axis=1) - true, weights=weights))

    low, high = 0.0, 1.0
    if slope(low) >= 0.0:
        return low
    if slope(high) <= 0.0:
        return high
    for _ in range(40):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if slope(middle) < 0.0 else (low, middle)
    return low


class _Problem:
    """L and its derivatives; scores are shifted by their row maximum, which changes neither."""

    def __init__(self, scores: Floats, labels: NDArray[np.int64], weights: Floats | None, doubt: float) -> None:
        scores = np.asarray(scores, dtype=np.float64)
        if weights is not None:
            counted = weights > 0.0
            scores, labels, weights = scores[counted], labels[counted], weights[counted]
        self._weights = weights
        self._scores = scores - scores.max(axis=1, keepdims=True)
        self._true = _of_labels(self._scores, labels, doubt)

    def why_no_optimum(self) -> str:
        """Return why L has no finite minimum above 0; empty where it has one."""
        if not self._scores.any():
            return "all scores of every held-out row are equal"
        if not self._true.any():
            return "every held-out row is classified correctly, so a lower temperature is always likelier"
        if self._mean(self._scores.mean(axis=1) - self._true) >= 0.0:
            return "the scores favour wrong classes, so a higher temperature is always likelier"
        return ""

    def derivatives(self, beta: float) -> tuple[float, float]:
        weights = np.exp(beta * self._scores)
        weights /= weights.sum(axis=1, keepdims=True)
        weighted = weights * self._scores
        mean = weighted.sum(axis=1)
        variance = (weighted * self._scores).sum(axis=1) - mean**2
        return self._mean(mean - self._true), self._mean(variance)

    def _mean(self, values: Floats) -> float:
        return float(np.mean(values) if self._weights is None else np.average(values, weights=self._weights))


def _of_labels(scores: Floats, labels: NDArray[np.int64], doubt: float) -> Floats:
    """Return each row's score of its class, (n,): (1 − doubt) of it and ``doubt`` of the other classes' mean."""
    true = scores[np.arange(len(labels)), labels]
    if doubt == 0.0 or scores.shape[1] == 1:
        return true
    others = (scores.sum(axis=1) - true) / (scores.shape[1] - 1)
    return np.asarray((1.0 - doubt) * true + doubt * others)
