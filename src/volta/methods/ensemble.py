"""Means over several networks: the deep ensemble, MC Dropout, and SWAG's draws around the weights that SGD visits."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from volta.core.checks import check_count, check_fraction, check_number
from volta.core.seeding import rng
from volta.core.types import Array, FitData, Prediction
from volta.methods.base import MeanSoftmax, Method, checked, pass_count
from volta.methods.scores import entropy, mean_softmax
from volta.networks.network import Network
from volta.networks.recipe import Recipe
from volta.networks.trainer import Trainer, baseline_setup
from volta.networks.training import InputRows

Weights = NDArray[np.float32]
BATCH_NORM_ROWS = 512


@dataclass
class Ensemble(MeanSoftmax):
    """p = (1/M) Σ_m softmax(l_m) over M networks that differ by initial weights and batches; u = entropy of p.

    The first member is the network the post-hoc methods share.
    Reference: Lakshminarayanan et al. (2017), Simple and Scalable Predictive Uncertainty Estimation.
    """

    title = "Deep ensemble"
    origin = "extra"
    shares_network = True
    checks = checked(n_members=check_count)

    n_members: int = 5

    def _fit(self, data: FitData, trainer: Trainer) -> None:
        self.networks_ = [trainer.network(data, member=member) for member in range(self.n_members)]


@dataclass
class McDropout(Method):
    """p = (1/T) Σ_t softmax(l_t) over T passes with dropout on; u = entropy of p.

    Masks are drawn from the run's seed, so that the same rows in the same order give the same prediction.
    Reference: Gal & Ghahramani (2016), Dropout as a Bayesian Approximation.

    Parameters
    ----------
    dropout
        Rate in training and at test.
    n_passes
        T.
    """

    title = "MC Dropout"
    origin = "paper"
    shares_network = True
    checks = checked(dropout=check_fraction, n_passes=pass_count)

    dropout: float = 0.2
    n_passes: int = 10

    def _fit(self, data: FitData, trainer: Trainer) -> None:
        self.network_ = trainer.network(data, dropout=self.dropout)
        self.seed_ = trainer.seed

    def _predict(self, inputs: Array) -> Prediction:
        generators = [rng(self.seed_, "mc_dropout", index) for index in range(self.n_passes)]
        probs = np.empty((len(inputs), self.network_.spec.n_classes))
        for rows, passes in self.network_.sampled_logits(inputs, generators):
            probs[rows] = mean_softmax(passes)
        return Prediction(probs, entropy(probs))


@dataclass
class Swag(MeanSoftmax):
    """p = (1/S) Σ_s softmax(l(θ_s)), θ_s drawn around the mean of the weights SGD visits; u = entropy of p.

    From the shared network, SGD with momentum 0.9 visits one θ an epoch. With their mean θ̄, the diagonal variance σ²
    and the last R deviations D from the running mean, θ_s = θ̄ + σ ⊙ a/√2 + D b/√(2(R − 1)) with standard normal a and
    b. BatchNorm statistics, where there are any, are computed anew on the training rows for each θ_s.
    Reference: Maddox et al. (2019), A Simple Baseline for Bayesian Uncertainty in Deep Learning.
    """

    title = "SWAG"
    origin = "paper"
    shares_network = True
    checks = checked(lr=check_number, n_epochs=check_count, rank=check_count, n_samples=pass_count)

    n_epochs: int = 20
    lr: float = 1e-3
    rank: int = 20
    n_samples: int = 10

    def _fit(self, data: FitData, trainer: Trainer) -> None:
        network = trainer.network(data)
        _, recipe = baseline_setup(data, trainer.protocol)
        sgd = Recipe("sgd", self.lr, 1e-4, "constant", recipe.batch_size, max_epochs=self.n_epochs, patience=None)
        states = trainer.snapshots(network, data, sgd)
        names = [name for name, _ in network.classifier.named_parameters()]
        visited = np.stack([np.concatenate([state[name].cpu().numpy().ravel() for name in names]) for state in states])
        moments = Moments.of(visited, self.rank)
        self.networks_ = [
            _with_weights(network, names, moments.draw(rng(trainer.seed, "swag", index)), data)
            for index in range(self.n_samples)
        ]


@dataclass(frozen=True, eq=False)
class Moments:
    """Mean (P,), standard deviation (P,) and deviations (R, P) of the visited weights."""

    mean: Weights
    std: Weights
    deviations: Weights

    @classmethod
    def of(cls, visited: Weights, rank: int) -> Moments:
        """Return the moments of (T, P) visited weights, with the last ``rank`` deviations from the running mean."""
        counts = np.arange(1, len(visited) + 1, dtype=np.float64)[:, None]
        running = np.cumsum(visited, axis=0, dtype=np.float64) / counts
        variance = np.maximum(np.mean(visited.astype(np.float64) ** 2, axis=0) - running[-1] ** 2, 0.0)
        deviations = (visited - running)[-rank:]
        return cls(running[-1].astype(np.float32), np.sqrt(variance).astype(np.float32), deviations.astype(np.float32))

    def draw(self, random: np.random.Generator) -> Weights:
        """Return one draw of the weights."""
        diagonal = self.std * random.standard_normal(len(self.mean), dtype=np.float32) / np.sqrt(2.0)
        rank = len(self.deviations)
        low_rank = random.standard_normal(rank, dtype=np.float32) @ self.deviations / np.sqrt(2.0 * max(1, rank - 1))
        return np.asarray(self.mean + diagonal + low_rank, dtype=np.float32)


def _with_weights(network: Network, names: list[str], weights: Weights, data: FitData) -> Network:
    """Return a copy of ``network`` with the given flat weights and BatchNorm statistics to match."""
    classifier = network.copy()
    parameters = dict(classifier.named_parameters())
    start = 0
    with torch.no_grad():
        for name in names:
            size = parameters[name].numel()
            part = torch.from_numpy(weights[start : start + size]).view(parameters[name].shape)
            parameters[name].copy_(part)
            start += size
    refreshed = replace(network, classifier=classifier)
    _refresh_batch_norm(refreshed, data)
    return refreshed


@torch.no_grad()
def _refresh_batch_norm(network: Network, data: FitData) -> None:
    layers = [layer for layer in network.classifier.modules() if isinstance(layer, nn.BatchNorm2d)]
    if not layers:
        return
    for layer in layers:
        layer.reset_running_stats()
        layer.momentum = None
        layer.train()
    for batch in InputRows(data.train.inputs, network.device).batches(BATCH_NORM_ROWS):
        network.classifier.body(batch)
    network.classifier.eval()
