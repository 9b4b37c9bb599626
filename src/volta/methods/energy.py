"""Free-energy scores: energy, ReAct, SCALE."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from volta.core.errors import InputError
from volta.core.types import Array, Prediction
from volta.methods import graphs
from volta.methods.base import PostHoc
from volta.methods.scores import (
    Floats,
    cached_slices,
    check_non_negative,
    energy,
    row_sums,
    softmax,
    softmax_and_energy,
)
from volta.networks.outputs import FitOutputs, LastLayer, Outputs


@dataclass
class Energy(PostHoc):
    """p = softmax(l); u = −log Σ_k exp(l_k), higher where more OOD.

    Reference: Liu et al. (2020), Energy-based Out-of-distribution Detection.
    """

    title = "Energy"
    origin = "paper"

    def predict_outputs(self, outputs: Outputs) -> Prediction:
        """Return the softmax and the free energy."""
        return Prediction(*softmax_and_energy(outputs.logits))

    def predict_tensors(self, outputs: graphs.TensorOutputs) -> graphs.TensorPrediction:
        """Return the same from tensors, for ONNX graphs."""
        return graphs.prediction(outputs.logits.softmax(dim=1), graphs.energy(outputs.logits))


_MAX_VALUES = 1 << 25


@dataclass
class React(PostHoc):
    """u = −logsumexp(W min(f, c) + b), c the ``percentile`` of all activations of the training rows; p = softmax(l).

    Made for activations after a ReLU; on signed vectors, such as those of VOLTA's encoder, it is defined as well and
    cuts the upper tail alone. c is taken over at most 2²⁵ values: every m-th training row where there are more.
    Reference: Sun et al. (2021), ReAct: Out-of-distribution Detection With Rectified Activations.
    """

    title = "ReAct"
    origin = "extra"
    standard = False
    learned_types = (LastLayer,)

    percentile: float = 90.0

    def check_parameters(self) -> None:
        """Refuse numbers out of range."""
        if not 0.0 < self.percentile <= 100.0:
            raise InputError(f"percentile is {self.percentile}; pass a number above 0 and at most 100, such as 90")

    def fit_outputs(self, outputs: FitOutputs) -> None:
        """Find the cut and keep the last layer."""
        train = outputs.of("train").outputs
        features = train.need_features()
        step = max(1, -(-features.size // _MAX_VALUES))
        self.cut_ = float(np.percentile(features[::step], self.percentile))
        self.layer_ = train.need_last_layer()

    def predict_outputs(self, outputs: Outputs) -> Prediction:
        """Return the softmax and the free energy of the rectified vectors."""
        rectified = np.minimum(outputs.need_features(), np.float32(self.cut_)).astype(np.float64)
        return Prediction(softmax(outputs.logits), energy(rectified @ self.layer_.weight.T + self.layer_.bias))


@dataclass
class Scale(PostHoc):
    """u = −logsumexp(W (f · exp(r)) + b), r = Σ_j f_j / Σ_{j in top} f_j; p = softmax(l).

    The top are the (100 − ``percentile``) % largest activations of the row, at least one. f must be non-negative, as
    after a ReLU: with signed vectors r is a ratio of arbitrary sums, and they are refused. The encoder of ``fair``
    gives signed vectors, so in the benchmark SCALE runs under ``paper`` alone.
    Reference: Xu et al. (2024), Scaling for Training Time and Post-hoc Out-of-distribution Detection Enhancement.
    """

    title = "SCALE"
    origin = "extra"
    standard = False
    protocols = ("paper",)
    learned_types = (LastLayer,)

    percentile: float = 85.0

    def check_parameters(self) -> None:
        """Refuse numbers out of range."""
        if not 0.0 <= self.percentile < 100.0:
            raise InputError(f"percentile is {self.percentile}; pass a number from 0 to below 100, such as 85")

    def fit_outputs(self, outputs: FitOutputs) -> None:
        """Check the training vectors and keep the last layer."""
        train = outputs.of("train").outputs
        check_non_negative(train.need_features(), self.title)
        self.layer_ = train.need_last_layer()

    def predict_outputs(self, outputs: Outputs) -> Prediction:
        """Return the softmax and the free energy of the scaled vectors."""
        features = check_non_negative(outputs.need_features(), self.title)
        scaled = features.astype(np.float64)
        scaled *= np.exp(spread_ratio(features, self.percentile))[:, None]
        return Prediction(softmax(outputs.logits), energy(scaled @ self.layer_.weight.T + self.layer_.bias))


def spread_ratio(features: Array, percentile: float) -> Floats:
    """Return Σ f / Σ of the largest (100 − percentile) % of each row; 1 for a row of zeros."""
    width = features.shape[1]
    n_top = max(1, width - round(width * percentile / 100.0))
    ratios: Floats = np.empty(len(features))
    for rows in cached_slices(features):
        ordered = np.partition(features[rows], width - n_top, axis=1).astype(np.float64, copy=False)
        top = row_sums(ordered[:, width - n_top :])
        ratios[rows] = np.where(top > 0.0, row_sums(ordered) / np.where(top > 0.0, top, 1.0), 1.0)
    return ratios
