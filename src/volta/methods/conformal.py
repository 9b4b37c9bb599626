"""Conformal prediction sets as methods: split conformal and adaptive sets (APS)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from volta.core.checks import check_fraction
from volta.core.quantile import conformal_quantile
from volta.core.types import Prediction
from volta.methods import graphs
from volta.methods.base import PostHoc, checked
from volta.methods.scores import Floats, at_labels, set_sizes, softmax, softmax_and_doubt
from volta.networks.outputs import FitOutputs, Outputs


@dataclass
class Conformal(PostHoc):
    """C(x) = {k : 1 − p_k ≤ q}, q the ⌈(n+1)(1−α)⌉-th smallest 1 − p_y of n calibration rows (∞ if beyond n).

    u = |C(x)| + 1 − max p: the set's size, ties broken by the top probability. P(y ∈ C) ≥ 1 − α for exchangeable rows.
    Departures from the paper: calibration rows of their own, not the rows that early stopping saw; and an empty set,
    which a row gets when no class is probable enough, counts as the set of all classes in u, not as the surest of all.
    Reference: Vovk et al. (2005), Algorithmic Learning in a Random World.
    """

    title = "Split conformal"
    origin = "paper"
    checks = checked(alpha=check_fraction)

    alpha: float = 0.1

    def fit_outputs(self, outputs: FitOutputs) -> None:
        """Find q on the calibration rows."""
        cal = outputs.of("cal")
        self.quantile_ = conformal_quantile(1.0 - at_labels(softmax(cal.outputs.logits), cal.labels), self.alpha)

    def predict_outputs(self, outputs: Outputs) -> Prediction:
        """Return the softmax, the sets and their sizes."""
        probs, doubt = softmax_and_doubt(outputs.logits)
        sets = 1.0 - probs <= self.quantile_
        sizes = set_sizes(sets)
        sizes[sizes == 0] = sets.shape[1]
        return Prediction(probs, sizes + doubt, sets=sets)

    def predict_tensors(self, outputs: graphs.TensorOutputs) -> graphs.TensorPrediction:
        """Return the same from tensors, for ONNX graphs."""
        probs = outputs.logits.softmax(dim=1)
        sizes = (1.0 - probs <= self.quantile_).sum(dim=1)
        sizes = sizes.where(sizes > 0, probs.shape[1])
        return graphs.prediction(probs, sizes + graphs.one_minus_max_softmax(outputs.logits))


@dataclass
class Aps(PostHoc):
    """C(x) = {k : s_k ≤ q}, s_k = Σ_{j: p_j > p_k} p_j, the mass above class k; q as in split conformal prediction.

    u = |C(x)| + 1 − max p. Deterministic: classes are taken in falling order until they hold more than q, without the
    original's randomised last class. The likeliest class has s = 0, so no set is empty and none needs mending
    afterwards, which would raise the coverage above 1 − α.
    Reference: Romano et al. (2020), Classification with Valid and Adaptive Coverage.
    """

    title = "Adaptive prediction sets"
    origin = "extra"
    checks = checked(alpha=check_fraction)

    alpha: float = 0.1

    def fit_outputs(self, outputs: FitOutputs) -> None:
        """Find q on the calibration rows."""
        cal = outputs.of("cal")
        above = mass_above(softmax(cal.outputs.logits))
        self.quantile_ = conformal_quantile(at_labels(above, cal.labels), self.alpha)

    def predict_outputs(self, outputs: Outputs) -> Prediction:
        """Return the softmax, the sets and their sizes."""
        probs, doubt = softmax_and_doubt(outputs.logits)
        sets = adaptive_sets(probs, self.quantile_)
        return Prediction(probs, set_sizes(sets) + doubt, sets=sets)

    def predict_tensors(self, outputs: graphs.TensorOutputs) -> graphs.TensorPrediction:
        """Return the same from tensors, for ONNX graphs."""
        probs = outputs.logits.softmax(dim=1)
        sizes = graphs.adaptive_set(probs, self.quantile_).sum(dim=1)
        return graphs.prediction(probs, sizes + graphs.one_minus_max_softmax(outputs.logits))


def mass_above(probs: Floats) -> Floats:
    """Return Σ_{j: p_j > p_k} p_j for each row and class k; equal probabilities share the sum."""
    order = np.argsort(-probs, axis=1, kind="stable")
    falling = np.take_along_axis(probs, order, axis=1)
    before = _mass_before(falling)
    for column in range(1, probs.shape[1]):
        tied = falling[:, column] == falling[:, column - 1]
        before[tied, column] = before[tied, column - 1]
    above = np.empty_like(probs)
    np.put_along_axis(above, order, before, axis=1)
    return above


def adaptive_sets(probs: Floats, threshold: float) -> NDArray[np.bool_]:
    """Return (n, K) membership of {k : Σ_{j: p_j > p_k} p_j ≤ q}, q = ``threshold`` ≥ 0.

    The mass before a class in falling order never falls, so the set is all that is as likely as the last class whose
    mass before it is at most q; equal probabilities share the mass before the first of them.
    """
    falling = np.sort(probs, axis=1)[:, ::-1]
    last = set_sizes(_mass_before(falling) <= threshold) - 1
    return np.asarray(probs >= at_labels(falling, last)[:, None])


def _mass_before(falling: Floats) -> Floats:
    """Return the sum of the probabilities before each of a row's, which are in falling order."""
    before = np.zeros(falling.shape)
    np.cumsum(falling[:, :-1], axis=1, out=before[:, 1:])
    return before
