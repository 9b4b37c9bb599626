"""Heads: from the penultimate vector to one logit per class. Each is a frozen description that builds its module."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeAlias

import torch
from torch import Tensor, nn

from volta.networks.layers import normalise


class HeadModule(nn.Module):
    """A module from penultimate vectors to logits, with what the training loop asks of it."""

    def undecayed(self) -> list[nn.Parameter]:
        """Return the parameters that weight decay must leave alone."""
        return []

    def after_step(self) -> None:
        """Restore what an optimiser step may have broken."""


@dataclass(frozen=True)
class Linear:
    """A plain linear layer: logits = W h + b."""

    def build(self, width: int, n_classes: int) -> HeadModule:
        """Return the linear layer."""
        return _LinearHead(width, n_classes)


class _LinearHead(HeadModule):
    def __init__(self, width: int, n_classes: int) -> None:
        super().__init__()
        self.linear = nn.Linear(width, n_classes)

    def forward(self, encoded: Tensor) -> Tensor:
        logits: Tensor = self.linear(encoded)
        return logits


@dataclass(frozen=True)
class Prototypes:
    """VOLTA's head: z = v/|v|, s_k = z·p_k with unit prototypes, logits = s/τ with τ = exp(φ).

    ``learn_temperature=False`` keeps τ at ``temperature`` during training.
    """

    temperature: float = 0.1
    learn_temperature: bool = True

    def build(self, width: int, n_classes: int) -> HeadModule:
        """Return the head with prototypes drawn as normalised N(0, I) vectors."""
        return PrototypeHead(width, n_classes, self)


class PrototypeHead(HeadModule):
    """The module of :class:`Prototypes`; ``after_step`` puts the prototypes back on the unit sphere."""

    def __init__(self, width: int, n_classes: int, spec: Prototypes) -> None:
        super().__init__()
        self.prototypes = nn.Parameter(normalise(torch.randn(n_classes, width)))
        log_temperature = torch.tensor(math.log(spec.temperature))
        self.log_temperature = nn.Parameter(log_temperature, requires_grad=spec.learn_temperature)

    @property
    def temperature(self) -> float:
        """τ as it stands."""
        return float(self.log_temperature.detach().exp())

    def similarities(self, encoded: Tensor) -> Tensor:
        """Return the cosines s_k between each row of ``encoded`` and each prototype."""
        return normalise(encoded) @ self.prototypes.T

    def forward(self, encoded: Tensor) -> Tensor:
        """Return s/τ."""
        return self.similarities(encoded) / self.log_temperature.exp()

    def undecayed(self) -> list[nn.Parameter]:
        """Return the parameters that weight decay must leave alone."""
        return [self.log_temperature]

    @torch.no_grad()
    def after_step(self) -> None:
        """Renormalise the prototypes; called after every optimiser step."""
        self.prototypes.copy_(normalise(self.prototypes))


Head: TypeAlias = Linear | Prototypes
