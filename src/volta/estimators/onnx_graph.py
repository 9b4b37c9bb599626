"""A fitted classifier as one torch module, from which its ONNX graph is made: everything that ``decide`` does."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from volta.core.checks import FLOAT32_MAX
from volta.core.scaling import LARGEST_INPUT, Scaler
from volta.decisions import InputGuard, OodTest, Policy, ScoreCombination, SetPredictor
from volta.decisions.decide import ACTIONS
from volta.decisions.guard import LARGEST
from volta.decisions.ranks import exact_level
from volta.decisions.set_scores import Floats
from volta.estimators.calibration import absurd_beyond
from volta.estimators.graph_rounding import ABSOLUTE_TIE, Rounding, tied_up_to
from volta.methods.exporting import RowGraph
from volta.methods.graphs import HasTensorFormula, TensorOutputs, TensorPrediction, adaptive_set

SEARCH_WIDTH = 1024

FLOAT64_MAX = float(np.finfo(np.float64).max)
HALF_ULP_OF_ONE = 2.0**-53
"""So far 1 − p may be from what it stands for, by which Python decides on sets."""


class GraphOutputs(NamedTuple):
    """What a classifier's graph gives for n rows, in this order and by these names.

    ``probs`` (n, K); ``label`` (n,) int64, the likeliest class; ``uncertainty``, ``ood_score`` and ``ood_pvalue`` (n,);
    ``set`` (n, K) bool; ``decision`` (n,) int64: 0 answer, 1 abstain, 2 OOD. Numbers are float64.
    """

    probs: Tensor
    label: Tensor
    uncertainty: Tensor
    ood_score: Tensor
    ood_pvalue: Tensor
    set: Tensor
    decision: Tensor


def _constant(values: NDArray[Any]) -> nn.Parameter:
    return nn.Parameter(torch.tensor(values), requires_grad=False)


class Rank(nn.Module):
    """#{i : r_ij < s_j} for each score j of each row, (n, m, 1) → (n, m), among m sorted arrays r_j of one length.

    Long arrays are cut into blocks: first the block is found among the blocks' last values, then the place within it,
    so that a row takes the square root of their length in time and memory, in a few standard operators.
    """

    def __init__(self, ordered: NDArray[np.float64]) -> None:
        super().__init__()
        ordered = np.atleast_2d(ordered)
        n_scores, length = ordered.shape
        self.width = length if length <= SEARCH_WIDTH else math.isqrt(length - 1) + 1
        n_blocks = -(-length // self.width)
        padded = np.full((n_scores, n_blocks * self.width), np.inf)
        padded[:, :length] = ordered
        blocks = padded.reshape(n_scores, n_blocks, self.width)
        self.n_blocks = n_blocks
        self.ordered, self.ends = _constant(blocks.reshape(-1, self.width)), _constant(blocks[:, :-1, -1])
        self.starts = _constant(np.arange(n_scores) * n_blocks)

    def forward(self, scores: Tensor) -> Tensor:
        """Return the counts, whole numbers in float64, which runtimes add up faster than int64."""
        if self.n_blocks == 1:
            return _count(self.ordered < scores)
        block = _count(self.ends < scores)
        return block * self.width + _count(self.ordered[block.long() + self.starts] < scores)


def _count(found: Tensor) -> Tensor:
    return found.double().sum(dim=-1)


class GuardScores(nn.Module):
    """The guard's two scores of exactly scaled rows (n, d) as (n, 1) each; see `fit_guard`.

    The first is negative within the range, where the guard has 0: no combination tells them apart. Whitening, columns'
    scales, mean over columns and unit are one matrix, the length of whose product is the distance.
    """

    def __init__(self, guard: InputGuard) -> None:
        super().__init__()
        self._bounded = guard.has_tiny_scale
        whitening = guard.whitening / (guard.unit * math.sqrt(len(guard.low)))
        if not self._bounded:
            whitening = whitening / guard.scale[:, None]
        self.low, self.high, self.scale = (_constant(values) for values in (guard.low, guard.high, guard.scale))
        self.centre, self.whitening = _constant(guard.centre), _constant(whitening)

    def forward(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Return how far the furthest column is out of range, and the whitened distance."""
        furthest = (torch.maximum(rows - self.high, self.low - rows) / self.scale).amax(dim=1, keepdim=True)
        centred = rows - self.centre
        if self._bounded:
            furthest = furthest.clamp(max=LARGEST)
            centred = (centred / self.scale).clamp(-LARGEST, LARGEST)
        return furthest, (centred @ self.whitening).norm(dim=1, keepdim=True)


class Combined(nn.Module):
    """c(x) = max_j T_j(s_j(x)) of (n, m) scores, the method's first; see `fit_combination`.

    −log of a tail is looked up, not computed, so that equal ranks give equal bits, as calibration scores have them.
    """

    def __init__(self, combination: ScoreCombination, rounding: Rounding) -> None:
        super().__init__()
        ordered = np.stack(combination.reference)
        relative = np.array([rounding.scores, *([Rounding().scores] * (len(ordered) - 1))])[:, None]
        self.rank = Rank(tied_up_to(ordered, relative))
        self.largest, self.units = _constant(ordered[:, -1:]), _constant(combination.units[:, None])
        self.surprises = _constant(combination.surprises[:, None])
        # A score goes on growing only where it is beyond all reference scores, and more than tied with the largest.
        self.beyond = _constant((np.arange(len(combination.surprises)) == ordered.shape[1]).astype(np.float64)[:, None])
        self.highest_rank = float(combination.surprises[-1])
        self.rounding = rounding
        self.absurd_beyond = absurd_beyond(combination) if len(ordered) > 1 else np.inf
        self.tie = rounding.scores * float(np.abs(ordered[0, -1]) / combination.units[0]) + ABSOLUTE_TIE

    def forward(self, scores: Tensor) -> Tensor:
        """Return (n, 1) combined scores."""
        wide = scores.unsqueeze(2)
        rank = self.rank(wide).long()
        excess = (wide - self.largest) / self.units * nn.functional.embedding(rank, self.beyond)
        return (excess + nn.functional.embedding(rank, self.surprises)).amax(dim=1)

    def tied(self, combined: Floats) -> Floats:
        """Return what a combined score must exceed to be larger than ``combined`` and not equal but for rounding.

        Scores among the reference scores are looked up and have no rounding.
        """
        excess = combined - self.highest_rank
        return np.where(excess > 0.0, combined + self.rounding.scores * excess + self.tie, combined)


class Decider(nn.Module):
    """From a method's prediction and combined OOD scores (n, 1) to p-values, sets and decisions."""

    def __init__(self, test: OodTest, sets: SetPredictor, policy: Policy, fpr: float, combined: Combined) -> None:
        super().__init__()
        ordered, rounding = combined.tied(test.scores[0]), combined.rounding
        n = len(ordered)
        self.rank = Rank(ordered[None])
        self._n = n
        pvalues = (1 + n - np.arange(n + 1)) / (n + 1)
        # The largest score that is not flagged: p-values fall with the rank. Infinity, of rows with NaN, always is.
        n_unflagged = int((pvalues > float(exact_level(fpr, "fpr"))).sum())
        self.unflagged = _constant(np.append(ordered, FLOAT64_MAX)[[n_unflagged - 1]])
        threshold = np.array([policy.threshold if policy.exists else -math.inf])
        self.threshold = _constant(threshold if math.isinf(threshold[0]) else tied_up_to(threshold, rounding.scores))
        self._set_score = sets.score.name
        self._set_threshold, self._set_tie = float(sets.thresholds.values[0]), rounding.probs

    def forward(self, found: TensorPrediction, ood: Tensor, total: Tensor, absurd: Tensor) -> GraphOutputs:
        """Return all that the graph gives; ``total`` (n, 1), the sum of a row's inputs, is NaN where one of them is.

        Such a row is the furthest out of all, and OOD whatever ``fpr`` is, as are rows that are ``absurd`` (n, 1); what
        comes of NaN in between is not told, since runtimes differ in what they clip it to.
        """
        ood = ood.masked_fill(total.isnan(), math.inf)
        unlike = torch.tensor(ACTIONS.index("ood"))
        # 0 is answer and 1 abstain: a comparison is the decision.
        decision = (found.uncertainty > self.threshold).long()
        flagged = ((ood > self.unflagged) | absurd).squeeze(1)
        return GraphOutputs(
            found.probs,
            found.probs.argmax(dim=1),
            found.uncertainty,
            ood.squeeze(1),
            (1.0 + self._n - self.rank(ood)) / (1.0 + self._n),
            self._sets(found.probs),
            torch.where(flagged, unlike, decision),
        )

    def _sets(self, probs: Tensor) -> Tensor:
        if self._set_score == "aps":
            # Of sums of probabilities, which are 1 at most.
            return adaptive_set(probs, self._set_threshold + self._set_tie)
        # In units of the threshold: it may be far below what rounding does to probabilities near 1.
        return probs >= (1.0 - self._set_threshold) * (1.0 - self._set_tie) - HALF_ULP_OF_ONE


class FeatureGraph(nn.Module):
    """A :class:`VoltaClassifier` from rows (n, d) in the user's units."""

    def __init__(
        self, method: RowGraph, scaler: Scaler, guard: InputGuard, combination: Combined, decider: Decider
    ) -> None:
        super().__init__()
        self.method = method
        self.guard = GuardScores(guard)
        self.combination = combination
        self.decider = decider
        self._limit = scaler.limit
        self.centre = None if scaler.centre is None else _constant(scaler.centre)
        self.scale = None if scaler.scale is None else _constant(scaler.scale)

    def forward(self, inputs: Tensor) -> GraphOutputs:
        """Return probabilities, uncertainty, OOD score and p-value, set and decision of each row."""
        # In float64: columns may lie far from 0 for their spread.
        rows = inputs.double()
        if self.centre is not None and self.scale is not None:
            rows = ((rows - self.centre) / self.scale).clamp(-FLOAT32_MAX, FLOAT32_MAX)
        found = self.method(rows.clamp(-self._limit, self._limit).float())
        furthest, distance = self.guard(rows)
        scores = torch.cat([found.ood_score.unsqueeze(1), furthest, distance], dim=1)
        total = inputs.sum(dim=1, keepdim=True)
        outputs: GraphOutputs = self.decider(
            found, self.combination(scores), total, furthest > self.combination.absurd_beyond
        )
        return outputs


class ImageGraph(nn.Module):
    """A :class:`VoltaImageClassifier` from uint8 pixels (n, 3, h, w)."""

    def __init__(self, backbone: nn.Module, classifier: FeatureGraph) -> None:
        super().__init__()
        self.backbone = backbone
        self.classifier = classifier

    def forward(self, pixels: Tensor) -> GraphOutputs:
        """Return probabilities, uncertainty, OOD score and p-value, set and decision of each image."""
        outputs: GraphOutputs = self.classifier(self.backbone(pixels))
        return outputs


class OutputsGraph(nn.Module):
    """A :class:`PostHocClassifier` from a network's logits (n, K), and penultimate vectors (n, w) where it has any."""

    def __init__(
        self, method: HasTensorFormula, guard: InputGuard | None, combination: Combined, decider: Decider
    ) -> None:
        super().__init__()
        self._formula = method.predict_tensors
        self.guard = None if guard is None else GuardScores(guard)
        self.combination = combination
        self.decider = decider

    def forward(self, logits: Tensor, features: Tensor | None = None) -> GraphOutputs:
        """Return probabilities, uncertainty, OOD score and p-value, set and decision of each row."""
        wide = logits.double()
        vectors = wide[:, :0] if features is None else features.double()
        found = self._formula(TensorOutputs(wide, vectors))
        guarded = () if self.guard is None else self.guard(vectors)
        ood = self.combination(torch.cat([found.ood_score.unsqueeze(1), *guarded], dim=1))
        absurd = wide.abs().amax(dim=1, keepdim=True) > LARGEST_INPUT
        if guarded:
            absurd = absurd | (guarded[0] > self.combination.absurd_beyond)
        total = wide.sum(dim=1, keepdim=True) + vectors.sum(dim=1, keepdim=True)
        outputs: GraphOutputs = self.decider(found, ood, total, absurd)
        return outputs
