"""A method as a torch module from input rows to (probabilities, uncertainty): what an ONNX graph is made from."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from volta.networks.network import Network


@runtime_checkable
class HasGraph(Protocol):
    """A method that is one deterministic pass of one network and says so by giving its graph."""

    def graph(self) -> LogitGraph:
        """Return the fitted method's formula."""


class LogitGraph(nn.Module):
    """p = softmax(b l) and u = ``score(l)`` of the network's logits l."""

    def __init__(self, network: Network, beta: float, score: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.classifier = copy.deepcopy(network.classifier).cpu().eval()
        self._beta = beta
        self._score = score

    def forward(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """Return p (n, K) and u (n,)."""
        logits = self.classifier(inputs)
        return torch.softmax(self._beta * logits, dim=1), self._score(logits)


def entropy(logits: Tensor) -> Tensor:
    """Return the entropy of each row's softmax."""
    logs = torch.log_softmax(logits, dim=1)
    return -(logs.exp() * logs).sum(dim=1)


def one_minus_max_softmax(logits: Tensor) -> Tensor:
    """Return the share of all classes but the largest, which is exact where it is small."""
    shifted = logits - logits.max(dim=1, keepdim=True).values
    others = torch.topk(shifted, shifted.shape[1]).values[:, 1:].exp().sum(dim=1)
    return others / (1.0 + others)
