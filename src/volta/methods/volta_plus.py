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
from volta.methods.scaling import fit_share, fit_temperature, half_a_row
from volta.methods.scores import Floats, energy, one_minus_max_softmax, softmax
from volta.networks.bodies import EvenEncoder
from volta.networks.heads import Linear, Prototypes
from volta.networks.network import Network
from volta.networks.protocols import need_features, volta_setup
from volta.networks.recipe import Recipe
from volta.networks.spec import NetworkSpec
from volta.networks.trainer import Trainer
from volta.networks.wide import Even, Wide, fit_even, prepared

if TYPE_CHECKING:
    from torch import Tensor

LEAST_SHRINKAGE = 0.05
FEW_COLUMNS = 128


@dataclass(frozen=True)
class Cycle:
    """Width of the layer, and the cycle that it is trained in."""

    hidden: int
    lr: float
    n_epochs: int
    min_steps: int


MANY = Cycle(hidden=1024, lr=2e-3, n_epochs=11, min_steps=120)
FEW = Cycle(hidden=512, lr=2e-2, n_epochs=14, min_steps=80)


@dataclass
class VoltaPlus(Method):
    """p = softmax(β l), u = 1 − max p; OOD score = e + w_r (M − M_0) + w_m M + w_q max(q, 0), all standardised.

    Skewed columns of the features become square roots, all are standardised: x. The logits l = W [a, x] + b come from
    one wide layer a with much dropout and from x itself. Where there are at most 128 columns, VOLTA's own network is
    trained as well, and l is a mean of both networks' logits in shares that validation rows decide. β is refitted on
    these. e = −log Σ_k exp(β l_k) is the free energy, no lower than any validation row's, since a far row may have any;
    M is the squared Mahalanobis distance of x to the nearest class mean and M_0 to the mean of all training rows; q is
    how little the rooted columns hold, minus the mean of x over them. Each is standardised by its mean and deviation on
    validation rows. One pass, no sampling. Training is one complete cycle under both protocols, and its last weights
    are kept. No OOD row is ever seen.

    Parameters
    ----------
    hidden
        Width of the layer; None: 1,024, and 512 where there are at most 128 columns.
    dropout, input_dropout
        Share of the layer that is dropped in training; share of x, times how far its columns tell each other.
    relative_weight, distance_weight, quiet_weight
        w_r, w_m and w_q.
    """

    title = "VOLTA+"
    origin = "extra"
    paper_inputs = "features"
    learned_types = (Distances, Gaussians)

    hidden: int | None = None
    dropout: float = 0.6
    input_dropout: float = 0.1
    weight_decay: float = 0.1
    batch_size: int = 512
    relative_weight: float = 0.5
    distance_weight: float = 0.25
    quiet_weight: float = 0.5

    def _fit(self, data: FitData, trainer: Trainer) -> None:
        need_features(data)
        cycle = FEW if data.input_shape[0] <= FEW_COLUMNS else MANY
        even = fit_even(data.train.inputs)
        self.rooted_ = np.array(even.rooted)
        self.distances_ = _fit_distances(even, data.train.inputs, data.train.labels)
        self.network_ = self._wide_network(even, cycle, data, trainer)
        self.partners_ = [_volta_network(even, data, trainer)] if cycle is FEW else []
        held_out = [trainer.outputs(network, data.val.inputs).logits for network in self._networks]
        self.betas_ = _fit_betas(held_out, data)
        free = energy(self._joined(held_out))
        self.lowest_energy_ = float(free.min())
        parts = np.column_stack([free, *self._of_held_out(even, data, trainer)])
        deviations = parts.std(axis=0)
        self.scales_ = np.stack([parts.mean(axis=0), np.where(deviations > 0.0, deviations, 1.0)])

    def _predict(self, inputs: Array) -> Prediction:
        outputs = [network.outputs(inputs) for network in self._networks]
        logits = self._joined([found.logits for found in outputs])
        even = outputs[0].need_features()[:, -len(self.rooted_) :]
        free = np.maximum(energy(logits), self.lowest_energy_)
        parts = np.column_stack([free, *self.distances_.of(even), quiet(even, self.rooted_)])
        parts = (parts - self.scales_[0]) / self.scales_[1]
        parts[:, -1] = np.maximum(parts[:, -1], 0.0)
        return Prediction(softmax(logits), one_minus_max_softmax(logits), ood_score=parts @ self._weights)

    def graph(self) -> graphs.MethodGraph:
        """Return the networks and the formula on their logits and prepared rows, for ONNX graphs."""
        import torch

        share = graphs.constant(self.rooted_ / max(1, self.rooted_.sum()))
        means, deviations = (graphs.constant(row) for row in self.scales_)

        def formula(inputs: Tensor, outputs: list[graphs.TensorOutputs]) -> graphs.TensorPrediction:
            logits = torch.stack([beta * found.logits for beta, found in zip(self.betas_, outputs, strict=True)]).sum(0)
            even = outputs[0].features[:, -len(self.rooted_) :]
            free = graphs.energy(logits).clamp(min=self.lowest_energy_)
            parts = torch.stack([free, *self.distances_.of_tensors(even), -(even @ share)], dim=1)
            parts = (parts - means) / deviations
            parts = torch.cat([parts[:, :-1], parts[:, -1:].clamp(min=0.0)], dim=1)
            score = parts @ graphs.constant(self._weights)
            return graphs.prediction(logits.softmax(dim=1), graphs.one_minus_max_softmax(logits), score)

        return graphs.MethodGraph(self._networks, formula)

    def _wide_network(self, even: Even, cycle: Cycle, data: FitData, trainer: Trainer) -> Network:
        dropped = self.input_dropout * self.distances_.background.redundancy()
        body = Wide(**vars(even), hidden=self.hidden or cycle.hidden, dropout=self.dropout, input_dropout=dropped)
        size, n_epochs, steps = self.batch_size, cycle.n_epochs, cycle.min_steps
        recipe = Recipe("adamw", cycle.lr, self.weight_decay, "onecycle", size, n_epochs, None, steps)
        return trainer.train(NetworkSpec(body, Linear(), data.input_shape, data.n_classes), data, recipe)

    def _of_held_out(self, even: Even, data: FitData, trainer: Trainer) -> tuple[Floats, Floats, Floats]:
        """Return M and M − M_0 of validation rows, from training rows that they are not among, and q."""
        rows = prepared(even, data.val.inputs)
        if not data.n_folds:
            return *self.distances_.of(rows), quiet(rows, self.rooted_)
        parts = [
            _fit_distances(even, train.inputs, train.labels).of(prepared(even, val.inputs))
            for train, val in trainer.held_out(data)
        ]
        nearest, relative = (np.concatenate(found) for found in zip(*parts, strict=True))
        return nearest, relative, quiet(rows, self.rooted_)

    def _joined(self, logits: list[Floats]) -> Floats:
        return np.asarray(sum(beta * found for beta, found in zip(self.betas_, logits, strict=True)))

    @property
    def _networks(self) -> list[Network]:
        return [self.network_, *self.partners_]

    @property
    def _weights(self) -> Floats:
        return np.array([1.0, self.distance_weight, self.relative_weight, self.quiet_weight])


def quiet(even: Array, rooted: NDArray[np.bool_]) -> Floats:
    """Return q, minus the mean of x (n, d) over the rooted columns; 0 where there are none.

    Rooted columns are counts and what a ReLU leaves, most often 0: a row in which they hold little is one in which the
    backbone found nothing that it knows.
    """
    return np.asarray(-(even.astype(np.float64) @ (rooted / max(1, rooted.sum()))))


def _volta_network(even: Even, data: FitData, trainer: Trainer) -> Network:
    encoder, recipe = volta_setup(data, "fair")
    body = EvenEncoder(**vars(even), **vars(encoder))
    return trainer.train(NetworkSpec(body, Prototypes(), data.input_shape, data.n_classes), data, recipe)


def _fit_betas(held_out: list[Floats], data: FitData) -> list[float]:
    """Return what each network's logits are multiplied with: shares of the cooled networks, then one temperature."""
    labels, weights, doubt = data.val.labels, data.val.weights, half_a_row(len(data.val))

    def beta_of(logits: Floats) -> float:
        return fit_temperature(logits, labels, weights=weights, doubt=doubt).beta

    betas = [beta_of(logits) for logits in held_out]
    if len(betas) == 1:
        return betas
    first, second = (beta * logits for beta, logits in zip(betas, held_out, strict=True))
    share = fit_share(first, second, labels, weights, doubt=doubt)
    beta = beta_of((1.0 - share) * first + share * second)
    return [beta * (1.0 - share) * betas[0], beta * share * betas[1]]


def _fit_distances(even: Even, inputs: Array, labels: NDArray[np.int64]) -> Distances:
    """Learn the distances on training rows (n, d) and their classes."""
    return fit_shrunk_distances(prepared(even, inputs), labels, LEAST_SHRINKAGE)
