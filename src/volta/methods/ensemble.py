"""Deep ensemble: the mean softmax of networks trained from different starts."""

from __future__ import annotations

from dataclasses import dataclass

from volta.core.checks import check_count
from volta.core.types import Array, FitData, Prediction
from volta.methods import graphs
from volta.methods.base import Method
from volta.methods.scores import entropy, mean_softmax
from volta.networks.trainer import Trainer


@dataclass
class Ensemble(Method):
    """p = (1/M) Σ_m softmax(l_m) over M networks that differ by initial weights and batches; u = entropy of p.

    The first member is the network the post-hoc methods share.
    Reference: Lakshminarayanan et al. (2017), Simple and Scalable Predictive Uncertainty Estimation.
    """

    title = "Deep ensemble"
    origin = "extra"
    shares_network = True

    n_members: int = 5

    def check_parameters(self) -> None:
        """Refuse numbers out of range."""
        check_count(self.n_members, "n_members")

    def _fit(self, data: FitData, trainer: Trainer) -> None:
        self.networks_ = [trainer.network(data, member=member) for member in range(self.n_members)]

    def _predict(self, inputs: Array) -> Prediction:
        probs = mean_softmax(network.outputs(inputs).logits for network in self.networks_)
        return Prediction(probs, entropy(probs))

    def graph(self) -> graphs.MethodGraph:
        """Return the networks and the formula on their logits, for ONNX graphs."""
        return graphs.entropy_graph(self.networks_)
