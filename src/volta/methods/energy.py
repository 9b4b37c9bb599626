"""Energy: the free energy of the logits as uncertainty."""

from __future__ import annotations

from dataclasses import dataclass

from volta.core.types import Prediction
from volta.methods import graphs
from volta.methods.post_hoc import PostHoc
from volta.methods.scores import softmax_and_energy
from volta.networks.outputs import Outputs


@dataclass
class Energy(PostHoc):
    """p = softmax(l); u = −log Σ_k exp(l_k), higher where more OOD.

    Reference: Liu et al. (2020), Energy-based Out-of-distribution Detection.
    """

    title = "Energy"
    origin = "paper"

    def predict_outputs(self, outputs: Outputs) -> Prediction:
        """Return the softmax and the free energy."""
        return Prediction(*softmax_and_energy(outputs.logits))

    def predict_tensors(self, outputs: graphs.TensorOutputs) -> graphs.TensorPrediction:
        """Return the same from tensors, for ONNX graphs."""
        return graphs.prediction(outputs.logits.softmax(dim=1), graphs.energy(outputs.logits))
