"""Logits scaled by what is fitted on held-out rows: one temperature, or a scale and a bias per class. Without torch."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from volta.core.errors import InputError, VoltaWarning
from volta.methods.scores import Floats, softmax

_MAX_STEPS = 200
_RELATIVE_TOLERANCE = 1e-12


class CalibrationWarning(VoltaWarning):
    """A temperature has no finite optimum on the rows it was to be fitted on."""


@dataclass(frozen=True)
class TemperatureFit:
    """The fitted β = 1/τ and how it came about.

    ``status``: ``interior`` (a true minimum), ``separable`` (every row is right, NLL falls for ever as β grows),
    ``uninformative`` (scores favour wrong classes, NLL is least as β → 0), ``flat`` (scores do not differ).
    Where there is no interior minimum, β is the one the caller started from.
    """

    beta: float
    nll: float
    status: Literal["interior", "separable", "uninformative", "flat"]
    steps: int


def fit_temperature(
    scores: Floats,
    labels: NDArray[np.int64],
    start: float = 1.0,
    weights: Floats | None = None,
    *,
    doubt: float = 0.0,
) -> TemperatureFit:
    """Minimise L(β) = (1/n) Σ_i [log Σ_k exp(β s_ik) − β s_{i,y_i}] over β > 0.

    Newton's method inside a shrinking bracket, in float64. L'' is the mean variance of s under softmax(β s), so L is
    strictly convex unless every row's scores are equal, and L' crosses zero at most once.

    Parameters
    ----------
    scores
        (n, K) logits or similarities s.
    labels
        (n,) true classes.
    start
        β to begin from, and to keep (with a :class:`CalibrationWarning`) when there is no finite positive optimum.
    weights
        (n,) how much each row counts; all alike without them.
    doubt
        How much of a row's class its label leaves to the other classes, see :func:`half_a_row`; with any, rows that are
        all right have an optimum too.
    """
    if len(scores) == 0:
        raise InputError("scores has no rows; a temperature needs at least one held-out row")
    if not start > 0.0 or not np.isfinite(start):
        raise InputError(f"start is {start}; pass a positive number")
    problem = _Problem(scores, labels, weights, doubt)
    status = problem.status()
    if status != "interior":
        _warn(status, start)
        return TemperatureFit(start, problem.nll(start), status, 0)
    low, high, beta = 0.0, np.inf, start
    for step in range(1, _MAX_STEPS + 1):
        slope, curvature = problem.derivatives(beta)
        if slope < 0.0:
            low = beta
        else:
            high = beta
        proposal = beta - slope / curvature if curvature > 0.0 else np.nan
        if not low < proposal < high or proposal > 10.0 * beta:
            proposal = 4.0 * beta if np.isinf(high) else 0.5 * (low + high)
        if abs(proposal - beta) <= _RELATIVE_TOLERANCE * beta:
            return TemperatureFit(float(proposal), problem.nll(proposal), "interior", step)
        beta = proposal
    return TemperatureFit(float(beta), problem.nll(beta), "interior", _MAX_STEPS)


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

    NLL is convex in w; where its slope has one sign, the better of a and b is taken whole.

    Parameters
    ----------
    first, second
        (n, K) logits a and b of the same rows.
    labels
        (n,) true classes.
    weights
        (n,) how much each row counts; all alike without them.
    doubt
        As in :func:`fit_temperature`.
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


def fit_vector_scaling(
    logits: Floats, labels: NDArray[np.int64], ridge: float, weights: Floats | None = None
) -> tuple[Floats, Floats]:
    """Return (a, b) minimising the ridge-penalised NLL, a convex problem, by L-BFGS from a = 1, b = 0.

    ``weights`` (n,): how much each row counts, 1 on average; all alike without them.
    """
    from scipy.optimize import minimize

    n_rows, n_classes = logits.shape
    rows = np.arange(n_rows)
    counts = np.ones(n_rows) if weights is None else weights

    def loss(parameters: Floats) -> tuple[float, Floats]:
        scale, bias = parameters[:n_classes], parameters[n_classes:]
        scaled = logits * scale + bias
        scaled -= scaled.max(axis=1, keepdims=True)
        log_sums = np.log(np.exp(scaled).sum(axis=1))
        value = (counts * (log_sums - scaled[rows, labels])).mean() + ridge * (
            ((scale - 1.0) ** 2).sum() + (bias**2).sum()
        )
        residual = np.exp(scaled - log_sums[:, None])
        residual[rows, labels] -= 1.0
        residual *= counts[:, None]
        gradient = np.concatenate([(residual * logits).mean(axis=0), residual.mean(axis=0)])
        gradient += 2.0 * ridge * np.concatenate([scale - 1.0, bias])
        return float(value), gradient

    start = np.concatenate([np.ones(n_classes), np.zeros(n_classes)])
    found = minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": 1000, "ftol": 1e-14, "gtol": 1e-9})
    return found.x[:n_classes], found.x[n_classes:]


def fit_tempered_vector_scaling(
    logits: Floats, labels: NDArray[np.int64], ridge: float, weights: Floats | None = None
) -> tuple[Floats, Floats]:
    """Return (a, b) minimising NLL(a ⊙ l + b) + λ (|a/β − 1|² + |b|²), λ = ``ridge`` · K/n, β the one temperature's.

    First the temperature, without a penalty, then what differs from it, penalised the more the more classes there are
    for n rows: a ridge around a = 1 would hold on to logits of the wrong size, a fixed one let few rows be learned by
    heart.
    """
    beta = fit_temperature(logits, labels, weights=weights).beta
    n_rows, n_classes = logits.shape
    scale, bias = fit_vector_scaling(beta * logits, labels, ridge * n_classes / n_rows, weights)
    return beta * scale, bias


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

    def status(self) -> Literal["interior", "separable", "uninformative", "flat"]:
        if not self._scores.any():
            return "flat"
        if not self._true.any():
            return "separable"
        if self._mean(self._scores.mean(axis=1) - self._true) >= 0.0:
            return "uninformative"
        return "interior"

    def nll(self, beta: float) -> float:
        return self._mean(np.log(np.exp(beta * self._scores).sum(axis=1)) - beta * self._true)

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


def _warn(status: str, start: float) -> None:
    reason = {
        "separable": "every held-out row is classified correctly, so a lower temperature is always likelier",
        "uninformative": "the scores favour wrong classes, so a higher temperature is always likelier",
        "flat": "all scores of every held-out row are equal",
    }[status]
    warnings.warn(
        f"no finite temperature fits best: {reason}; 1/temperature stays as it was before, at {start:.6g}. "
        "Pass more held-out rows.",
        CalibrationWarning,
        stacklevel=3,
    )
