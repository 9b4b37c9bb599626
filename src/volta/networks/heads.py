"""Heads: from the penultimate vector to one logit per class. Each is a frozen description that builds its module."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeAlias

import torch
from torch import Tensor, nn

from volta.networks.layers import RandomLayer, normalise
from volta.networks.outputs import LastLayer


class HeadModule(nn.Module):
    """A module from penultimate vectors to logits, with what the training loop asks of it."""

    def undecayed(self) -> list[nn.Parameter]:
        """Return the parameters that weight decay must leave alone."""
        return []

    def after_step(self) -> None:
        """Restore what an optimiser step may have broken."""

    def last_layer(self) -> LastLayer | None:
        """Return the weights as arrays where logits are linear in the penultimate vector, else None."""
        return None


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

    def last_layer(self) -> LastLayer:
        """Return W and b."""
        return LastLayer(*(value.detach().cpu().numpy() for value in (self.linear.weight, self.linear.bias)))


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


@dataclass(frozen=True)
class Hyperbolic:
    """Prototypes in the Poincaré ball of curvature −1: logit_k = −d(exp₀(z), exp₀(p_k))², z and p_k of unit length.

    exp₀(v) = tanh(|v|) v/|v|; d is the geodesic distance, or, with ``mobius``, the norm of the Möbius difference
    tanh(d/2), which is what the paper prints and keeps logits in (−1, 0].
    """

    mobius: bool = False

    def build(self, width: int, n_classes: int) -> HeadModule:
        """Return the head with prototypes drawn from N(0, I)."""
        return _HyperbolicHead(width, n_classes, self.mobius)


class _HyperbolicHead(HeadModule):
    def __init__(self, width: int, n_classes: int, mobius: bool) -> None:
        super().__init__()
        self.prototypes = nn.Parameter(torch.randn(n_classes, width))
        self._mobius = mobius

    def forward(self, encoded: Tensor) -> Tensor:
        cosines = normalise(encoded) @ normalise(self.prototypes).T
        return hyperbolic_logits(cosines, self._mobius)


def hyperbolic_logits(cosines: Tensor, mobius: bool) -> Tensor:
    """Return −d² of two points at radius r = tanh(1) whose directions have the given cosine.

    cosh d = 1 + 2|x − y|²/(1 − r²)² with |x − y|² = 2r²(1 − cos). As cosh d − 1 = 2 sinh²(d/2), d = 2 arsinh of
    q = |x − y|/(1 − r²), which is accurate near 0, and the Möbius difference's norm is tanh(d/2) = q/√(1 + q²).
    """
    radius = math.tanh(1.0)
    squared = 2.0 * radius**2 * (1.0 - cosines).clamp(min=1e-7) / (1.0 - radius**2) ** 2
    if mobius:
        return -squared / (1.0 + squared)
    return -(2.0 * torch.asinh(squared.sqrt())).square()


@dataclass(frozen=True)
class Epistemic:
    """A linear head with an epinet: l(h, z) = W h + b + g(sg(h), z) + α q(sg(h), z), with an index z in {1..n_indices}.

    sg stops gradients, so that the body learns from W alone; g is a small MLP on the features joined to a learned
    embedding of z; q, the prior function, is an MLP of the same shape with weights that are drawn once, from N(0, 1 /
    fan-in), and never trained; α is ``prior_scale``. In training each row draws one z; in evaluation the probabilities
    of all z are averaged and returned as logarithms.
    """

    n_indices: int = 8
    embedding: int = 16
    hidden: int = 64
    prior_scale: float = 1.0

    def build(self, width: int, n_classes: int) -> HeadModule:
        """Return the head."""
        return EpistemicHead(width, n_classes, self)


class EpistemicHead(HeadModule, RandomLayer):
    """The module of :class:`Epistemic`."""

    def __init__(self, width: int, n_classes: int, spec: Epistemic) -> None:
        super().__init__()
        self.base = nn.Linear(width, n_classes)
        self.epinet = IndexedMlp(width, n_classes, spec)
        self.prior = IndexedMlp(width, n_classes, spec)
        for parameter in self.prior.parameters():
            nn.init.normal_(parameter, std=parameter.shape[-1] ** -0.5)
            parameter.requires_grad_(False)
        self._n_indices = spec.n_indices
        self._prior_scale = spec.prior_scale

    def forward(self, encoded: Tensor) -> Tensor:
        """Return logits for one random index a row (training) or log mean probabilities over all (evaluation)."""
        if self.training:
            drawn = torch.from_numpy(self.random.integers(self._n_indices, size=len(encoded)))
            return self.logits_at(encoded, drawn.to(encoded.device))
        every = torch.arange(self._n_indices, device=encoded.device)
        n_rows = encoded.shape[0]  # not len(), which an exported graph would take for a fixed number
        total = self.logits_at(encoded, every[:1].expand(n_rows)).log_softmax(dim=1)
        for index in every[1:]:
            total = torch.logaddexp(total, self.logits_at(encoded, index.expand(n_rows)).log_softmax(dim=1))
        return total - math.log(len(every))

    def logits_at(self, encoded: Tensor, indices: Tensor) -> Tensor:
        """Return the logits of each row at its own index."""
        stopped = encoded.detach()
        base: Tensor = self.base(encoded)
        added: Tensor = self.epinet(stopped, indices) + self._prior_scale * self.prior(stopped, indices)
        return base + added


class IndexedMlp(nn.Module):
    """An MLP with one hidden layer on [features, embedding of the index]; that layer is split in two."""

    def __init__(self, width: int, n_classes: int, spec: Epistemic) -> None:
        super().__init__()
        self.index = nn.Embedding(spec.n_indices, spec.embedding)
        self.features = nn.Linear(width, spec.hidden)
        self.indices = nn.Linear(spec.embedding, spec.hidden, bias=False)
        self.logits = nn.Linear(spec.hidden, n_classes)

    def forward(self, features: Tensor, indices: Tensor) -> Tensor:
        """Return the logits of each row at its own index."""
        logits: Tensor = self.logits(torch.relu(self.features(features) + self.indices(self.index(indices))))
        return logits


Head: TypeAlias = Linear | Prototypes | Hyperbolic | Epistemic
