"""VOLTA+: one wide layer beside a linear map, on features made even; OOD by free energy and distance together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from volta.core.types import Array, FitData, Prediction
from volta.methods import graphs
from volta.methods.base import Method
from volta.methods.gaussians import Distances, Gaussians, fit_shrunk_distances
from volta.methods.scaling import fit_temperature
from volta.methods.scores import Floats, energy, one_minus_max_softmax, softmax
from volta.networks.heads import Linear
from volta.networks.protocols import need_features
from volta.networks.recipe import Recipe
from volta.networks.spec import NetworkSpec
from volta.networks.trainer import Trainer
from volta.networks.wide import Wide, fit_wide, prepared

if TYPE_CHECKING:
    from torch import Tensor

LEAST_SHRINKAGE = 0.05


@dataclass
class VoltaPlus(Method):
    """p = softmax(β l), u = 1 − max p; OOD score = e + w_r (M − M_0) + w_m M, each standardised on validation rows.

    Skewed columns of the features become square roots, all are standardised: x. The logits l = W [a, x] + b come from
    one wide layer a with much dropout and from x itself. β is refitted on validation rows. e = −log Σ_k exp(β l_k) is
    the free energy, no lower than any validation row's, since a far row may have any; M is the squared Mahalanobis
    distance of x to the nearest class mean and M_0 to the mean of all training rows. One pass, no sampling.
    Training is one complete cycle under both protocols, and its last weights are kept. All settings are fixed: none
    depends on the task, and no OOD row is ever seen.
    """

    title = "VOLTA+"
    origin = "extra"
    paper_inputs = "features"
    learned_types = (Distances, Gaussians)

    hidden: int = 1024
    dropout: float = 0.6
    input_dropout: float = 0.1
    lr: float = 2e-3
    weight_decay: float = 0.1
    batch_size: int = 512
    n_epochs: int = 11
    min_steps: int = 120
    relative_weight: float = 0.5
    distance_weight: float = 0.25

    def _fit(self, data: FitData, trainer: Trainer) -> None:
        need_features(data)
        body = fit_wide(data.train.inputs, self.hidden, self.dropout, self.input_dropout)
        recipe = Recipe(
            "adamw", self.lr, self.weight_decay, "onecycle", self.batch_size, self.n_epochs, None, self.min_steps
        )
        spec = NetworkSpec(body, Linear(), data.input_shape, data.n_classes)
        self.network_ = trainer.train(spec, data, recipe)
        logits = trainer.outputs(self.network_, data.val.inputs).logits
        self.beta_ = fit_temperature(logits, data.val.labels, weights=data.val.weights).beta
        free = energy(self.beta_ * logits)
        self.lowest_energy_ = float(free.min())
        self.distances_ = _fit_distances(body, data.train.inputs, data.train.labels)
        nearest, relative = self._of_held_out(body, data, trainer)
        self.scales_ = np.array([[values.mean(), values.std() or 1.0] for values in (free, relative, nearest)])

    def _predict(self, inputs: Array) -> Prediction:
        outputs = self.network_.outputs(inputs)
        logits = self.beta_ * outputs.logits
        nearest, relative = self.distances_.of(outputs.need_features()[:, self.hidden :])
        free = np.maximum(energy(logits), self.lowest_energy_)
        parts = (np.stack([free, relative, nearest], axis=1) - self.scales_[:, 0]) / self.scales_[:, 1]
        return Prediction(softmax(logits), one_minus_max_softmax(logits), ood_score=parts @ self._weights)

    def graph(self) -> graphs.MethodGraph:
        """Return the network and the formula on its logits and prepared rows, for ONNX graphs."""
        import torch

        def formula(inputs: Tensor, outputs: list[graphs.TensorOutputs]) -> graphs.TensorPrediction:
            logits = self.beta_ * outputs[0].logits
            nearest, relative = self.distances_.of_tensors(outputs[0].features[:, self.hidden :])
            free = graphs.energy(logits).clamp(min=self.lowest_energy_)
            means, deviations = (graphs.constant(column) for column in self.scales_.T)
            parts = (torch.stack([free, relative, nearest], dim=1) - means) / deviations
            score = parts @ graphs.constant(self._weights)
            return graphs.prediction(logits.softmax(dim=1), graphs.one_minus_max_softmax(logits), score)

        return graphs.MethodGraph([self.network_], formula)

    def _of_held_out(self, body: Wide, data: FitData, trainer: Trainer) -> tuple[Floats, Floats]:
        """Return the distances of validation rows to training rows that they are not among."""
        if not data.n_folds:
            return self.distances_.of(prepared(body, data.val.inputs))
        parts = [
            _fit_distances(body, train.inputs, train.labels).of(prepared(body, val.inputs))
            for train, val in trainer.held_out(data)
        ]
        return np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts])

    @property
    def _weights(self) -> Floats:
        return np.array([1.0, self.relative_weight, self.distance_weight])


def _fit_distances(body: Wide, inputs: Array, labels: NDArray[np.int64]) -> Distances:
    """Learn the distances on training rows (n, d) and their classes."""
    return fit_shrunk_distances(prepared(body, inputs), labels, LEAST_SHRINKAGE)
