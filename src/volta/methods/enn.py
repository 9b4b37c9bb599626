"""Epistemic networks: the paper's ENN, and the epinet; both average over an epistemic index."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

from volta.core.types import FitData
from volta.methods.base import MeanSoftmax, at_least_0, checked, pass_count
from volta.networks.modules import Epinet as EpinetHead
from volta.networks.modules import Epistemic, Head
from volta.networks.trainer import Trainer


class _Indexed(MeanSoftmax):
    checks = checked(n_indices=pass_count)

    @abstractmethod
    def _head(self) -> Head: ...

    def _fit(self, data: FitData, trainer: Trainer) -> None:
        self.network_ = trainer.network(data, head=self._head())


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
    checks = checked(n_indices=pass_count, prior_scale=at_least_0)

    n_indices: int = 8
    prior_scale: float = 1.0

    def _head(self) -> Head:
        return EpinetHead(self.n_indices, prior_scale=self.prior_scale)
