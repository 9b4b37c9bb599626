"""Taylor-Sensus: cross-entropy with a penalty on the variance of the logits."""

from __future__ import annotations

from dataclasses import dataclass

from volta.core.checks import check_number
from volta.core.types import Array, FitData, Prediction
from volta.methods import graphs
from volta.methods.base import Method
from volta.methods.scores import entropy, softmax
from volta.networks.modules import Linear
from volta.networks.objectives import VariancePenalty
from volta.networks.spec import NetworkSpec
from volta.networks.trainer import Trainer, baseline_setup


@dataclass
class TaylorSensus(Method):
    """Trained with cross-entropy + weight · mean_i Var_k(l_ik); p = softmax(l); u = entropy of p."""

    title = "Taylor-Sensus"
    origin = "paper"

    weight: float = 0.1

    def check_parameters(self) -> None:
        """Refuse numbers out of range."""
        check_number(self.weight, "weight", zero=True)

    def _fit(self, data: FitData, trainer: Trainer) -> None:
        body, recipe = baseline_setup(data, trainer.protocol)
        spec = NetworkSpec(body, Linear(), data.input_shape, data.n_classes)
        self.network_ = trainer.network(data, spec, recipe, VariancePenalty(self.weight))

    def _predict(self, inputs: Array) -> Prediction:
        probs = softmax(self.network_.outputs(inputs).logits)
        return Prediction(probs, entropy(probs))

    def graph(self) -> graphs.MethodGraph:
        """Return the network and the formula on its logits, for ONNX graphs."""
        return graphs.entropy_graph([self.network_])
