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
from volta.estimators.calibration import ABSURD
from volta.methods.exporting import RowGraph
from volta.methods.graphs import HasTensorFormula, TensorOutputs, TensorPrediction, adaptive_set

SEARCH_WIDTH = 1024
MAX_ONE_PRODUCT = 64


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
        """Return the counts, int64."""
        if self.n_blocks == 1:
            return (self.ordered < scores).sum(dim=-1)
        block = (self.ends < scores).sum(dim=-1)
        within = (self.ordered[block + self.starts] < scores).sum(dim=-1)
        return block * self.width + within


class GuardScores(nn.Module):
    """The guard's two scores of exactly scaled rows (n, d) as (n, 1) each; see `fit_guard`.

    The first is negative within the range, where the guard has 0: no combination tells them apart. Whitening, columns'
    scales, mean over columns and unit are one matrix, the length of whose product is the distance; rows of few columns
    get both scores from one product, since a single row costs as much time as the graph has operators.
    """

    def __init__(self, guard: InputGuard) -> None:
        super().__init__()
        # Scaled rows are within float32's range, so that the guard's own bound changes nothing unless scales are tiny.
        self._bounded = bool(2.0 * FLOAT32_MAX / guard.scale.min() > LARGEST)
        self.n_columns = len(guard.low)
        self.one_product = not self._bounded and self.n_columns <= MAX_ONE_PRODUCT
        whitening = guard.whitening / (guard.unit * math.sqrt(self.n_columns))
        if not self._bounded:
            whitening = whitening / guard.scale[:, None]
        if self.one_product:
            spread = np.diag(1.0 / guard.scale)
            offsets = (guard.high / guard.scale, -guard.low / guard.scale, guard.centre @ whitening)
            self.weight = _constant(np.concatenate([spread, -spread, whitening], axis=1).T)
            self.bias = _constant(-np.concatenate(offsets))
            return
        self.low, self.high, self.scale = (_constant(values) for values in (guard.low, guard.high, guard.scale))
        self.centre, self.whitening = _constant(guard.centre), _constant(whitening)

    def forward(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Return how far the furthest column is out of range, and the whitened distance."""
        if self.one_product:
            product = nn.functional.linear(rows, self.weight, self.bias)
            parts = product.split([2 * self.n_columns, self.n_columns], dim=1)  # type: ignore[no-untyped-call]
            beyond, whitened = parts
            return beyond.amax(dim=1, keepdim=True), whitened.norm(dim=1, keepdim=True)
        furthest = (torch.maximum(rows - self.high, self.low - rows) / self.scale).amax(dim=1, keepdim=True)
        centred = rows - self.centre
        if self._bounded:
            furthest = furthest.clamp(max=LARGEST)
            centred = (centred / self.scale).clamp(-LARGEST, LARGEST)
        return furthest, (centred @ self.whitening).norm(dim=1, keepdim=True)


class Combined(nn.Module):
    """c(x) = max_j T_j(s_j(x)) of (n, m) scores; see `fit_combination`.

    −log of a tail is looked up, not computed, so that equal ranks give equal bits, as calibration scores have them.
    """

    def __init__(self, combination: ScoreCombination) -> None:
        super().__init__()
        ordered = np.stack(combination.reference)
        self.rank = Rank(ordered)
        self.largest, self.units = _constant(ordered[:, -1:]), _constant(combination.units[:, None])
        self.surprises = _constant(combination.surprises[:, None])

    def forward(self, scores: Tensor) -> Tensor:
        """Return (n, 1) combined scores."""
        wide = scores.unsqueeze(2)
        excess = (wide - self.largest).relu() / self.units
        return (excess + nn.functional.embedding(self.rank(wide), self.surprises)).amax(dim=1)


class Decider(nn.Module):
    """From a method's prediction and combined OOD scores (n, 1) to p-values, sets and decisions."""

    def __init__(self, test: OodTest, sets: SetPredictor, policy: Policy, fpr: float) -> None:
        super().__init__()
        ordered: Floats = test.scores[0]
        n = len(ordered)
        self.rank = Rank(ordered[None])
        self._set_score = sets.score.name
        self._threshold = policy.threshold if policy.exists else -math.inf
        self._fpr = float(exact_level(fpr, "fpr"))
        self.pvalues = _constant((1 + n - np.arange(n + 1)) / (n + 1))
        self._set_threshold = float(sets.thresholds.values[0])

    def forward(self, found: TensorPrediction, ood: Tensor, total: Tensor, absurd: Tensor) -> GraphOutputs:
        """Return all that the graph gives; ``total`` (n, 1), the sum of a row's inputs, is NaN where one of them is.

        Such a row is the furthest out of all, and OOD whatever ``fpr`` is, as are rows that are ``absurd`` (n, 1); what
        comes of NaN in between is not told, since runtimes differ in what they clip it to.
        """
        lost = total.isnan()
        ood = ood.masked_fill(lost, math.inf)
        pvalue = self.pvalues.gather(0, self.rank(ood))
        answer, abstain, unlike = (torch.tensor(ACTIONS.index(name)) for name in ("answer", "abstain", "ood"))
        decision = torch.where(found.uncertainty <= self._threshold, answer, abstain)
        flagged = (pvalue <= self._fpr) | (lost | absurd).squeeze(1)
        return GraphOutputs(
            found.probs,
            found.probs.argmax(dim=1),
            found.uncertainty,
            ood.squeeze(1),
            pvalue,
            self._sets(found.probs),
            torch.where(flagged, unlike, decision),
        )

    def _sets(self, probs: Tensor) -> Tensor:
        if self._set_score == "aps":
            return adaptive_set(probs, self._set_threshold)
        return probs >= 1.0 - self._set_threshold


class FeatureGraph(nn.Module):
    """A :class:`VoltaClassifier` from rows (n, d) in the user's units."""

    def __init__(
        self, method: RowGraph, scaler: Scaler, guard: InputGuard, combination: ScoreCombination, decider: Decider
    ) -> None:
        super().__init__()
        self.method = method
        self.guard = GuardScores(guard)
        self.combination = Combined(combination)
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
        outputs: GraphOutputs = self.decider(found, self.combination(scores), total, furthest > ABSURD)
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
        self, method: HasTensorFormula, guard: InputGuard | None, combination: ScoreCombination, decider: Decider
    ) -> None:
        super().__init__()
        self._formula = method.predict_tensors
        self.guard = None if guard is None else GuardScores(guard)
        self.combination = Combined(combination)
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
            absurd = absurd | (guarded[0] > ABSURD)
        total = wide.sum(dim=1, keepdim=True) + vectors.sum(dim=1, keepdim=True)
        outputs: GraphOutputs = self.decider(found, ood, total, absurd)
        return outputs
