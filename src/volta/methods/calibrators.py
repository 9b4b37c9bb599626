"""Calibrators: maps from logits to calibrated logits, fitted on held-out rows alone. Without torch."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from volta.core.errors import VoltaWarning, unknown_name
from volta.methods.scores import Floats, at_labels, softmax

Labels = NDArray[np.int64]
_MAX_STEPS = 200
_RELATIVE_TOLERANCE = 1e-12
_LBFGS: Any = {"maxiter": 1000, "ftol": 1e-14, "gtol": 1e-9}


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


def fit_vector_scaling(
    logits: Floats, labels: NDArray[np.int64], ridge: float, weights: Floats | None = None
) -> tuple[Floats, Floats]:
    """Return (a, b) minimising the ridge-penalised NLL, a convex problem, by L-BFGS from a = 1, b = 0.

    ``weights`` (n,): how much each row counts, 1 on average; all alike without them.
    """
    from scipy.optimize import minimize

    n_classes = logits.shape[1]

    def loss(parameters: Floats) -> tuple[float, Floats]:
        scale, bias = parameters[:n_classes], parameters[n_classes:]
        nll, residual = _mean_nll(logits * scale + bias, labels, weights)
        value = nll + ridge * (((scale - 1.0) ** 2).sum() + (bias**2).sum())
        gradient = np.concatenate([(residual * logits).mean(axis=0), residual.mean(axis=0)])
        gradient += 2.0 * ridge * np.concatenate([scale - 1.0, bias])
        return float(value), gradient

    start = np.concatenate([np.ones(n_classes), np.zeros(n_classes)])
    found = minimize(loss, start, jac=True, method="L-BFGS-B", options=_LBFGS)
    return found.x[:n_classes], found.x[n_classes:]


def _mean_nll(logits: Floats, labels: NDArray[np.int64], weights: Floats | None) -> tuple[float, Floats]:
    """Return the mean NLL of logits (n, K), which are overwritten, and each row's derivatives, (n, K)."""
    rows = np.arange(len(logits))
    counts = np.ones(len(logits)) if weights is None else weights
    logits -= logits.max(axis=1, keepdims=True)
    log_sums = np.log(np.exp(logits).sum(axis=1))
    residual = np.exp(logits - log_sums[:, None])
    residual[rows, labels] -= 1.0
    residual *= counts[:, None]
    return float((counts * (log_sums - logits[rows, labels])).mean()), residual


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


_TINY = np.finfo(np.float64).tiny


class FittedCalibrator:
    """A calibrator after its fit: it has at least one of :meth:`logits` and :meth:`probs` of its own."""

    def logits(self, logits: Floats) -> Floats:
        """Return calibrated logits, (n, K); their softmax is :meth:`probs`."""
        return np.asarray(np.log(np.maximum(self.probs(logits), _TINY)))

    def probs(self, logits: Floats) -> Floats:
        """Return calibrated probabilities, (n, K)."""
        return softmax(self.logits(logits))

    @property
    def parameters(self) -> Mapping[str, Any]:
        """What was fitted, by name: numbers, arrays or tuples of arrays; T = 1/β."""
        fitted = {name: value for name, value in vars(self).items() if name not in ("beta", "uniform")}
        return ({"temperature": 1.0 / vars(self)["beta"]} if "beta" in vars(self) else {}) | fitted


@dataclass(frozen=True)
class Calibrator:
    """Something that is fitted to logits of held-out rows: ``title`` is its name for a reader.

    ``fit(logits, labels, weights)`` takes logits (n, K) of rows with classes ``labels`` (n,). ``weights`` (n,): how
    much each row counts, 1 on average; all alike without them.
    """

    title: str
    fit: Callable[..., FittedCalibrator]


@dataclass(frozen=True, eq=False)
class FittedStructuredScaling(FittedCalibrator):
    """Calibrated logits z Aᵀ + b of z = log p', p' = (1 − u) softmax(β l) + u/K.

    ``matrix`` A is (K,), a diagonal, or (K, K); ``bias`` b is (K,); ``uniform`` is u.
    """

    beta: float
    uniform: float
    matrix: Floats
    bias: Floats

    def logits(self, logits: Floats) -> Floats:
        """Return z Aᵀ + b."""
        scaled = _log_mixture(logits, self.beta, self.uniform)
        return (scaled * self.matrix if self.matrix.ndim == 1 else scaled @ self.matrix.T) + self.bias


def structured_vector_scaling(logits: Floats, labels: Labels, weights: Floats | None = None) -> FittedStructuredScaling:
    """Fit softmax(a ⊙ z + b) of tempered log-probabilities z, minimising NLL + λ (|a − 1|² + |b|²) with λ = K/n.

    First one temperature without penalty, which any number of rows can pay for; then a scale and a bias per class,
    penalised the more the more classes K there are for n rows: with few rows it is temperature scaling, with many
    vector scaling. The tempered probabilities are mixed with 1/(n + 1) of the uniform ones first, so that their
    logarithms stay bounded.
    Reference: Berta et al. (2026), Structured Matrix Scaling for Multi-Class Calibration; the defaults of probmetrics.
    """
    beta, uniform, scaled = _tempered(logits, labels, weights)
    scale, bias = fit_vector_scaling(scaled, labels, logits.shape[1] / len(logits), weights)
    return FittedStructuredScaling(beta, uniform, scale, bias)


def structured_matrix_scaling(logits: Floats, labels: Labels, weights: Floats | None = None) -> FittedStructuredScaling:
    """Fit softmax(A z + b) of tempered log-probabilities z, as :func:`structured_vector_scaling` with a full matrix.

    Diagonal and bias are penalised by K/n, the K (K − 1) entries off the diagonal by K (K − 1)/n. A pass over the rows
    costs n · K²: meant for up to a few hundred classes.
    """
    beta, uniform, scaled = _tempered(logits, labels, weights)
    return FittedStructuredScaling(beta, uniform, *fit_matrix_scaling(scaled, labels, weights))


def fit_matrix_scaling(logits: Floats, labels: Labels, weights: Floats | None = None) -> tuple[Floats, Floats]:
    """Return (A, b) minimising mean NLL of A l + b + (K/n) (|diag A − 1|² + |b|²) + (K (K − 1)/n) |off-diag A|².

    ``weights`` (n,): how much each row counts, 1 on average; all alike without them.
    """
    from scipy.optimize import minimize

    n_rows, n_classes = logits.shape
    penalty = np.full((n_classes, n_classes), n_classes * (n_classes - 1) / n_rows)
    np.fill_diagonal(penalty, n_classes / n_rows)

    def loss(parameters: Floats) -> tuple[float, Floats]:
        moved, bias = parameters[:-n_classes].reshape(n_classes, n_classes), parameters[-n_classes:]
        value, residual = _mean_nll(logits + logits @ moved.T + bias, labels, weights)
        value += (penalty * moved**2).sum() + n_classes / n_rows * (bias**2).sum()
        slope = residual.T @ logits / n_rows + 2.0 * penalty * moved
        return float(value), np.append(slope, residual.mean(axis=0) + 2.0 * n_classes / n_rows * bias)

    start = np.zeros(n_classes * (n_classes + 1))
    found = minimize(loss, start, jac=True, method="L-BFGS-B", options=_LBFGS)
    matrix = np.eye(n_classes) + found.x[:-n_classes].reshape(n_classes, n_classes)
    return matrix, np.asarray(found.x[-n_classes:])


def _tempered(logits: Floats, labels: Labels, weights: Floats | None) -> tuple[float, float, Floats]:
    beta = fit_temperature(logits, labels, weights=weights)
    uniform = 1.0 / (len(logits) + 1)
    return beta, uniform, _log_mixture(logits, beta, uniform)


def _log_mixture(logits: Floats, beta: float, uniform: float) -> Floats:
    return np.asarray(np.log((1.0 - uniform) * softmax(logits, beta) + uniform / logits.shape[1]))


@dataclass(frozen=True, eq=False)
class FittedMixture(FittedCalibrator):
    """p = w₀ softmax(β l) + w₁ softmax(l) + w₂/K; ``weights`` (3,) are at least 0 and sum to 1."""

    beta: float
    weights: Floats

    def probs(self, logits: Floats) -> Floats:
        """Return p, (n, K)."""
        tempered, plain, uniform = self.weights
        return np.asarray(tempered * softmax(logits, self.beta) + plain * softmax(logits) + uniform / logits.shape[1])


def ensemble_temperature(logits: Floats, labels: Labels, weights: Floats | None = None) -> FittedMixture:
    """Fit one temperature, then three weights, both minimising NLL; the most probable class never changes.

    Departure: the authors' code minimises squared error by default; NLL, its other choice, agrees with the other
    calibrators here.
    Reference: Zhang et al. (2020), Mix-n-Match: Ensemble and Compositional Methods for Uncertainty Calibration.
    """
    beta = fit_temperature(logits, labels, weights=weights)
    parts = [at_labels(softmax(logits, scale), labels) for scale in (beta, 1.0)]
    likelihoods = np.stack([*parts, np.full(len(labels), 1.0 / logits.shape[1])], axis=1)
    return FittedMixture(beta, _shares(likelihoods, np.ones(len(labels)) if weights is None else weights))


def _shares(likelihoods: Floats, counts: Floats) -> Floats:
    """Return w on the simplex maximising Σ_i c_i log Σ_j w_j L_ij, from all on the first."""
    from scipy.optimize import LinearConstraint, minimize

    def loss(weights: Floats) -> tuple[float, Floats]:
        mixed = np.maximum(likelihoods @ weights, _TINY)
        return -float((counts * np.log(mixed)).mean()), -(likelihoods * (counts / mixed)[:, None]).mean(axis=0)

    found = minimize(
        loss, np.array([0.98, 0.01, 0.01]), jac=True, method="SLSQP", bounds=[(0.0, 1.0)] * 3,
constraints=LinearConstraint(np.ones((1, 3)), 1.0, 1.0), options={"ftol": 1e-14},
    )  # fmt: skip
    weights = np.clip(found.x, 0.0, 1.0)
    return np.asarray(weights / weights.sum())


@dataclass(frozen=True, eq=False)
class FittedIsotonic(FittedCalibrator):
    """p ∝ (m_1(q_1), …, m_K(q_K)), q = softmax(l); m_k goes in straight lines through (``x[k]``, ``y[k]``)."""

    x: tuple[Floats, ...]
    y: tuple[Floats, ...]

    def probs(self, logits: Floats) -> Floats:
        """Return p, (n, K); a row that every class's map gives 0 is uniform."""
        plain = softmax(logits)
        mapped = np.stack([np.interp(plain[:, k], self.x[k], self.y[k]) for k in range(plain.shape[1])], axis=1)
        total = mapped.sum(axis=1, keepdims=True)
        return np.asarray(np.where(total > 0.0, mapped / np.where(total > 0.0, total, 1.0), 1.0 / plain.shape[1]))


def isotonic(logits: Floats, labels: Labels, weights: Floats | None = None) -> FittedIsotonic:
    """Fit for each class a non-decreasing map of its probability, by least squares against the rest; rows sum to 1.

    A warning example: it calibrates each class's probability on the rows it has seen, gives probability 0 to classes
    that were never true below some probability, and so ruins NLL where few rows or many classes are held out.
    Reference: Zadrozny & Elkan (2002), Transforming Classifier Scores into Accurate Multiclass Probability Estimates.
    """
    plain = softmax(logits)
    counts = np.ones(len(labels)) if weights is None else weights
    plain, labels, counts = plain[counts > 0.0], labels[counts > 0.0], counts[counts > 0.0]
    corners = [_isotonic(plain[:, k], labels == k, counts) for k in range(logits.shape[1])]
    return FittedIsotonic(tuple(x for x, _ in corners), tuple(y for _, y in corners))


def _isotonic(scores: Floats, hits: NDArray[np.bool_], counts: Floats) -> tuple[Floats, Floats]:
    """Return the corners of the non-decreasing map of scores to hits, ties taken together."""
    from scipy.optimize import isotonic_regression

    distinct, index = np.unique(scores, return_inverse=True)
    weights = np.bincount(index, counts)
    fitted = np.asarray(isotonic_regression(np.bincount(index, hits * counts) / weights, weights=weights).x)
    # Inside a level only its two ends matter.
    corner = np.ones(len(fitted), dtype=bool)
    corner[1:-1] = (fitted[1:-1] != fitted[:-2]) | (fitted[1:-1] != fitted[2:])
    return distinct[corner], np.clip(fitted[corner], 0.0, 1.0)


@dataclass(frozen=True)
class FittedTemperature(FittedCalibrator):
    """Logits divided by one temperature T: β l with β = 1/T."""

    beta: float

    def logits(self, logits: Floats) -> Floats:
        """Return β l."""
        return logits * self.beta


def temperature_scaling(logits: Floats, labels: Labels, weights: Floats | None = None) -> FittedTemperature:
    """Fit the one T > 0 that minimises NLL, a convex problem in 1/T; classes keep their order, so accuracy stays.

    Reference: Guo et al. (2017), On Calibration of Modern Neural Networks.
    """
    return FittedTemperature(fit_temperature(logits, labels, weights=weights))


@dataclass(frozen=True, eq=False)
class FittedVectorScaling(FittedCalibrator):
    """Logits a ⊙ l + b, with a scale and a bias per class, both (K,)."""

    scale: Floats
    bias: Floats

    def logits(self, logits: Floats) -> Floats:
        """Return a ⊙ l + b."""
        return logits * self.scale + self.bias


def vector_scaling(
    logits: Floats, labels: Labels, weights: Floats | None = None, *, ridge: float = 1.0
) -> FittedVectorScaling:
    """Fit a and b that minimise NLL + λ (|a/β − 1|² + |b|²), λ = ridge · K/n, β = 1/T fitted first.

    Reference: Guo et al. (2017), On Calibration of Modern Neural Networks.
    """
    beta = fit_temperature(logits, labels, weights=weights)
    n_rows, n_classes = logits.shape
    # A ridge around a = 1 would hold on to logits of the wrong size, a fixed one let few rows be learned by heart.
    scale, bias = fit_vector_scaling(beta * logits, labels, ridge * n_classes / n_rows, weights)
    return FittedVectorScaling(beta * scale, bias)


CALIBRATORS: dict[str, Calibrator] = {
    "temperature": Calibrator("Temperature scaling", temperature_scaling),
    "vector_scaling": Calibrator("Vector scaling", vector_scaling),
    "structured_vector_scaling": Calibrator("Structured vector scaling", structured_vector_scaling),
    "structured_matrix_scaling": Calibrator("Structured matrix scaling", structured_matrix_scaling),
    "ensemble_temperature": Calibrator("Ensemble temperature scaling", ensemble_temperature),
    "isotonic": Calibrator("Isotonic regression", isotonic),
}
"""The calibrators by name; one that keeps this contract is one more line here."""


def find_calibrator(name: str) -> Calibrator:
    """Return the calibrator called ``name``, or say which there are."""
    if name not in CALIBRATORS:
        raise unknown_name("calibrator", name, CALIBRATORS)
    return CALIBRATORS[name]
