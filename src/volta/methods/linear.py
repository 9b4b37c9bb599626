"""Linear probe: multinomial logistic regression with a ridge, solved to its optimum, on the features."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from volta.core.checks import check_number
from volta.core.errors import InputError
from volta.core.files import row_chunks
from volta.core.types import Array, FitData, Prediction, Split
from volta.methods import graphs
from volta.methods.base import Method
from volta.methods.scores import Floats, entropy, softmax
from volta.methods.temperature import fit_temperature
from volta.networks.modules import Identity
from volta.networks.modules import Linear as LinearHead
from volta.networks.spec import NetworkSpec
from volta.networks.trainer import Trainer

if TYPE_CHECKING:
    from torch import Tensor


RIDGES: tuple[float, ...] = tuple(10.0 ** (-step / 2.0) for step in range(15))
"""From 1 to 1e-7, half a decade apart."""

_CHUNK_ROWS = 2048
_ROTATED_WIDTH = 1024
# In the coordinates of the search half the gradient's square is about how far the loss is above its minimum.
_PATH_TOLERANCE = 1e-4
_TOLERANCE = 1e-5
_MAX_ITERATIONS = 2000


@dataclass(frozen=True, eq=False)
class LinearMap:
    """logits = x W + b, W (d, K) and b (K,) in float64."""

    weight: Floats
    bias: Floats

    def logits(self, inputs: Array) -> Floats:
        """Return (n, K)."""
        found = np.empty((len(inputs), len(self.bias)))
        start = 0
        for piece in row_chunks(inputs, _CHUNK_ROWS):
            stop = start + len(piece)
            found[start:stop] = piece.astype(np.float64) @ self.weight + self.bias
            start = stop
        return found


class SoftmaxRegression:
    """F(W, b) = mean_i w_i [logsumexp(l_i) − l_{i,y_i}] + (λ/2)|W|² with l = z W + b and z the standardised columns.

    The ridge λ weighs columns in units of their standard deviation and leaves b free; w are the rows' weights, 1
    without any. F is strictly convex in W for λ > 0, and L-BFGS in float64 finds its only minimum from any start.
    It searches in coordinates in which the curvature is alike in all directions: with eigenvectors V and eigenvalues e
    of the columns' correlations, W = V diag(c e + λ)^(−1/2) A, c = (1 − 1/K)/K, the curvature at W = 0.
    Searches that may end early use float32 products where that loses nothing that matters, at half the cost.
    Memory beside the rows is linear in d K (and d² up to 1,024 columns); rows of a memory map are read in pieces.
    """

    def __init__(self, rows: Split, n_classes: int) -> None:
        self._rows = rows
        self._n_classes = n_classes
        n_rows = len(rows)
        weights = np.ones(n_rows) if rows.weights is None else rows.weights
        self._weights: Floats = weights / weights.sum()
        self._centre, self._scale = self._moments()
        self._values, self._vectors = self._curvature()
        # Far from 0 for their spread, columns cancel in float32.
        self._centred = bool((np.abs(self._centre) < 30.0 * self._scale).all())

    def solve(self, ridge: float, start: LinearMap | None = None, *, exact: bool = True) -> LinearMap:
        """Return the minimum; ``start`` warm-starts the search, ``exact=False`` ends it early, for a choice of λ."""
        from scipy.optimize import minimize

        rate = (1.0 - 1.0 / self._n_classes) / self._n_classes
        stretch = 1.0 / np.sqrt(rate * self._values + ridge)
        found = minimize(
            self._loss,
            self._coordinates(start, stretch),
            args=(ridge, stretch, np.float64 if exact or not self._centred else np.float32),
            jac=True,
            method="L-BFGS-B",
            options={
                "gtol": _TOLERANCE if exact else _PATH_TOLERANCE,
                "ftol": 1e-13 if exact else 1e-9,
                "maxiter": _MAX_ITERATIONS,
                "maxcor": 20,
            },
        )
        weight, bias = self._standardised(found.x, stretch)
        folded = weight / self._scale[:, None]
        return LinearMap(folded, bias - self._centre @ folded)

    def _loss(self, point: Floats, ridge: float, stretch: Floats, dtype: type[Any]) -> tuple[float, Floats]:
        weight, bias = self._standardised(point, stretch)
        folded = weight / self._scale[:, None]
        offset = bias - self._centre @ folded
        loss, slope, pull = 0.0, np.zeros_like(weight), np.zeros_like(bias)
        used = folded.astype(dtype)
        for rows, labels, weights in self._pieces(dtype):
            logits = (rows @ used).astype(np.float64) + offset
            logits -= logits.max(axis=1, keepdims=True)
            index = np.arange(len(labels))
            true = logits[index, labels]
            np.exp(logits, out=logits)
            total = logits.sum(axis=1)
            loss += float(weights @ (np.log(total) - true))
            logits *= (weights / total)[:, None]
            logits[index, labels] -= weights
            slope += rows.T @ logits.astype(dtype)
            pull += logits.sum(axis=0)
        slope = (slope - np.outer(self._centre, pull)) / self._scale[:, None] + ridge * weight
        rotated = slope if self._vectors is None else self._vectors.T @ slope
        gradient = np.concatenate([(stretch[:, None] * rotated).ravel(), pull])
        return loss + 0.5 * ridge * float(np.square(weight).sum()), gradient

    def _standardised(self, point: Floats, stretch: Floats) -> tuple[Floats, Floats]:
        size = len(stretch) * self._n_classes
        weight = stretch[:, None] * point[:size].reshape(len(stretch), self._n_classes)
        return weight if self._vectors is None else self._vectors @ weight, point[size:]

    def _coordinates(self, start: LinearMap | None, stretch: Floats) -> Floats:
        if start is None:
            return np.zeros((len(stretch) + 1) * self._n_classes)
        weight = start.weight * self._scale[:, None]
        rotated = weight if self._vectors is None else self._vectors.T @ weight
        return np.concatenate([(rotated / stretch[:, None]).ravel(), start.bias + self._centre @ start.weight])

    def _moments(self) -> tuple[Floats, Floats]:
        centre = np.zeros(self._rows.inputs.shape[1])
        for rows, _, weights in self._pieces():
            centre += weights @ rows
        squares = np.zeros_like(centre)
        for rows, _, weights in self._pieces():
            squares += weights @ np.square(rows - centre)
        scale = np.sqrt(squares)
        # The spread that rounding leaves in a constant column is none.
        return centre, np.where(scale > 1e-7 * np.abs(centre), scale, 1.0)

    def _curvature(self) -> tuple[Floats, Floats | None]:
        width = len(self._centre)
        if width > _ROTATED_WIDTH:
            return np.ones(width), None
        moment = np.zeros((width, width))
        for rows, _, weights in self._pieces():
            z = (rows - self._centre) / self._scale
            moment += (weights[:, None] * z).T @ z
        values, vectors = np.linalg.eigh(moment)
        return np.maximum(values, 0.0), vectors

    def _pieces(self, dtype: type[Any] = np.float64) -> Iterator[tuple[Array, NDArray[np.int64], Floats]]:
        start = 0
        for piece in row_chunks(self._rows.inputs, _CHUNK_ROWS):
            stop = start + len(piece)
            yield piece.astype(dtype, copy=False), self._rows.labels[start:stop], self._weights[start:stop]
            start = stop


_RISES = 2


@dataclass
class Linear(Method):
    """p = softmax((W h + b)/T) on the features h themselves; u = entropy of p.

    W and b minimise the training rows' mean cross-entropy plus (λ/2)|W|² in units of the columns' standard deviations:
    a convex problem, solved to its optimum in float64, the same under both protocols and for every seed; there are no
    epochs to limit. λ is the value of ``ridges`` with the lowest validation NLL, tried from the largest down until the
    NLL rises; T is then fitted on validation rows. Time is linear in rows and classes.
    """

    title = "Linear probe"
    origin = "extra"
    paper_inputs = "features"

    ridges: tuple[float, ...] = RIDGES

    def check_parameters(self) -> None:
        """Refuse numbers out of range."""
        if np.ndim(self.ridges) != 1 or not len(self.ridges):
            raise InputError(f"ridges is {self.ridges!r}; pass one number above 0 or more, such as (1.0, 0.1)")
        for ridge in self.ridges:
            check_number(ridge, "ridges")

    def _fit(self, data: FitData, trainer: Trainer) -> None:
        started = time.perf_counter()
        spec = NetworkSpec(Identity(data.input_shape[0]), LinearHead(), data.input_shape, data.n_classes)
        path = _Path(data.train, data.val, data.n_classes)
        self.ridge_ = choose_ridge(self.ridges, path)
        found = path.problem.solve(self.ridge_, path.map_at(self.ridge_))
        logits, labels, weights = found.logits(data.val.inputs), data.val.labels, data.val.weights
        self.beta_ = fit_temperature(logits, labels, weights=weights)
        loss = float(np.average(_losses(logits, labels), weights=weights))
        self.network_ = trainer.solved(spec, data, found.weight, found.bias, loss, time.perf_counter() - started)

    def _predict(self, inputs: Array) -> Prediction:
        probs = softmax(self.network_.outputs(inputs).logits, self.beta_)
        return Prediction(probs, entropy(probs))

    def graph(self) -> graphs.MethodGraph:
        """Return the network and the formula on its logits, for ONNX graphs."""

        def formula(inputs: Tensor, outputs: list[graphs.TensorOutputs]) -> graphs.TensorPrediction:
            probs = graphs.softmax_at(outputs[0].logits, self.beta_)
            return graphs.prediction(probs, graphs.entropy(probs))

        return graphs.MethodGraph([self.network_], formula)


class _Path:
    """The solutions for ever smaller ridges on training rows, each from the one before, judged on validation rows."""

    def __init__(self, train: Split, val: Split, n_classes: int) -> None:
        self.problem = SoftmaxRegression(train, n_classes)
        self.val = val
        # A class that no training row has can be told by no ridge.
        self._known = np.isin(val.labels, train.labels)
        self._maps: dict[float, LinearMap] = {}
        self._last: LinearMap | None = None

    def map_at(self, ridge: float) -> LinearMap:
        if ridge not in self._maps:
            self._last = self._maps[ridge] = self.problem.solve(ridge, self._last, exact=False)
        return self._maps[ridge]

    def loss(self, ridge: float) -> float:
        """Return the sum of the validation rows' losses."""
        losses = _losses(self.map_at(ridge).logits(self.val.inputs), self.val.labels)
        weights = np.ones(len(losses)) if self.val.weights is None else self.val.weights
        return float((weights * losses)[self._known].sum())


def choose_ridge(ridges: Sequence[float], path: _Path) -> float:
    """Return the ridge with the lowest validation loss; from the largest down, two rises in a row end the search."""
    losses: list[float] = []
    ordered = sorted(ridges, reverse=True)
    for ridge in ordered:
        losses.append(path.loss(ridge))
        if len(losses) - 1 - int(np.argmin(losses)) >= _RISES:
            break
    return ordered[int(np.argmin(losses))]


def _losses(logits: Floats, labels: NDArray[np.int64]) -> Floats:
    shifted = logits - logits.max(axis=1, keepdims=True)
    return np.asarray(np.log(np.exp(shifted).sum(axis=1)) - shifted[np.arange(len(labels)), labels])
