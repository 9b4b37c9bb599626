"""Calibrators: maps from logits to calibrated logits, fitted on held-out rows alone. Without torch."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from volta.core.errors import unknown_name
from volta.methods.one_vs_rest import (
    Steps,
    beta_features,
    fit_beta,
    fit_quadratic,
    fit_spline,
    fit_venn_abers,
    isotonic_corners,
    quadratic_features,
    spline_features,
    step_values,
)
from volta.methods.scores import Floats, at_labels, log_sum_exp, softmax
from volta.methods.temperature import CalibrationWarning, fit_temperature

Labels = NDArray[np.int64]
_LBFGS: Any = {"maxiter": 1000, "ftol": 1e-14, "gtol": 1e-9}


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
    n_classes = logits.shape[1]
    matrix, bias = fit_matrix_scaling(scaled, labels, weights, n_classes, n_classes * (n_classes - 1))
    return FittedStructuredScaling(beta, uniform, matrix, bias)


def dirichlet(logits: Floats, labels: Labels, weights: Floats | None = None) -> FittedStructuredScaling:
    """Fit softmax(A z + b) of tempered log-probabilities z with ODIR: K/n times |off-diag A|² and |b|².

    The multiclass form of beta calibration: what calibrated probabilities are where those of each class's rows follow a
    Dirichlet law. Departures: z, from :func:`structured_vector_scaling`, in place of log-probabilities as they are; K/n
    where the authors try a grid; and 1/n times |diag A − 1|², free there, so that there always is an optimum.
    Reference: Kull et al. (2019), Beyond temperature scaling: Obtaining well-calibrated multiclass probabilities with
    Dirichlet calibration.
    """
    beta, uniform, scaled = _tempered(logits, labels, weights)
    n_classes = logits.shape[1]
    return FittedStructuredScaling(
        beta, uniform, *fit_matrix_scaling(scaled, labels, weights, 1.0, n_classes, bias=n_classes)
    )


def fit_matrix_scaling(
    logits: Floats,
    labels: Labels,
    weights: Floats | None,
    diagonal: float,
    others: float,
    *,
    bias: float | None = None,
) -> tuple[Floats, Floats]:
    """Return (A, b) minimising mean NLL of A l + b + (d |diag A − 1|² + e |off-diag A|² + f |b|²)/n.

    d is ``diagonal``, e ``others``, f ``bias``, or d without it. ``weights`` (n,): how much each row counts, 1 on
    average; all alike without them.
    """
    from scipy.optimize import minimize

    n_rows, n_classes = logits.shape
    penalty = np.full((n_classes, n_classes), others / n_rows)
    np.fill_diagonal(penalty, diagonal / n_rows)
    of_bias = (diagonal if bias is None else bias) / n_rows

    def loss(parameters: Floats) -> tuple[float, Floats]:
        moved, shift = parameters[:-n_classes].reshape(n_classes, n_classes), parameters[-n_classes:]
        value, residual = _mean_nll(logits + logits @ moved.T + shift, labels, weights)
        value += (penalty * moved**2).sum() + of_bias * (shift**2).sum()
        slope = residual.T @ logits / n_rows + 2.0 * penalty * moved
        return float(value), np.append(slope, residual.mean(axis=0) + 2.0 * of_bias * shift)

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
    corners = [isotonic_corners(plain[:, k], labels == k, counts) for k in range(logits.shape[1])]
    return FittedIsotonic(tuple(x for x, _ in corners), tuple(y for _, y in corners))


def _log_odds(log_probs: Floats) -> Floats:
    """Return log p_k − log(1 − p_k) of log-probabilities (n, K) that are bounded, as those of :func:`_tempered`."""
    probs = np.exp(log_probs)
    others = probs.sum(axis=1, keepdims=True) - probs
    return np.asarray(log_probs - np.log(others))


def _log_shares(log_odds: Floats) -> Floats:
    """Return log p of each class, p ∝ the probabilities of these log-odds against the rest."""
    log_probs = -np.logaddexp(0.0, -log_odds)
    return np.asarray(log_probs - log_sum_exp(log_probs)[:, None])


def _against_rest(labels: Labels, n_classes: int, weights: Floats | None) -> tuple[list[NDArray[np.bool_]], Floats]:
    return [labels == k for k in range(n_classes)], np.ones(len(labels)) if weights is None else weights


@dataclass(frozen=True, eq=False)
class FittedBeta(FittedCalibrator):
    """p_k ∝ σ(a_k log q_k − b_k log(1 − q_k) + c_k), q = (1 − u) softmax(β l) + u/K; ``coefficients`` (K, 3)."""

    beta: float
    uniform: float
    coefficients: Floats

    def logits(self, logits: Floats) -> Floats:
        """Return log p."""
        x = _log_odds(_log_mixture(logits, self.beta, self.uniform))
        return _log_shares(np.einsum("nkj,kj->nk", beta_features(x), self.coefficients))


def beta(logits: Floats, labels: Labels, weights: Floats | None = None, *, ridge: float = 1.0) -> FittedBeta:
    """Fit a, b ≥ 0 and c of each class against the rest by NLL + λ ((a − 1)² + (b − 1)² + c²), λ = ridge/n.

    One-vs-rest with normalisation; two classes are the authors' binary form. Departures: on probabilities q after one
    temperature, mixed with 1/(n + 1) of uniform ones, as in :func:`structured_vector_scaling`; and the ridge, with
    which few rows stay near that temperature.
    Reference: Kull, Silva Filho & Flach (2017), Beta calibration: a well-founded and easily implemented improvement on
    logistic calibration for binary classifiers.
    """
    scale, uniform, scaled = _tempered(logits, labels, weights)
    x, (hits, counts) = _log_odds(scaled), _against_rest(labels, logits.shape[1], weights)
    fits = [fit_beta(x[:, k], hit, counts, ridge) for k, hit in enumerate(hits)]
    return FittedBeta(scale, uniform, np.stack(fits))


@dataclass(frozen=True, eq=False)
class FittedQuadratic(FittedCalibrator):
    """p_k ∝ σ(f_k(x_k)), x_k the log-odds of q_k, q = (1 − u) softmax(β l) + u/K, f_k quadratic on the range of x_k.

    ``coefficients`` (K, 5): the range of x_k, the slopes of f_k at its ends, which go on outside, and its value at 0.
    """

    beta: float
    uniform: float
    coefficients: Floats

    def logits(self, logits: Floats) -> Floats:
        """Return log p."""
        x = _log_odds(_log_mixture(logits, self.beta, self.uniform))
        low, high = self.coefficients[:, 0], self.coefficients[:, 1]
        return _log_shares(np.einsum("nkj,kj->nk", quadratic_features(x, low, high), self.coefficients[:, 2:]))


def quadratic(logits: Floats, labels: Labels, weights: Floats | None = None, *, ridge: float = 1.0) -> FittedQuadratic:
    """Fit logit p = c + w₁ x + w₂ x² of each class's log-odds x against the rest, one-vs-rest with normalisation.

    Minimises NLL + λ ((u − 1)² + (v − 1)² + c²), λ = ridge/n, u and v the slopes at the ends of the range of x.
    Departures: x is after one temperature, as in :func:`beta`; the ridge; u and v are at least 0 and go on outside, so
    that a higher score is never less probable.
    Reference: Berta et al. (2026), A Large-Scale Post-Hoc Calibration Benchmark; probmetrics, ``quadratic-scaling``.
    """
    scale, uniform, scaled = _tempered(logits, labels, weights)
    x, (hits, counts) = _log_odds(scaled), _against_rest(labels, logits.shape[1], weights)
    fits = [fit_quadratic(x[:, k], hit, counts, ridge) for k, hit in enumerate(hits)]
    return FittedQuadratic(scale, uniform, np.stack(fits))


@dataclass(frozen=True, eq=False)
class FittedSpline(FittedCalibrator):
    """p_k ∝ σ(f_k(x_k)), x_k the log-odds of q_k, q = (1 − u) softmax(β l) + u/K, f_k a natural cubic spline.

    f_k goes through ``values[k]`` at ``knots[k]``, and straight on outside.
    """

    beta: float
    uniform: float
    knots: tuple[Floats, ...]
    values: tuple[Floats, ...]

    def logits(self, logits: Floats) -> Floats:
        """Return log p."""
        x = _log_odds(_log_mixture(logits, self.beta, self.uniform))
        curves = zip(x.T, self.knots, self.values, strict=True)
        return _log_shares(np.stack([spline_features(column, t) @ at for column, t, at in curves], axis=1))


def spline(logits: Floats, labels: Labels, weights: Floats | None = None) -> FittedSpline:
    """Fit a smoothing spline of each class's log-odds to its logit against the rest, one-vs-rest with normalisation.

    :func:`volta.methods.one_vs_rest.fit_spline` has the formula. Departures: log-odds after one temperature, as in
    :func:`beta`; curvature is penalised, not coefficients; knots are quantiles, not drawn; the weight of curvature is
    chosen by leaving rows out to first order, not by folds; the line f(x) = x counts as one row, not 20.
    Reference: Lucena (2018), Spline-based Probability Calibration.
    """
    scale, uniform, scaled = _tempered(logits, labels, weights)
    x, (hits, counts) = _log_odds(scaled), _against_rest(labels, logits.shape[1], weights)
    curves = [fit_spline(x[:, k], hit, counts) for k, hit in enumerate(hits)]
    return FittedSpline(scale, uniform, tuple(knots for knots, _ in curves), tuple(values for _, values in curves))


@dataclass(frozen=True, eq=False)
class FittedVennAbers(FittedCalibrator):
    """p_k ∝ p₁/(1 − p₀ + p₁) of q_k, q = softmax(l); p₀ and p₁ are the steps of each class, as a miss and as a hit."""

    as_miss: tuple[Steps, ...]
    as_hit: tuple[Steps, ...]

    def probs(self, logits: Floats) -> Floats:
        """Return p, (n, K)."""
        plain = softmax(logits)
        p0 = np.stack([step_values(plain[:, k], steps, after=True) for k, steps in enumerate(self.as_miss)], axis=1)
        p1 = np.stack([step_values(plain[:, k], steps, after=False) for k, steps in enumerate(self.as_hit)], axis=1)
        against_rest = p1 / (1.0 - p0 + p1)
        return np.asarray(against_rest / against_rest.sum(axis=1, keepdims=True))


def venn_abers(logits: Floats, labels: Labels, weights: Floats | None = None) -> FittedVennAbers:
    """Fit inductive Venn-Abers predictors of each class against the rest, one-vs-rest with normalisation.

    For each score isotonic regression is fitted twice, with the score as a miss and as a hit: p₀ and p₁. One of them is
    calibrated where rows are exchangeable; p₁/(1 − p₀ + p₁) is the probability with the least regret over both.
    Reference: Vovk, Petej & Fedorova (2015), Large-scale probabilistic predictors with and without guarantees of
    validity.
    """
    plain, (hits, counts) = softmax(logits), _against_rest(labels, logits.shape[1], weights)
    steps = [fit_venn_abers(plain[:, k], hit, counts) for k, hit in enumerate(hits)]
    return FittedVennAbers(tuple(as_miss for as_miss, _ in steps), tuple(as_hit for _, as_hit in steps))


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
    "beta": Calibrator("Beta calibration", beta),
    "quadratic": Calibrator("Quadratic scaling", quadratic),
    "spline": Calibrator("Spline calibration", spline),
    "dirichlet": Calibrator("Dirichlet calibration", dirichlet),
    "venn_abers": Calibrator("Venn-Abers", venn_abers),
}
"""The calibrators by name; one that keeps this contract is one more line here."""


def find_calibrator(name: str) -> Calibrator:
    """Return the calibrator called ``name``, or say which there are."""
    if name not in CALIBRATORS:
        raise unknown_name("calibrator", name, CALIBRATORS)
    return CALIBRATORS[name]


CHOICES = (
    *("temperature", "structured_vector_scaling", "structured_matrix_scaling", "ensemble_temperature"),
    *("beta", "quadratic", "spline", "dirichlet"),
)
"""What :func:`choose_calibrator` tries unless told: smooth maps alone."""

_N_FOLDS = 5
_FEWEST_ROWS = 60
_STANDARD_ERRORS = 2.0


def choose_calibrator(
    logits: Floats,
    labels: Labels,
    names: Sequence[str] = CHOICES,
    *,
    rng: np.random.Generator,
    weights: Floats | None = None,
) -> str:
    """Return the name of the calibrator with the least log loss in five folds, or ``temperature``.

    Another than ``temperature`` has to be better by more than two standard errors of the rows' differences; below 60
    rows none is tried. Full matrices are tried where each of their K² entries has a row.

    Examples
    --------
    >>> random = np.random.default_rng(0)
    >>> labels = random.integers(2, size=2000)
    >>> logits = random.normal(size=(2000, 2)) + 1.5 * np.eye(2)[labels] + [2.0, 0.0]
    >>> name = choose_calibrator(logits, labels, ("temperature", "vector_scaling"), rng=random)
    >>> name, CALIBRATORS[name].fit(logits, labels).parameters["bias"].round(1)
    ('vector_scaling', array([-1.3,  1.3]))
    """
    n_rows, n_classes = logits.shape
    matrices = () if n_rows >= n_classes**2 else ("structured_matrix_scaling", "dirichlet")
    tried = {name: find_calibrator(name) for name in names if name not in ("temperature", *matrices)}
    if n_rows < _FEWEST_ROWS or not tried:
        return "temperature"
    counts = np.ones(n_rows) if weights is None else weights
    folds = list(folds_of(labels, rng))

    def losses(calibrator: Calibrator) -> Floats:
        return fold_losses(calibrator, logits, labels, counts, folds)

    plain = losses(CALIBRATORS["temperature"])
    gains = {name: counts * (plain - losses(calibrator)) for name, calibrator in tried.items()}
    best = max(gains, key=lambda name: float(gains[name].mean()))
    return best if gains[best].mean() > _STANDARD_ERRORS * gains[best].std() / np.sqrt(n_rows) else "temperature"


def fold_losses(
    calibrator: Calibrator, logits: Floats, labels: Labels, counts: Floats, folds: Sequence[NDArray[np.bool_]]
) -> Floats:
    """Return −log p of each row's class by the calibrator that was fitted without the row's fold."""
    found: Floats = np.empty(len(labels))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrationWarning)
        for fold in folds:
            fitted = calibrator.fit(logits[~fold], labels[~fold], counts[~fold] / counts[~fold].mean())
            found[fold] = -np.log(np.maximum(at_labels(fitted.probs(logits[fold]), labels[fold]), _TINY))
    return found


def folds_of(labels: Labels, rng: np.random.Generator) -> Iterator[NDArray[np.bool_]]:
    """Walk the rows that each fold leaves out; classes are spread evenly."""
    order = rng.permutation(len(labels))
    place = np.empty(len(labels), dtype=np.int64)
    place[order[np.argsort(labels[order], kind="stable")]] = np.arange(len(labels))
    for fold in range(_N_FOLDS):
        yield place % _N_FOLDS == fold
