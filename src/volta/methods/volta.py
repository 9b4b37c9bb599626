"""VOLTA: unit embeddings, learnable unit prototypes, a learned and then refitted temperature."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import numpy as np

from volta.core.types import Array, FitData, Prediction
from volta.methods.base import Method
from volta.methods.scaling import fit_temperature
from volta.methods.scores import one_minus_max_softmax, softmax
from volta.networks.heads import PrototypeHead, Prototypes
from volta.networks.network import Outputs
from volta.networks.protocols import volta_setup
from volta.networks.spec import NetworkSpec
from volta.networks.trainer import Trainer


@dataclass
class Volta(Method):
    """z = g(h)/|g(h)|, s_k = z·p_k, p = softmax(β s), u = 1 − max_k softmax(s/τ_unc)_k.

    g is a small encoder, p_k are unit prototypes, τ = exp(φ) is learned with them by cross-entropy; β = 1/τ is then
    refitted on validation rows with everything else frozen. One forward pass, no sampling.

    Parameters
    ----------
    temperature
        τ at the start of training.
    uncertainty_temperature
        τ_unc of the uncertainty score.
    """

    title = "VOLTA"
    origin = "volta"
    paper_inputs = "features"

    temperature: float = 0.1
    uncertainty_temperature: float = 0.1

    def _fit(self, data: FitData, trainer: Trainer) -> None:
        encoder, recipe = volta_setup(data)
        spec = NetworkSpec(encoder, Prototypes(self.temperature), data.input_shape, data.n_classes)
        self.network_ = trainer.train(spec, data, recipe)
        similarities = self._similarities(trainer.outputs(self.network_, data.val.inputs))
        self.beta_ = fit_temperature(similarities, data.val.labels, start=1.0 / self._learned_temperature()).beta

    def _predict(self, inputs: Array) -> Prediction:
        similarities = self._similarities(self.network_.outputs(inputs))
        uncertainty = one_minus_max_softmax(similarities / self.uncertainty_temperature)
        return Prediction(softmax(self.beta_ * similarities), uncertainty, ood_score=uncertainty)

    def _similarities(self, outputs: Outputs) -> np.ndarray:
        return outputs.logits * self._learned_temperature()

    def _learned_temperature(self) -> float:
        return cast(PrototypeHead, self.network_.classifier.head).temperature
