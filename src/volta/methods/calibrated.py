"""Calibrators as methods: scaling of logits, mixtures, and maps of each class against the rest."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, cast, final

import numpy as np
from numpy.typing import NDArray

from volta.core.types import Prediction
from volta.methods import calibrators, graphs
from volta.methods.base import Origin, PostHoc, at_least_0, checked
from volta.methods.calibrators import (
    FittedBeta,
    FittedCalibrator,
    FittedIsotonic,
    FittedMixture,
    FittedQuadratic,
    FittedSpline,
    FittedStructuredScaling,
    FittedTemperature,
    FittedVectorScaling,
    FittedVennAbers,
)
from volta.methods.one_vs_rest import spline_pieces
from volta.methods.scores import Floats, entropy
from volta.networks.outputs import FitOutputs, Outputs

if TYPE_CHECKING:
    from torch import Tensor


class Calibrated(PostHoc):
    """p by a calibrator, fitted on validation rows; u = entropy."""

    origin: ClassVar[Origin] = "extra"
    standard = False
    fitted_: FittedCalibrator

    @abstractmethod
    def calibrate(self, logits: Floats, labels: NDArray[np.int64], weights: Floats | None) -> FittedCalibrator:
        """Return what is fitted to logits (n, K) of rows with these labels (n,), and weights where there are any."""

    @final
    def fit_outputs(self, outputs: FitOutputs) -> None:
        """Fit on the validation rows."""
        val = outputs.of("val")
        self.fitted_ = self.calibrate(val.outputs.logits, val.labels, val.weights)

    @final
    def predict_outputs(self, outputs: Outputs) -> Prediction:
        """Return the calibrated probabilities and their entropy."""
        probs = self.fitted_.probs(outputs.logits)
        return Prediction(probs, entropy(probs))


@dataclass
class Temperature(Calibrated):
    """p = softmax(l/T) with T > 0 minimising the validation NLL; u = entropy of p.

    Departure from the paper: T is found by a safeguarded Newton method in 1/T, which is convex, instead of L-BFGS in T.
    Reference: Guo et al. (2017), On Calibration of Modern Neural Networks.
    """

    title = "Temperature scaling"
    origin = "paper"
    standard = True
    learned_types = (FittedTemperature,)
    calibrate = staticmethod(calibrators.temperature_scaling)

    def predict_tensors(self, outputs: graphs.TensorOutputs) -> graphs.TensorPrediction:
        """Return the same from tensors, for ONNX graphs."""
        probs = graphs.softmax_at(outputs.logits, cast(FittedTemperature, self.fitted_).beta)
        return graphs.prediction(probs, graphs.entropy(probs))


@dataclass
class VectorScaling(Calibrated):
    """p = softmax(a ⊙ l + b), a and b (K,) minimising the validation NLL + λ (|a/β − 1|² + |b|²); u = entropy.

    β = 1/T is the one temperature of the n rows, fitted first; what differs from it between the K classes is penalised
    by λ = ridge · K/n, which keeps the optimum finite, and near temperature scaling where rows are few for the classes.
    Reference: Guo et al. (2017), On Calibration of Modern Neural Networks.
    """

    title = "Vector scaling"
    standard = True
    learned_types = (FittedVectorScaling,)
    checks = checked(ridge=at_least_0)

    ridge: float = 1.0

    def calibrate(self, logits: Floats, labels: NDArray[np.int64], weights: Floats | None) -> FittedCalibrator:
        """Return the calibrator fitted with this ridge."""
        return calibrators.vector_scaling(logits, labels, weights, ridge=self.ridge)

    def predict_tensors(self, outputs: graphs.TensorOutputs) -> graphs.TensorPrediction:
        """Return the same from tensors, for ONNX graphs."""
        fitted = cast(FittedVectorScaling, self.fitted_)
        logits = outputs.logits * graphs.constant(fitted.scale) + graphs.constant(fitted.bias)
        probs = logits.softmax(dim=1)
        return graphs.prediction(probs, graphs.entropy(probs))


class _Structured(Calibrated):
    """A linear map of the tempered log-probabilities, with a penalty."""

    learned_types = (FittedStructuredScaling,)

    def predict_tensors(self, outputs: graphs.TensorOutputs) -> graphs.TensorPrediction:
        """Return the same from tensors, for ONNX graphs."""
        fitted = cast(FittedStructuredScaling, self.fitted_)
        logs, matrix = _log_mixture(outputs.logits, fitted), graphs.constant(fitted.matrix)
        moved = logs * matrix if fitted.matrix.ndim == 1 else logs @ matrix.T
        probs = (moved + graphs.constant(fitted.bias)).softmax(dim=1)
        return graphs.prediction(probs, graphs.entropy(probs))


@dataclass
class StructuredVectorScaling(_Structured):
    """p = softmax(a ⊙ z + b), z = log of tempered probabilities, penalised by K/n (n validation rows); u = entropy.

    Reference: Berta et al. (2026), Structured Matrix Scaling for Multi-Class Calibration.
    """

    title = "Structured vector scaling"
    calibrate = staticmethod(calibrators.structured_vector_scaling)


@dataclass
class StructuredMatrixScaling(_Structured):
    """p = softmax(A z + b), z = log of tempered probabilities, A penalised most off its diagonal; u = entropy.

    A pass of the fit costs n · K² on n validation rows: meant for up to a few hundred classes.
    Reference: Berta et al. (2026), Structured Matrix Scaling for Multi-Class Calibration.
    """

    title = "Structured matrix scaling"
    calibrate = staticmethod(calibrators.structured_matrix_scaling)


@dataclass
class EnsembleTemperature(Calibrated):
    """p = w₀ softmax(l/T) + w₁ softmax(l) + w₂/K, T and w on validation rows; u = entropy.

    Reference: Zhang et al. (2020), Mix-n-Match: Ensemble and Compositional Methods for Uncertainty Calibration.
    """

    title = "Ensemble temperature scaling"
    learned_types = (FittedMixture,)
    calibrate = staticmethod(calibrators.ensemble_temperature)

    def predict_tensors(self, outputs: graphs.TensorOutputs) -> graphs.TensorPrediction:
        """Return the same from tensors, for ONNX graphs."""
        fitted = cast(FittedMixture, self.fitted_)
        tempered, plain, uniform = (graphs.constant(np.array([weight])) for weight in fitted.weights)
        mixed = tempered * graphs.softmax_at(outputs.logits, fitted.beta) + plain * outputs.logits.softmax(dim=1)
        probs = mixed + uniform / outputs.logits.shape[1]
        return graphs.prediction(probs, graphs.entropy(probs))


@dataclass
class Isotonic(Calibrated):
    """p ∝ m_k(softmax(l)_k), m_k isotonic on validation rows against the other classes; u = entropy.

    Probabilities of exactly 0 ruin its NLL where few rows or many classes are held out: here to be seen, not taken.
    Reference: Zadrozny & Elkan (2002), Transforming Classifier Scores into Accurate Multiclass Probability Estimates.
    """

    title = "Isotonic regression"
    learned_types = (FittedIsotonic,)
    calibrate = staticmethod(calibrators.isotonic)


@dataclass
class Beta(Calibrated):
    """p_k ∝ σ(a log q_k − b log(1 − q_k) + c), a, b ≥ 0 and c of each class against the rest; u = entropy.

    q is softmax(l/T), on validation rows as all else; few rows are drawn towards it.
    Reference: Kull, Silva Filho & Flach (2017), Beta calibration.
    """

    title = "Beta calibration"
    learned_types = (FittedBeta,)
    calibrate = staticmethod(calibrators.beta)

    def predict_tensors(self, outputs: graphs.TensorOutputs) -> graphs.TensorPrediction:
        """Return the same from tensors, for ONNX graphs."""
        fitted = cast(FittedBeta, self.fitted_)
        log_probs = _log_mixture(outputs.logits, fitted)
        a, b, c = (graphs.constant(column) for column in fitted.coefficients.T)
        return _against_rest(a * log_probs - b * _log_others(log_probs) + c)


@dataclass
class Quadratic(Calibrated):
    """p_k ∝ σ(c + w₁ x_k + w₂ x_k²), x_k the log-odds of softmax(l/T)_k, rising on validation rows; u = entropy.

    Reference: Berta et al. (2026), A Large-Scale Post-Hoc Calibration Benchmark.
    """

    title = "Quadratic scaling"
    learned_types = (FittedQuadratic,)
    calibrate = staticmethod(calibrators.quadratic)

    def predict_tensors(self, outputs: graphs.TensorOutputs) -> graphs.TensorPrediction:
        """Return the same from tensors, for ONNX graphs."""
        fitted = cast(FittedQuadratic, self.fitted_)
        log_probs = _log_mixture(outputs.logits, fitted)
        x = log_probs - _log_others(log_probs)
        low, high, at_low, at_high, shift = (graphs.constant(column) for column in fitted.coefficients.T)
        inside = x.maximum(low).minimum(high)
        falling = (high * inside - inside.square() / 2.0) / (high - low) + x.minimum(low) - low
        rising = (inside.square() / 2.0 - low * inside) / (high - low) + x.maximum(high) - high
        return _against_rest(at_low * falling + at_high * rising + shift)


@dataclass
class Spline(Calibrated):
    """p_k ∝ σ(f_k(x_k)), x_k the log-odds of softmax(l/T)_k, f_k a smoothing spline on validation rows; u = entropy.

    Reference: Lucena (2018), Spline-based Probability Calibration.
    """

    title = "Spline calibration"
    learned_types = (FittedSpline,)
    calibrate = staticmethod(calibrators.spline)

    def predict_tensors(self, outputs: graphs.TensorOutputs) -> graphs.TensorPrediction:
        """Return the same from tensors, for ONNX graphs.

        A natural cubic spline is its first straight line and a cube from each knot on, which add up to a line again.
        """
        fitted = cast(FittedSpline, self.fitted_)
        log_probs = _log_mixture(outputs.logits, fitted)
        x = log_probs - _log_others(log_probs)
        lines, knots, cubes = spline_pieces(fitted.knots, fitted.values)
        first, value, slope = (graphs.constant(column) for column in lines.T)
        beyond = (x.unsqueeze(2) - graphs.constant(knots)).relu()
        curved = (beyond * beyond * beyond * graphs.constant(cubes)).sum(dim=2)
        return _against_rest(value + slope * (x - first) + curved)


@dataclass
class Dirichlet(_Structured):
    """p = softmax(A z + b), z = log of tempered probabilities, ODIR on A off its diagonal and on b; u = entropy.

    A pass of the fit costs n · K² on n validation rows: meant for up to a few hundred classes.
    Reference: Kull et al. (2019), Beyond temperature scaling: Dirichlet calibration.
    """

    title = "Dirichlet calibration"
    calibrate = staticmethod(calibrators.dirichlet)


@dataclass
class VennAbers(Calibrated):
    """p_k ∝ p₁/(1 − p₀ + p₁), isotonic on validation rows with the row as a miss and as a hit; u = entropy.

    Reference: Vovk, Petej & Fedorova (2015), Large-scale probabilistic predictors with and without guarantees.
    """

    title = "Venn-Abers"
    learned_types = (FittedVennAbers,)
    calibrate = staticmethod(calibrators.venn_abers)


def _log_mixture(
    logits: Tensor, fitted: FittedStructuredScaling | FittedBeta | FittedQuadratic | FittedSpline
) -> Tensor:
    """Return log((1 − u) softmax(β l) + u/K)."""
    share, rest = (graphs.constant(np.array([weight])) for weight in (1.0 - fitted.uniform, fitted.uniform))
    return (share * graphs.softmax_at(logits, fitted.beta) + rest / logits.shape[1]).log()


def _log_others(log_probs: Tensor) -> Tensor:
    """Return log(1 − p) of each class."""
    probs = log_probs.exp()
    return (probs.sum(dim=1, keepdim=True) - probs).log()


def _against_rest(log_odds: Tensor) -> graphs.TensorPrediction:
    """Return p ∝ the probabilities of these log-odds against the rest, and their entropy."""
    probs = (-((-log_odds).exp() + 1.0).log()).softmax(dim=1)
    return graphs.prediction(probs, graphs.entropy(probs))
