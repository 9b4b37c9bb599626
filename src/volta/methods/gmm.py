"""GMM density: how unlikely the penultimate vector is under a Gaussian mixture."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from volta.core.checks import check_count
from volta.core.errors import InputError
from volta.core.seeding import rng
from volta.core.types import Array, Prediction
from volta.methods import graphs
from volta.methods.base import PostHoc, at_least_0, checked, optional
from volta.methods.graphs import constant
from volta.methods.scores import Floats, log_sum_exp, mean_variance, row_slices, softmax
from volta.networks.outputs import FitOutputs, Outputs

if TYPE_CHECKING:
    from torch import Tensor


CHUNK_ROWS = 4096
FULL_EVERY = 5
NEGLIGIBLE = -30.0


@dataclass(frozen=True, eq=False)
class Mixture:
    """Σ_m π_m N(μ_m, Σ_m): ``log_weights`` (m,), ``means`` (m, w) and upper triangular ``factors`` (m, w, w) with
    factor · factorᵀ = Σ_m⁻¹.
    """

    log_weights: Floats
    means: Floats
    factors: Floats

    def joint_logs(self, features: Array) -> Floats:
        """Return log π_m N(f; μ_m, Σ_m) for each row and component, shape (n, m)."""
        everywhere = np.ones((len(features), len(self.means)), dtype=bool)
        return _joint_logs(self, np.asarray(features, dtype=np.float64), everywhere)

    def log_density(self, features: Array) -> Floats:
        """Return log Σ_m π_m N(f; μ_m, Σ_m) for each row."""
        pieces = [log_sum_exp(self.joint_logs(features[piece])) for piece in row_slices(features, CHUNK_ROWS)]
        density: Floats = np.concatenate(pieces) if pieces else np.empty(0)
        return density

    def log_density_of_tensors(self, features: Tensor) -> Tensor:
        """Return the same of a float64 tensor, for ONNX graphs: one product with all components' factors."""
        n_components, width = self.means.shape
        offsets = self.log_weights - 0.5 * width * np.log(2.0 * np.pi)
        offsets = offsets + np.log(np.diagonal(self.factors, axis1=1, axis2=2)).sum(axis=1)
        shifts = np.einsum("mi,mij->mj", self.means, self.factors).ravel()
        beside = np.ascontiguousarray(self.factors.transpose(1, 0, 2)).reshape(width, n_components * width)
        whitened = (features @ constant(beside) - constant(shifts)).reshape(-1, n_components, width)
        return (constant(offsets) - 0.5 * whitened.square().sum(dim=2)).logsumexp(dim=1)


def spread_points(features: Array, n_points: int, random: np.random.Generator) -> Floats:
    """Return rows far from one another (greedy k-means++).

    Each is, of 2 + ⌊log n_points⌋ rows drawn with odds of their squared distance to the nearest point so far, the one
    that leaves the least sum of such distances (Arthur & Vassilvitskii 2007, as scikit-learn has it).
    """
    squares = np.einsum("ij,ij->i", features, features, dtype=np.float64)
    n_trials = 2 + int(np.log(n_points))
    chosen = [int(random.integers(len(features)))]
    distances = _squared_distances(features, squares, chosen)[0]
    while len(chosen) < n_points:
        odds = np.cumsum(distances)
        drawn = np.searchsorted(odds, random.random(n_trials) * odds[-1], side="right")
        # Where fewer rows differ than points are wanted, the first row of all serves again.
        candidates = [int(row) % len(features) for row in drawn]
        nearer = np.minimum(distances, _squared_distances(features, squares, candidates))
        best = int(nearer.sum(axis=1).argmin())
        chosen.append(candidates[best])
        distances = nearer[best]
    return np.asarray(features[chosen], dtype=np.float64)


def _squared_distances(features: Array, squares: Floats, rows: list[int]) -> Floats:
    """Return |x_i − x_r|² for each of ``rows`` and every row, shape (rows, n)."""
    squared = squares - 2.0 * (features[rows] @ features.T).astype(np.float64) + squares[rows, None]
    squared[np.arange(len(rows)), rows] = 0.0
    return np.asarray(np.maximum(squared, 0.0))


def fit_mixture(features: Array, start: Array, *, max_iter: int, tol: float, ridge: float) -> tuple[Mixture, float]:
    """Fit a mixture by expectation-maximisation and return it with the mean log density it last saw.

    Rows first belong wholly to the nearest of the ``start`` points. A component whose share of a row falls below e⁻³⁰
    is left out for that row until the next full pass; every fifth pass is full, and only such a pass can end the fit.
    With well-separated components this saves most of the work and, as every pass raises the same bound, converges like
    the ordinary algorithm. After at most ``max_iter`` passes, or once the mean log density changes by less than
    ``tol``, the fit ends. ``ridge`` is added to the covariances' diagonals; one that is not positive definite raises
    numpy.linalg.LinAlgError.
    """
    mixture = _hard_start(features, np.asarray(start, dtype=np.float64), ridge)
    active = np.ones((len(features), len(start)), dtype=bool)
    bound, settled = -np.inf, False
    for iteration in range(max_iter):
        full = settled or iteration % FULL_EVERY == 0
        if full:
            active[:] = True
        mixture, now = _pass(mixture, features, active, ridge)
        settled = abs(now - bound) < tol
        bound = now
        if settled and full:
            break
    return mixture, bound


class _Sums:
    """n_m = Σ r, Σ r (x − c_m) and Σ r (x − c_m)(x − c_m)ᵀ, gathered in pieces around fixed centres c_m."""

    def __init__(self, centres: Floats) -> None:
        n_components, width = centres.shape
        self._centres = centres
        self._counts = np.zeros(n_components)
        self._first = np.zeros((n_components, width))
        self._second = np.zeros((n_components, width, width))

    def add(self, index: int, rows: Floats, shares: Floats) -> None:
        centred = rows - self._centres[index]
        self._counts[index] += shares.sum()
        self._first[index] += shares @ centred
        centred *= np.sqrt(shares)[:, None]
        self._second[index] += centred.T @ centred

    def mixture(self, ridge: float) -> Mixture:
        from scipy.linalg import solve_triangular

        counts = self._counts + 10.0 * np.finfo(np.float64).eps
        shift = self._first / counts[:, None]
        width = shift.shape[1]
        factors = np.empty_like(self._second)
        for index, second in enumerate(self._second):
            covariance = second / counts[index] - np.outer(shift[index], shift[index])
            covariance[np.diag_indices(width)] += ridge
            lower = np.linalg.cholesky(covariance)
            factors[index] = solve_triangular(lower, np.eye(width), lower=True).T
        return Mixture(np.log(counts / counts.sum()), self._centres + shift, factors)


def _hard_start(features: Array, start: Floats, ridge: float) -> Mixture:
    sums = _Sums(start)
    for piece in row_slices(features, CHUNK_ROWS):
        rows = np.asarray(features[piece], dtype=np.float64)
        nearest = ((start**2).sum(axis=1) - 2.0 * rows @ start.T).argmin(axis=1)
        for index in np.unique(nearest):
            chosen = rows[nearest == index]
            sums.add(int(index), chosen, np.ones(len(chosen)))
    return sums.mixture(ridge)


def _pass(mixture: Mixture, features: Array, active: NDArray[np.bool_], ridge: float) -> tuple[Mixture, float]:
    """Make one pass over the rows; narrows ``active`` to what still matters. Return the next mixture and the bound."""
    sums = _Sums(mixture.means)
    total = 0.0
    for piece in row_slices(features, CHUNK_ROWS):
        rows = np.asarray(features[piece], dtype=np.float64)
        kept = active[piece]
        logs = _joint_logs(mixture, rows, kept)
        densities = log_sum_exp(logs)
        total += densities.sum()
        logs -= densities[:, None]
        kept &= logs > NEGLIGIBLE
        for index in range(len(mixture.means)):
            chosen = kept[:, index]
            sums.add(index, rows[chosen], np.exp(logs[chosen, index]))
    return sums.mixture(ridge), total / len(features)


def _joint_logs(mixture: Mixture, rows: Floats, wanted: NDArray[np.bool_]) -> Floats:
    from scipy.linalg.blas import dtrmm

    logs = np.full(wanted.shape, -np.inf)
    constant = -0.5 * rows.shape[1] * np.log(2.0 * np.pi)
    for index, (mean, factor) in enumerate(zip(mixture.means, mixture.factors, strict=True)):
        chosen = wanted[:, index]
        centred = rows[chosen] - mean
        if not len(centred):
            continue
        # The transpose of a C-ordered array is what BLAS can overwrite in place; a triangular product is half the work.
        whitened = dtrmm(1.0, factor, centred.T, trans_a=1, overwrite_b=1)
        offset = mixture.log_weights[index] + constant + np.log(np.diagonal(factor)).sum()
        logs[chosen, index] = offset - 0.5 * np.einsum("ij,ij->j", whitened, whitened)
    return logs


TOLERANCE = 1e-3


@dataclass
class Gmm(PostHoc):
    """u = −log Σ_m π_m N(f; μ_m, Σ_m), a full-covariance mixture on penultimate training vectors; p = softmax(l).

    The paper's tables call this Posterior Networks, which it is not. 10 components for up to 10 classes, else 50, never
    more than a tenth of the training rows.

    Parameters
    ----------
    n_components
        Number of Gaussians; None chooses by the rule above.
    max_iter
        Passes of expectation-maximisation at most; it ends when the mean log density changes by less than 1e-3.
    ridge
        Added to the covariances' diagonals, times the features' mean variance; raised tenfold while they stay singular.
    """

    title = "GMM density"
    origin = "paper"
    learned_types = (Mixture,)
    checks = checked(n_components=optional(check_count), max_iter=check_count, ridge=at_least_0)

    n_components: int | None = None
    max_iter: int = 50
    ridge: float = 1e-6

    def fit_outputs(self, outputs: FitOutputs) -> None:
        """Fit the mixture on the training rows."""
        train = outputs.of("train").outputs
        features = train.need_features()
        wanted = self.n_components or (10 if train.n_classes <= 10 else 50)
        n_components = max(1, min(wanted, len(features) // 10))
        self.mixture_ = self._fit_mixture(features, n_components, rng(outputs.random_state, "gmm"))

    def predict_outputs(self, outputs: Outputs) -> Prediction:
        """Return the softmax and the negative log density."""
        return Prediction(softmax(outputs.logits), -self.mixture_.log_density(outputs.need_features()))

    def predict_tensors(self, outputs: graphs.TensorOutputs) -> graphs.TensorPrediction:
        """Return the same from tensors, for ONNX graphs."""
        density = self.mixture_.log_density_of_tensors(outputs.features)
        return graphs.prediction(outputs.logits.softmax(dim=1), -density)

    def _fit_mixture(self, features: Array, n_components: int, random: np.random.Generator) -> Mixture:
        start = spread_points(features, n_components, random)
        scale = mean_variance(features) or 1.0
        for attempt in range(6):
            ridge = self.ridge * 10**attempt * scale
            try:
                return fit_mixture(features, start, max_iter=self.max_iter, tol=TOLERANCE, ridge=ridge)[0]
            except np.linalg.LinAlgError:
                continue
        raise InputError(
            "the training features' covariances are singular even after regularisation; drop constant features"
        )
