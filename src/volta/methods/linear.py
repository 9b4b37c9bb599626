"""Linear probe: multinomial logistic regression on the features, temperature-scaled. Every method must beat it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from volta.core.checks import check_number
from volta.core.errors import InputError
from volta.core.types import Array, FitData, Prediction, Split
from volta.methods import graphs
from volta.methods.base import Method
from volta.methods.scaling import fit_temperature
from volta.methods.scores import Floats, entropy, softmax
from volta.networks.bodies import Identity
from volta.networks.heads import Linear as LinearHead
from volta.networks.softmax_regression import RIDGES, LinearMap, SoftmaxRegression
from volta.networks.spec import NetworkSpec
from volta.networks.trainer import Trainer

if TYPE_CHECKING:
    from torch import Tensor

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
        paths = [_Path(train, val, data.n_classes) for train, val in trainer.held_out(data)]
        self.ridge_, start = choose_ridge(self.ridges, paths)
        whole = SoftmaxRegression(data.train, data.n_classes) if data.n_folds else paths[0].problem
        found = whole.solve(self.ridge_, start)
        if data.n_folds:
            logits = np.concatenate([path.map_at(self.ridge_).logits(path.val.inputs) for path in paths])
            labels = np.concatenate([path.val.labels for path in paths])
            weights = _joined([path.val.weights for path in paths])
        else:
            logits, labels, weights = found.logits(data.val.inputs), data.val.labels, data.val.weights
        self.beta_ = fit_temperature(logits, labels, weights=weights).beta
        loss = float(np.average(_losses(logits, labels), weights=weights))
        self.network_ = trainer.solved(spec, data, found.weight, found.bias, loss, time.perf_counter() - started)

    def _predict(self, inputs: Array) -> Prediction:
        probs = softmax(self.network_.outputs(inputs).logits, self.beta_)
        return Prediction(probs, entropy(probs))

    def graph(self) -> graphs.MethodGraph:
        """Return the network and the formula on its logits, for ONNX graphs."""

        def formula(inputs: Tensor, outputs: list[graphs.TensorOutputs]) -> graphs.TensorPrediction:
            probs = (self.beta_ * outputs[0].logits).softmax(dim=1)
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


def choose_ridge(ridges: Sequence[float], paths: Sequence[_Path]) -> tuple[float, LinearMap]:
    """Return the ridge with the lowest validation loss over all paths, and the first path's solution there.

    From the largest down; two rises in a row end the search.
    """
    losses: list[float] = []
    ordered = sorted(ridges, reverse=True)
    for ridge in ordered:
        losses.append(sum(path.loss(ridge) for path in paths))
        if len(losses) - 1 - int(np.argmin(losses)) >= _RISES:
            break
    best = ordered[int(np.argmin(losses))]
    return best, paths[0].map_at(best)


def _losses(logits: Floats, labels: NDArray[np.int64]) -> Floats:
    shifted = logits - logits.max(axis=1, keepdims=True)
    return np.asarray(np.log(np.exp(shifted).sum(axis=1)) - shifted[np.arange(len(labels)), labels])


def _joined(parts: Sequence[Floats | None]) -> Floats | None:
    given = [part for part in parts if part is not None]
    return np.concatenate(given) if given else None
