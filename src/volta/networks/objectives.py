"""Training losses: plain cross-entropy, its variance-penalised form, and full VOLTA's auxiliary terms.

Each is a frozen description that builds a module called as ``loss(classifier, inputs, labels, weights)``; parameters of
that module (a decoder, a projection) are trained along and thrown away afterwards. ``weights`` (n,), 1 on average over
all training rows, are how much each row counts; None: all alike.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias, cast

import torch
from torch import Tensor, nn

from volta.networks.modules import PrototypeHead, normalise
from volta.networks.spec import Classifier


@dataclass(frozen=True)
class CrossEntropy:
    """L = −mean log softmax(l)_y."""

    def build(self, classifier: Classifier) -> nn.Module:
        """Return the loss module."""
        return _CrossEntropyLoss()


class _CrossEntropyLoss(nn.Module):
    def forward(self, classifier: Classifier, inputs: Tensor, labels: Tensor, weights: Tensor | None = None) -> Tensor:
        return weighted_cross_entropy(classifier(inputs), labels, weights)


@dataclass(frozen=True)
class VariancePenalty:
    """L = cross-entropy + weight · mean_i Var_k(l_ik), the variance over classes being the population one."""

    weight: float = 0.1

    def build(self, classifier: Classifier) -> nn.Module:
        """Return the loss module."""
        return _VariancePenaltyLoss(self.weight)


class _VariancePenaltyLoss(nn.Module):
    def __init__(self, weight: float) -> None:
        super().__init__()
        self._weight = weight

    def forward(self, classifier: Classifier, inputs: Tensor, labels: Tensor, weights: Tensor | None = None) -> Tensor:
        logits: Tensor = classifier(inputs)
        penalty = weighted_mean(logits.var(dim=1, correction=0), weights)
        return weighted_cross_entropy(logits, labels, weights) + self._weight * penalty


@dataclass(frozen=True)
class VoltaLosses:
    """Cross-entropy plus full VOLTA's auxiliary terms, each times its weight; a weight of 0 leaves the term out.

    margin          mean relu(m − (s_(1) − s_(2))), the gap between the two largest similarities, m = ``gap``
    reconstruction  mean |D(z; ŷ) − p_y|², D a decoder whose hidden layer is scaled and shifted (FiLM) by the
                    predicted class ŷ
    diversity       mean over j ≠ k of (p_j·p_k)²
    contrastive     supervised contrastive loss on a normalised linear projection of z, temperature 0.1
    """

    margin: float = 0.0
    reconstruction: float = 0.0
    diversity: float = 0.0
    contrastive: float = 0.0
    gap: float = 0.2

    def build(self, classifier: Classifier) -> nn.Module:
        """Return the loss module for a classifier with a prototype head; weights come from torch's current seed."""
        return _VoltaLoss(self, cast(PrototypeHead, classifier.head).prototypes.shape)


class _VoltaLoss(nn.Module):
    def __init__(self, weights: VoltaLosses, shape: torch.Size) -> None:
        super().__init__()
        n_classes, width = shape
        self._weights = weights
        self._decoder = FilmDecoder(n_classes, width) if weights.reconstruction else None
        self._projection = nn.Linear(width, 128) if weights.contrastive else None

    def forward(self, classifier: Classifier, inputs: Tensor, labels: Tensor, weights: Tensor | None = None) -> Tensor:
        head = cast(PrototypeHead, classifier.head)
        embedded = normalise(classifier.body(inputs))
        prototypes = head.directions()
        similarities = embedded @ prototypes.T
        total = weighted_cross_entropy(similarities / head.log_temperature.exp(), labels, weights)
        if self._weights.margin:
            total = total + self._weights.margin * margin_loss(similarities, self._weights.gap, weights)
        if self._decoder is not None:
            rebuilt = self._decoder(embedded, similarities.argmax(dim=1))
            error = weighted_mean((rebuilt - prototypes[labels]).square().sum(dim=1), weights)
            total = total + self._weights.reconstruction * error
        if self._weights.diversity:
            total = total + self._weights.diversity * diversity_loss(prototypes)
        if self._projection is not None:
            projected = normalise(self._projection(embedded))
            total = total + self._weights.contrastive * contrastive_loss(projected, labels, weights=weights)
        return total


class FilmDecoder(nn.Module):
    """D(z; c) = W₂ (γ_c ⊙ relu(W₁ z) + δ_c), with γ and δ looked up by class."""

    def __init__(self, n_classes: int, width: int, hidden: int = 128) -> None:
        super().__init__()
        self.inner = nn.Linear(width, hidden)
        self.scale = nn.Embedding(n_classes, hidden)
        self.shift = nn.Embedding(n_classes, hidden)
        self.outer = nn.Linear(hidden, width)
        nn.init.ones_(self.scale.weight)
        nn.init.zeros_(self.shift.weight)

    def forward(self, embedded: Tensor, classes: Tensor) -> Tensor:
        """Return the rebuilt prototype of each row."""
        hidden = torch.relu(self.inner(embedded))
        rebuilt: Tensor = self.outer(self.scale(classes) * hidden + self.shift(classes))
        return rebuilt


def weighted_cross_entropy(logits: Tensor, labels: Tensor, weights: Tensor | None) -> Tensor:
    """Return −mean w log softmax(l)_y."""
    if weights is None:
        return nn.functional.cross_entropy(logits, labels)
    return weighted_mean(nn.functional.cross_entropy(logits, labels, reduction="none"), weights)


def weighted_mean(losses: Tensor, weights: Tensor | None) -> Tensor:
    """Return the mean of w·loss: over batches that is the weighted mean, as all weights are 1 on average."""
    return losses.mean() if weights is None else (losses * weights).mean()


def margin_loss(similarities: Tensor, gap: float, weights: Tensor | None = None) -> Tensor:
    """Return mean relu(gap − (s_(1) − s_(2)))."""
    top = similarities.topk(2, dim=1).values
    return weighted_mean(torch.relu(gap - (top[:, 0] - top[:, 1])), weights)


def diversity_loss(prototypes: Tensor) -> Tensor:
    """Return the mean squared cosine between different prototypes."""
    cosines = prototypes @ prototypes.T
    n_classes = len(prototypes)
    return (cosines.square().sum() - cosines.diagonal().square().sum()) / (n_classes * (n_classes - 1))


def contrastive_loss(
    projected: Tensor, labels: Tensor, temperature: float = 0.1, weights: Tensor | None = None
) -> Tensor:
    """Return −mean_i mean_{j ≠ i: y_j = y_i} log[exp(v_i·v_j/T) / Σ_{k ≠ i} exp(v_i·v_k/T)] over rows with a partner.

    The mean of v_i·v_j over partners is v_i times the mean of their vectors, so that partners need no (n, n) mask.
    Reference: Khosla et al. (2020), Supervised Contrastive Learning.
    """
    logits = projected @ projected.T / temperature
    logits = logits.masked_fill(torch.eye(len(labels), dtype=torch.bool, device=labels.device), float("-inf"))
    members = nn.functional.one_hot(labels).to(projected.dtype)
    partner_sums = (members.T @ projected)[labels] - projected
    counts = members.sum(dim=0)[labels] - 1.0
    alike = (projected * partner_sums).sum(dim=1) / temperature / counts.clamp(min=1.0)
    losses = torch.where(counts > 0, logits.logsumexp(dim=1) - alike, torch.zeros_like(alike))
    if weights is not None:
        losses = losses * weights
    return losses.sum() / (counts > 0).sum().clamp(min=1)


Objective: TypeAlias = CrossEntropy | VariancePenalty | VoltaLosses
