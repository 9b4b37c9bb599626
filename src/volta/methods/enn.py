"""ENN: an epistemic index that the head averages over."""

from __future__ import annotations

from dataclasses import dataclass

from volta.core.types import Array, FitData, Prediction
from volta.methods.base import Method
from volta.methods.scores import entropy, softmax
from volta.networks.heads import Epistemic
from volta.networks.protocols import baseline_setup
from volta.networks.spec import NetworkSpec
from volta.networks.trainer import Trainer


@dataclass
class Enn(Method):
    """p = (1/8) Σ_z softmax(l(f, z)) over all indices z; one random z a row in training; u = entropy of p.

    Reference: Osband et al. (2023), Epistemic Neural Networks.
    """

    title = "ENN"
    origin = "paper"

    n_indices: int = 8

    def _fit(self, data: FitData, trainer: Trainer) -> None:
        body, recipe = baseline_setup(data, trainer.protocol)
        spec = NetworkSpec(body, Epistemic(self.n_indices), data.input_shape, data.n_classes)
        self.network_ = trainer.train(spec, data, recipe)

    def _predict(self, inputs: Array) -> Prediction:
        probs = softmax(self.network_.outputs(inputs).logits)
        return Prediction(probs, entropy(probs))
