"""Epistemic networks: the paper's ENN, and the epinet; both average over an epistemic index."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

from volta.core.checks import check_count, check_number
from volta.core.types import Array, FitData, Prediction
from volta.methods import graphs
from volta.methods.base import MAX_PASSES, Method
from volta.methods.scores import entropy, softmax
from volta.networks.modules import Epinet as EpinetHead
from volta.networks.modules import Epistemic, Head
from volta.networks.spec import NetworkSpec
from volta.networks.trainer import Trainer, baseline_setup


class _Indexed(Method):
    n_indices: int

    def check_parameters(self) -> None:
        """Refuse numbers out of range."""
        check_count(self.n_indices, "n_indices", most=MAX_PASSES)

    @abstractmethod
    def _head(self) -> Head: ...

    def _fit(self, data: FitData, trainer: Trainer) -> None:
        body, recipe = baseline_setup(data, trainer.protocol)
        spec = NetworkSpec(body, self._head(), data.input_shape, data.n_classes)
        self.network_ = trainer.network(data, spec, recipe)

    def _predict(self, inputs: Array) -> Prediction:
        probs = softmax(self.network_.outputs(inputs).logits)
        return Prediction(probs, entropy(probs))

    def graph(self) -> graphs.MethodGraph:
        """Return the network and the formula on its logits, for ONNX graphs."""
        return graphs.entropy_graph([self.network_])


@dataclass
class Enn(_Indexed):
    """p = (1/8) Σ_z softmax(f([h, e_z])) over all indices z; one random z a row in training; u = entropy of p.

    f is an MLP with one hidden layer on the penultimate features h joined to e_z, a learned embedding of the index z.
    The paper gives no sizes: 256 hidden units and embeddings of 16 numbers are our choice.
    """

    title = "ENN"
    origin = "paper"

    n_indices: int = 8

    def _head(self) -> Head:
        return Epistemic(self.n_indices)


@dataclass
class Epinet(_Indexed):
    """p = (1/8) Σ_z softmax(l(h, z)) over all indices z; one random z a row in training; u = entropy of p.

    l(h, z) = W h + b + g(sg(h), z) + α q(sg(h), z): the network's own linear head, a learned epinet g and a fixed
    random prior function q, both on the penultimate features h through a stop-gradient sg; see
    :class:`volta.networks.modules.Epinet`.
    Departures: z is one of 8 with a learned embedding, where Osband et al. draw z from a Gaussian and multiply the
    epinet's output by it, so that 8 heads are all there is to average over; the epinet sees the penultimate features
    alone, without the input; a training step draws one z a row where they draw several a batch.
    Reference: Osband et al. (2023), Epistemic Neural Networks.
    """

    title = "Epinet"
    origin = "extra"
    standard = False

    n_indices: int = 8
    prior_scale: float = 1.0

    def check_parameters(self) -> None:
        """Refuse numbers out of range."""
        super().check_parameters()
        check_number(self.prior_scale, "prior_scale", zero=True)

    def _head(self) -> Head:
        return EpinetHead(self.n_indices, prior_scale=self.prior_scale)
