"""Linear probe: one linear layer on the features, temperature-scaled. The baseline every method must beat."""

from __future__ import annotations

from dataclasses import dataclass, replace

from volta.core.types import Array, FitData, Prediction
from volta.methods import graphs
from volta.methods.base import Method
from volta.methods.scaling import fit_temperature
from volta.methods.scores import entropy, softmax
from volta.networks.bodies import Identity
from volta.networks.heads import Linear as LinearHead
from volta.networks.protocols import volta_setup
from volta.networks.spec import NetworkSpec
from volta.networks.trainer import Trainer


@dataclass
class Linear(Method):
    """p = softmax((W h + b)/T) on the features h themselves, T fitted on validation rows; u = entropy of p.

    Trained with VOLTA's recipe and for as many epochs under both protocols, in smaller batches: a single layer needs
    the steps and can afford them.
    """

    title = "Linear probe"
    origin = "extra"
    paper_inputs = "features"

    batch_size: int = 128

    def _fit(self, data: FitData, trainer: Trainer) -> None:
        _, recipe = volta_setup(data, trainer.protocol)
        recipe = replace(recipe.for_rows(len(data.train)), batch_size=self.batch_size)
        spec = NetworkSpec(Identity(data.input_shape[0]), LinearHead(), data.input_shape, data.n_classes)
        self.network_ = trainer.train(spec, data, recipe)
        self.beta_ = fit_temperature(self.network_.outputs(data.val.inputs).logits, data.val.labels).beta

    def _predict(self, inputs: Array) -> Prediction:
        probs = softmax(self.network_.outputs(inputs).logits, self.beta_)
        return Prediction(probs, entropy(probs))

    def graph(self) -> graphs.LogitGraph:
        """Return the formula on torch logits."""
        return graphs.LogitGraph(self.network_, self.beta_, lambda logits: graphs.entropy(self.beta_ * logits))
