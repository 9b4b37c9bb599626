"""Calibrators: maps from logits to calibrated logits, fitted on held-out rows alone. Importing this needs no torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from volta.core.suggest import unknown_name
from volta.methods.isotonic_maps import IsotonicCalibrator
from volta.methods.mixture_scaling import EnsembleTemperatureCalibrator
from volta.methods.scaling import fit_temperature, fit_tempered_vector_scaling
from volta.methods.scores import Floats, softmax
from volta.methods.structured_scaling import StructuredMatrixCalibrator, StructuredVectorCalibrator

Labels = NDArray[np.int64]


class FittedCalibrator(Protocol):
    """A calibrator after its fit."""

    def logits(self, logits: Floats) -> Floats:
        """Return calibrated logits, (n, K); their softmax is :meth:`probs`."""
        ...

    def probs(self, logits: Floats) -> Floats:
        """Return calibrated probabilities, (n, K)."""
        ...

    @property
    def parameters(self) -> Mapping[str, object]:
        """What was fitted, by name, as numbers or lists of numbers."""
        ...


class Calibrator(Protocol):
    """Something that is fitted to logits of held-out rows."""

    @property
    def title(self) -> str:
        """Its name for a reader."""
        ...

    def fit(self, logits: Floats, labels: Labels, weights: Floats | None = None) -> FittedCalibrator:
        """Return what is fitted to logits (n, K) of rows with classes ``labels`` (n,); the object stays as it is.

        ``weights`` (n,): how much each row counts, 1 on average; all alike without them.
        """
        ...


@dataclass(frozen=True)
class FittedTemperature:
    """Logits divided by one temperature T: β l with β = 1/T."""

    beta: float

    def logits(self, logits: Floats) -> Floats:
        """Return β l."""
        return logits * self.beta

    def probs(self, logits: Floats) -> Floats:
        """Return softmax(β l)."""
        return softmax(logits, self.beta)

    @property
    def parameters(self) -> Mapping[str, object]:
        """The temperature."""
        return {"temperature": 1.0 / self.beta}


@dataclass(frozen=True)
class TemperatureCalibrator:
    """One T > 0 that minimises NLL; classes keep their order, so accuracy stays.

    Reference: Guo et al. (2017), On Calibration of Modern Neural Networks.
    """

    title: str = "Temperature scaling"

    def fit(self, logits: Floats, labels: Labels, weights: Floats | None = None) -> FittedTemperature:
        """Fit 1/T, a convex problem."""
        return FittedTemperature(fit_temperature(logits, labels, weights=weights).beta)


@dataclass(frozen=True, eq=False)
class FittedVectorScaling:
    """Logits a ⊙ l + b, with a scale and a bias per class, both (K,)."""

    scale: Floats
    bias: Floats

    def logits(self, logits: Floats) -> Floats:
        """Return a ⊙ l + b."""
        return logits * self.scale + self.bias

    def probs(self, logits: Floats) -> Floats:
        """Return softmax(a ⊙ l + b)."""
        return softmax(self.logits(logits))

    @property
    def parameters(self) -> Mapping[str, object]:
        """Scales and biases."""
        return {"scale": self.scale.tolist(), "bias": self.bias.tolist()}


@dataclass(frozen=True)
class VectorCalibrator:
    """A scale and a bias per class that minimise NLL + λ (|a/β − 1|² + |b|²), λ = ridge · K/n, β = 1/T fitted first.

    Reference: Guo et al. (2017), On Calibration of Modern Neural Networks.
    """

    title: str = "Vector scaling"
    ridge: float = 1.0

    def fit(self, logits: Floats, labels: Labels, weights: Floats | None = None) -> FittedVectorScaling:
        """Fit the temperature, then scales and biases: two convex problems."""
        return FittedVectorScaling(*fit_tempered_vector_scaling(logits, labels, self.ridge, weights))


CALIBRATORS: dict[str, Calibrator] = {
    "temperature": TemperatureCalibrator(),
    "vector_scaling": VectorCalibrator(),
    "structured_vector_scaling": StructuredVectorCalibrator(),
    "structured_matrix_scaling": StructuredMatrixCalibrator(),
    "ensemble_temperature": EnsembleTemperatureCalibrator(),
    "isotonic": IsotonicCalibrator(),
}
"""The calibrators by name; one that keeps this contract is one more line here."""


def find_calibrator(name: str) -> Calibrator:
    """Return the calibrator called ``name``, or say which there are."""
    if name not in CALIBRATORS:
        raise unknown_name("calibrator", name, CALIBRATORS)
    return CALIBRATORS[name]
