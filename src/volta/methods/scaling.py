"""One temperature fitted on held-out rows: a one-dimensional convex problem in β = 1/τ."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from volta.core.errors import InputError
from volta.methods.scores import Floats

_MAX_STEPS = 200
_RELATIVE_TOLERANCE = 1e-12


class CalibrationWarning(UserWarning):
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


def fit_temperature(scores: Floats, labels: NDArray[np.int64], start: float = 1.0) -> TemperatureFit:
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
    """
    if len(scores) == 0:
        raise InputError("scores has no rows; a temperature needs at least one held-out row")
    if not start > 0.0 or not np.isfinite(start):
        raise InputError(f"start is {start}; pass a positive number")
    problem = _Problem(scores, labels)
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


class _Problem:
    """L and its derivatives; scores are shifted by their row maximum, which changes neither."""

    def __init__(self, scores: Floats, labels: NDArray[np.int64]) -> None:
        scores = np.asarray(scores, dtype=np.float64)
        self._scores = scores - scores.max(axis=1, keepdims=True)
        self._true = self._scores[np.arange(len(labels)), labels]

    def status(self) -> Literal["interior", "separable", "uninformative", "flat"]:
        if not self._scores.any():
            return "flat"
        if not self._true.any():
            return "separable"
        if self._scores.mean() >= self._true.mean():
            return "uninformative"
        return "interior"

    def nll(self, beta: float) -> float:
        return float(np.mean(np.log(np.exp(beta * self._scores).sum(axis=1)) - beta * self._true))

    def derivatives(self, beta: float) -> tuple[float, float]:
        weights = np.exp(beta * self._scores)
        weights /= weights.sum(axis=1, keepdims=True)
        weighted = weights * self._scores
        mean = weighted.sum(axis=1)
        variance = (weighted * self._scores).sum(axis=1) - mean**2
        return float(np.mean(mean - self._true)), float(np.mean(variance))


def _warn(status: str, start: float) -> None:
    reason = {
        "separable": "every held-out row is classified correctly, so a lower temperature is always likelier",
        "uninformative": "the scores favour wrong classes, so a higher temperature is always likelier",
        "flat": "all scores of every held-out row are equal",
    }[status]
    warnings.warn(
        f"no finite temperature fits best: {reason}; 1/temperature stays at {start:.6g}. Pass more held-out rows.",
        CalibrationWarning,
        stacklevel=3,
    )
