"""Class-conditional Gaussians with one shared covariance: what Mahalanobis scores are made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from volta.core.types import Array
from volta.methods.graphs import constant
from volta.methods.pieces import row_slices
from volta.methods.scores import Floats

if TYPE_CHECKING:
    from torch import Tensor

RIDGE = 1e-6
CHUNK_ROWS = 8192


@dataclass(frozen=True, eq=False)
class Gaussians:
    """Means in whitened space: squared Mahalanobis distances are squared Euclidean ones there.

    ``centre`` (w,) is subtracted first; ``whitening`` (w, r) has whitening · whiteningᵀ = the precision matrix;
    ``means`` (m, r) are the whitened means.
    """

    centre: Floats
    whitening: Floats
    means: Floats

    def squared_distances(self, features: Array) -> Floats:
        """Return (x − μ_c)ᵀ Λ (x − μ_c) for each row x and mean μ_c, shape (n, m)."""
        whitened = (np.asarray(features, dtype=np.float64) - self.centre) @ self.whitening
        cross = whitened @ self.means.T
        squared = (whitened**2).sum(axis=1)[:, None] - 2.0 * cross + (self.means**2).sum(axis=1)
        return np.asarray(np.maximum(squared, 0.0))

    def squared_distances_of_tensors(self, features: Tensor) -> Tensor:
        """Return the same of a float64 tensor, for ONNX graphs."""
        whitened = (features - constant(self.centre)) @ constant(self.whitening)
        cross = whitened @ constant(self.means.T)
        squared = whitened.square().sum(dim=1, keepdim=True) - 2.0 * cross + constant((self.means**2).sum(axis=1))
        return squared.clamp(min=0.0)


def fit_gaussians(features: Array, groups: NDArray[np.int64]) -> Gaussians:
    """Fit one mean per group and one pooled covariance (1/n Σ over groups) + 1e-6·I, inverted by pseudo-inverse.

    Parameters
    ----------
    features
        (n, w) rows.
    groups
        (n,) group of each row; groups without rows get no mean.
    """
    centre = np.asarray(features.mean(axis=0, dtype=np.float64))
    present, index = np.unique(groups, return_inverse=True)
    counts = np.bincount(index)
    sums = np.zeros((len(present), features.shape[1]))
    for rows in row_slices(features, CHUNK_ROWS):
        np.add.at(sums, index[rows], features[rows] - centre)
    means = sums / counts[:, None]
    covariance = np.zeros((features.shape[1], features.shape[1]))
    for rows in row_slices(features, CHUNK_ROWS):
        residuals = features[rows] - centre - means[index[rows]]
        covariance += residuals.T @ residuals
    covariance /= len(features)
    covariance[np.diag_indices_from(covariance)] += RIDGE
    values, vectors = np.linalg.eigh(covariance)
    kept = values > values.max() * len(values) * np.finfo(np.float64).eps
    whitening = vectors[:, kept] / np.sqrt(values[kept])
    return Gaussians(centre, whitening, means @ whitening)
