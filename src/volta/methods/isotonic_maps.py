"""Isotonic regression of each class against the rest, kept as a warning. Without torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from volta.methods.scores import Floats, softmax

_TINY = np.finfo(np.float64).tiny


@dataclass(frozen=True, eq=False)
class FittedIsotonic:
    """p ∝ (m_1(q_1), …, m_K(q_K)), q = softmax(l); m_k goes in straight lines through (``x[k]``, ``y[k]``)."""

    x: tuple[Floats, ...]
    y: tuple[Floats, ...]

    def logits(self, logits: Floats) -> Floats:
        """Return log p, (n, K), floored at the log of the smallest normal number."""
        return np.asarray(np.log(np.maximum(self.probs(logits), _TINY)))

    def probs(self, logits: Floats) -> Floats:
        """Return p, (n, K); a row that every class's map gives 0 is uniform."""
        plain = softmax(logits)
        mapped = np.stack([np.interp(plain[:, k], self.x[k], self.y[k]) for k in range(plain.shape[1])], axis=1)
        total = mapped.sum(axis=1, keepdims=True)
        return np.asarray(np.where(total > 0.0, mapped / np.where(total > 0.0, total, 1.0), 1.0 / plain.shape[1]))

    @property
    def parameters(self) -> Mapping[str, object]:
        """The corners of each class's map."""
        return {"x": [part.tolist() for part in self.x], "y": [part.tolist() for part in self.y]}


@dataclass(frozen=True)
class IsotonicCalibrator:
    """For each class a non-decreasing map of its probability, by least squares against the rest; rows rescaled to 1.

    A warning example: it calibrates each class's probability on the rows it has seen, gives probability 0 to classes
    that were never true below some probability, and so ruins NLL where few rows or many classes are held out.
    Reference: Zadrozny & Elkan (2002), Transforming Classifier Scores into Accurate Multiclass Probability Estimates.
    """

    title: str = "Isotonic regression"

    def fit(self, logits: Floats, labels: NDArray[np.int64], weights: Floats | None = None) -> FittedIsotonic:
        """Fit one map a class; rows of weight 0 do not count."""
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
