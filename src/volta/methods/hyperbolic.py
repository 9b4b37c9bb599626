"""Hyperbolic: prototypes in the Poincaré ball."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from volta.core.types import Array, FitData, Prediction
from volta.methods import graphs
from volta.methods.base import Method
from volta.methods.scores import entropy, softmax
from volta.networks.modules import Hyperbolic as HyperbolicHead
from volta.networks.trainer import Trainer

if TYPE_CHECKING:
    from torch import Tensor


_SMALLEST_MARGIN = 1e-12


@dataclass
class Hyperbolic(Method):
    """p = softmax(−d²), d the geodesic distance to each prototype; u = entropy; OOD score = 1/(l_(1) − l_(2)).

    Departure from the paper: its printed logit, minus the squared norm of the Möbius difference, is bounded in (−1, 0]
    and cannot be confident; ``mobius=True`` gives it.
    Reference: Khrulkov et al. (2020), Hyperbolic Image Embeddings.
    """

    title = "Hyperbolic"
    origin = "paper"

    mobius: bool = False

    def _fit(self, data: FitData, trainer: Trainer) -> None:
        self.network_ = trainer.network(data, head=HyperbolicHead(self.mobius))

    def _predict(self, inputs: Array) -> Prediction:
        logits = self.network_.outputs(inputs).logits
        probs = softmax(logits)
        top = np.partition(logits, -2, axis=1)
        margin = top[:, -1] - top[:, -2]
        return Prediction(probs, entropy(probs), ood_score=1.0 / np.maximum(margin, _SMALLEST_MARGIN))

    def graph(self) -> graphs.MethodGraph:
        """Return the network and the formula on its logits, for ONNX graphs."""

        def formula(inputs: Tensor, outputs: list[graphs.TensorOutputs]) -> graphs.TensorPrediction:
            probs = outputs[0].logits.softmax(dim=1)
            top = outputs[0].logits.topk(2).values
            margin = (top[:, 0] - top[:, 1]).clamp(min=_SMALLEST_MARGIN)
            return graphs.prediction(probs, graphs.entropy(probs), 1.0 / margin)

        return graphs.MethodGraph([self.network_], formula)
