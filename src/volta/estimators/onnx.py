"""Fitted classifiers as ONNX graphs that decide by themselves.

A network computes in float32 in a graph and in float64 in Python. Decisions compare scores with those of calibration
rows, and a row that is equal to one of them must tie with it in the graph too: data of few distinct rows would
otherwise be decided at random. So a score counts as larger than another only where it is larger by more than rounding.
"""

from __future__ import annotations

import copy
import math
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from volta._version import __version__
from volta.core.checks import FLOAT32_MAX
from volta.core.errors import InputError
from volta.core.files import canonical_json
from volta.core.scaling import LARGEST_INPUT, Scaler
from volta.core.seeding import rng
from volta.decisions import OodTest, Policy, RangeCheck, ScoreCombination, ScoreJoin, SetPredictor, TableEvidence
from volta.decisions.conformal import Floats, exact_level
from volta.decisions.decide import ACTIONS
from volta.decisions.evidence import KNEE, N_NEIGHBOURS, SPARE_NEIGHBOURS
from volta.decisions.evidence import LARGEST as LARGEST_DEVIATION
from volta.decisions.range_check import LARGEST
from volta.estimators.deciding import DecidingMixin, FeatureOodScore, extreme_beyond, warn_if
from volta.estimators.saving import plain_classes
from volta.methods.base import Method
from volta.methods.graphs import HasTensorFormula, TensorOutputs, TensorPrediction, adaptive_set
from volta.methods.saving import RowGraph, no_graph, row_graph, write_onnx

if TYPE_CHECKING:
    from volta.estimators.classifier import VoltaClassifier
    from volta.features.backbones.backbone import Backbone


ABSOLUTE_TIE = 1e-12
"""To so many decimals Python settles scores."""

SMALLEST_PROB = 1e-12
"""Probabilities below this are compared as if they were this large."""

N_PROBES = 256
ROOM = 4.0
LARGEST_TIE = 1e-4


class Rounding(NamedTuple):
    """``scores``: largest relative difference of uncertainties and OOD scores; ``probs``: the same of probabilities.

    The defaults are for graphs that compute in float64 from the same numbers.
    """

    scores: float = 1e-9
    probs: float = 1e-9


def probe_rows(range_check: RangeCheck) -> Floats:
    """Return random rows, in the units the range check sees, with the training rows' means and covariances."""
    noise = rng(0, "export").normal(size=(N_PROBES, len(range_check.centre)))
    return np.asarray(range_check.centre + range_check.scale * np.linalg.solve(range_check.whitening.T, noise.T).T)


def measured_rounding(method: Method, graph: RowGraph, probes: Floats) -> Rounding:
    """Compare graph and Python on ``probes``, rows like the training rows; leave room to spare."""
    rows = probes.astype(np.float32)
    exact = method.predict(rows.astype(np.float64))
    with torch.no_grad():
        found = graph.eval()(torch.tensor(rows))
    scores = [(found.uncertainty, exact.uncertainty), (found.ood_score, exact.ood_score)]
    return Rounding(
        _with_room(max(_relative(values.numpy(), own) for values, own in scores), Rounding().scores),
        _with_room(_relative(found.probs.numpy(), np.maximum(exact.probs, SMALLEST_PROB)), Rounding().probs),
    )


def tied_up_to(values: Floats, relative: Floats | float) -> Floats:
    """Return what a score must exceed to be larger than ``values`` and not equal to them but for rounding."""
    return values + np.abs(values) * relative + ABSOLUTE_TIE


def _relative(found: Floats, exact: Floats) -> float:
    beyond = np.maximum(np.abs(found - exact) - ABSOLUTE_TIE, 0.0)
    return float((beyond / np.maximum(np.abs(exact), np.finfo(np.float64).tiny)).max())


def _with_room(difference: float, least: float) -> float:
    return max(least, min(ROOM * difference, LARGEST_TIE))


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


class RangeScores(nn.Module):
    """The range check's two scores of exactly scaled rows (n, d) as (n, 1) each; see `fit_range_check`.

    The first is negative within the range, where the range check has 0: no combination tells them apart. Whitening,
    columns' scales, mean over columns and unit are one matrix, the length of whose product is the distance.
    """

    def __init__(self, range_check: RangeCheck) -> None:
        super().__init__()
        self._bounded = range_check.has_tiny_scale
        whitening = range_check.whitening / (range_check.unit * math.sqrt(len(range_check.low)))
        if not self._bounded:
            whitening = whitening / range_check.scale[:, None]
        self.low, self.high, self.scale = (
            _constant(values) for values in (range_check.low, range_check.high, range_check.scale)
        )
        self.centre, self.whitening = _constant(range_check.centre), _constant(whitening)

    def forward(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Return how far the furthest column is out of range, and the whitened distance."""
        furthest = (torch.maximum(rows - self.high, self.low - rows) / self.scale).amax(dim=1, keepdim=True)
        centred = rows - self.centre
        if self._bounded:
            furthest = furthest.clamp(max=LARGEST)
            centred = (centred / self.scale).clamp(-LARGEST, LARGEST)
        return furthest, (centred @ self.whitening).norm(dim=1, keepdim=True)


class EvidenceScores(nn.Module):
    """The evidence's scores (n, 4) of exactly scaled rows (n, d) in float64; see `fit_evidence`."""

    def __init__(self, evidence: TableEvidence) -> None:
        super().__init__()
        n_columns, n_places = evidence.surprise.shape
        self.levels, self.surprise = _constant(evidence.levels), _constant(evidence.surprise.reshape(-1, 1))
        self.starts = _constant(np.arange(n_columns) * n_places)
        self.low, self.high = _constant(evidence.levels[:, 0]), _constant(evidence.high)
        self.low_unit, self.high_unit = _constant(evidence.low_unit), _constant(evidence.high_unit)
        self.centre, self.scale = _constant(evidence.centre), _constant(evidence.scale)
        self.whitening = _constant(evidence.whitening)
        self.classes, self.neighbours = Nearest(evidence.class_centres, 1), Nearest(evidence.reference, N_NEIGHBOURS)
        self.unit = _constant(np.array([evidence.unit]))  # a plain number would be written in single precision

    def forward(self, rows: Tensor) -> Tensor:
        """Return the scores of ``volta.decisions.evidence.SCORE_NAMES``."""
        wide = rows.unsqueeze(2)
        place = (_count(self.levels < wide) + _count(self.levels <= wide)).long()
        beyond = (rows - self.high).relu() / self.high_unit + (self.low - rows).relu() / self.low_unit
        surprise = nn.functional.embedding(place + self.starts, self.surprise).squeeze(2)
        surprise = surprise + 2.0 * (beyond.clamp(max=LARGEST_DEVIATION) / 2.0).log1p()
        deviation = (rows - self.centre) / self.scale
        size = deviation.abs().clamp(max=LARGEST_DEVIATION)
        size = size.clamp(max=KNEE) + KNEE * ((size - KNEE).relu() / KNEE).log1p()
        whitened = (size * deviation.sign()) @ self.whitening
        distance, neighbours = self.classes(whitened), self.neighbours(whitened) / self.unit
        return torch.stack([surprise.amax(dim=1), surprise.sum(dim=1), distance, neighbours], dim=1)


class Nearest(nn.Module):
    """Mean distance (n,) of rows (n, d) to the k nearest of some points, found as Python finds them."""

    def __init__(self, points: Floats, k: int) -> None:
        super().__init__()
        self.points, self.squares = _constant(points), _constant(np.square(points).sum(axis=1))
        self._k = min(k, len(points))
        self._n_candidates = min(k + SPARE_NEIGHBOURS, len(points))

    def forward(self, rows: Tensor) -> Tensor:
        """Return the mean distances."""
        rough = self.squares - 2.0 * (rows @ self.points.T)
        near = self.points[rough.topk(self._n_candidates, dim=1, largest=False).indices]
        squares = (rows.unsqueeze(1) - near).square().sum(dim=2)
        return squares.topk(self._k, dim=1, largest=False).values.sqrt().mean(dim=1)


class Joined(nn.Module):
    """The joined score (n, 1) of (n, m) scores, several at least; see `fit_join`."""

    def __init__(self, join: ScoreJoin, relative: Floats) -> None:
        super().__init__()
        ordered = np.stack(join.reference)
        self.rank = Rank(tied_up_to(ordered, relative[:, None]))
        self.largest, self._n = _constant(ordered[:, -1]), ordered.shape[1]
        self.weights = _constant(join.weights)
        self.excess_weights = _constant(np.where(join.bounded, 0.0, join.weights))

    def forward(self, scores: Tensor) -> Tensor:
        """Return the weighted sum of inverse ranks and excesses; what ties with the largest has none."""
        rank = self.rank(scores.unsqueeze(2))
        excess = (scores - self.largest).relu() * (rank == self._n)
        found: Tensor = self.weights / (1.0 + self._n - rank) + self.excess_weights * excess
        return found.sum(dim=1, keepdim=True)


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
        self.extreme_beyond = extreme_beyond(combination) if len(ordered) > 1 else np.inf
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

    def __init__(self, rules: Rules, combined: Combined) -> None:
        super().__init__()
        sets, policy = rules.sets, rules.policy
        ordered, rounding = combined.tied(rules.test.scores[0]), combined.rounding
        n = len(ordered)
        self.rank = Rank(ordered[None])
        self._n = n
        pvalues = (1 + n - np.arange(n + 1)) / (n + 1)
        # The largest score that is not flagged: p-values fall with the rank. Infinity, of rows with NaN, always is.
        n_unflagged = int((pvalues > float(exact_level(rules.fpr, "fpr"))).sum())
        self.unflagged = _constant(np.append(ordered, FLOAT64_MAX)[[n_unflagged - 1]])
        threshold = np.array([policy.threshold if policy.exists else -math.inf])
        self.threshold = _constant(threshold if math.isinf(threshold[0]) else tied_up_to(threshold, rounding.scores))
        self._set_score = sets.score.name
        self._set_threshold, self._set_tie = float(sets.thresholds.values[0]), rounding.probs

    def forward(self, found: TensorPrediction, ood: Tensor, total: Tensor, extreme: Tensor) -> GraphOutputs:
        """Return all that the graph gives; ``total`` (n, 1), the sum of a row's inputs, is NaN where one of them is.

        Such a row is the furthest out of all, and OOD whatever ``fpr`` is, as are rows that are ``extreme`` (n, 1).
        Runtimes differ in what they clip NaN to in between.
        """
        ood = ood.masked_fill(total.isnan(), math.inf)
        unlike = torch.tensor(ACTIONS.index("ood"))
        # 0 is answer and 1 abstain: a comparison is the decision.
        decision = (found.uncertainty > self.threshold).long()
        flagged = ((ood > self.unflagged) | extreme).squeeze(1)
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
        self, method: RowGraph, scaler: Scaler, range_check: RangeCheck, combination: Combined, decider: Decider
    ) -> None:
        super().__init__()
        self.method = method
        self.range_check = RangeScores(range_check)
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
        furthest, distance = self.range_check(rows)
        scores = torch.cat([found.ood_score.unsqueeze(1), furthest, distance], dim=1)
        total = inputs.sum(dim=1, keepdim=True)
        outputs: GraphOutputs = self.decider(
            found, self.combination(scores), total, furthest > self.combination.extreme_beyond
        )
        return outputs


class OutputsGraph(nn.Module):
    """A :class:`PostHocClassifier` from a network's logits (n, K), and penultimate vectors (n, w) where it has any."""

    def __init__(
        self, method: HasTensorFormula, range_check: RangeCheck | None, combination: Combined, decider: Decider
    ) -> None:
        super().__init__()
        self._formula = method.predict_tensors
        self.range_check = None if range_check is None else RangeScores(range_check)
        self.combination = combination
        self.decider = decider

    def forward(self, logits: Tensor, features: Tensor | None = None) -> GraphOutputs:
        """Return probabilities, uncertainty, OOD score and p-value, set and decision of each row."""
        wide = logits.double()
        vectors = wide[:, :0] if features is None else features.double()
        found = self._formula(TensorOutputs(wide, vectors))
        in_range = () if self.range_check is None else self.range_check(vectors)
        ood = self.combination(torch.cat([found.ood_score.unsqueeze(1), *in_range], dim=1))
        extreme = wide.abs().amax(dim=1, keepdim=True) > LARGEST_INPUT
        if in_range:
            extreme = extreme | (in_range[0] > self.combination.extreme_beyond)
        total = wide.sum(dim=1, keepdim=True) + vectors.sum(dim=1, keepdim=True)
        outputs: GraphOutputs = self.decider(found, ood, total, extreme)
        return outputs


MOST_DIFFERENT = 0.02
"""Rows at a threshold may fall to either side of it by rounding; more than this share are more than those."""


@dataclass(frozen=True, eq=False)
class Rules:
    """What is fixed when a classifier is exported: the OOD test at ``fpr``, sets at ``alpha``, the policy."""

    test: OodTest
    sets: SetPredictor
    policy: Policy
    alpha: float
    fpr: float


def fix_rules(classifier: DecidingMixin, alpha: float, fpr: float) -> Rules:
    """Return what ``decide(X, fpr=fpr, alpha=alpha)`` goes by now, warning as it does."""
    calibration = classifier.calibration_
    test = calibration.ood_test()
    exact_level(fpr, "fpr")
    warn_if(test.note(fpr))
    sets = calibration.sets(alpha, classifier.set_score_, "none", True)
    warn_if(classifier.policy_.note)
    return Rules(test, sets, classifier.policy_, float(alpha), float(fpr))


def feature_graph(classifier: VoltaClassifier, rules: Rules) -> FeatureGraph:
    """Return a classifier of feature rows as a module; see :class:`~volta.estimators.onnx.GraphOutputs`.

    A method whose graph, which computes in float32, would decide otherwise than Python is refused.
    """
    method, ood = classifier.method_, classifier.ood_score_
    graph, probes = row_graph(method), probe_rows(ood.range_check)
    combined = Combined(ood.combination, measured_rounding(method, graph, probes))
    decider = Decider(rules, combined)
    module = FeatureGraph(graph, ood.scaler, ood.range_check, combined, decider)
    _check_agreement(classifier, module, ood.scaler.inverse(probes), rules)
    return module


def _check_agreement(classifier: VoltaClassifier, module: FeatureGraph, rows: Floats, rules: Rules) -> None:
    with warnings.catch_warnings():
        # Rows without the names of their columns, and what was warned of before.
        warnings.simplefilter("ignore")
        decided = classifier.decide(rows, fpr=rules.fpr, alpha=rules.alpha).action
    with torch.no_grad():
        found = module.eval()(torch.from_numpy(rows)).decision.numpy()
    differ = float((found != decided).mean())
    if differ > MOST_DIFFERENT:
        raise InputError(
            f"a graph of {classifier.method_.title}, whose network computes in float32, would decide {differ:.0%} of "
            "rows like the training rows otherwise than Python does; export another method"
        )


def export_classifier(classifier: VoltaClassifier, rules: Rules, path: Path) -> None:
    """Write a classifier of feature rows."""
    # In float64: a column's values may need more digits than float32 has, as dates in seconds do.
    rows = torch.zeros((2, classifier.n_features_in_), dtype=torch.float64)
    notes = notes_of(classifier, classifier.method_, rules)
    write_onnx(feature_graph(classifier, rules), {"inputs": rows}, GraphOutputs._fields, path, notes)


def export_images(classifier: VoltaClassifier, backbone: Backbone, rules: Rules, path: Path) -> None:
    """Write a classifier of a backbone's features with the backbone before it, from uint8 pixels of any size."""
    from volta.features.backbones.backbone import AnySizePipeline, OnnxBackbone
    from volta.features.engines import split_batched_products

    if isinstance(backbone, OnnxBackbone):
        raise InputError(
            f"backbone {backbone.name} is an ONNX graph already and cannot be put into another; "
            "export the classifier of its features, classifier_.to_onnx, and run one after the other"
        )
    network = copy.deepcopy(backbone.network if backbone.fast is None else backbone.fast()).cpu()
    module = nn.Sequential(AnySizePipeline(network, backbone.preprocessing), feature_graph(classifier, rules))
    notes = notes_of(classifier, classifier.method_, rules)
    notes |= {"backbone": canonical_json(backbone.name), "backbone_weights": canonical_json(backbone.weights)}
    pixels = torch.zeros((2, 3, 32, 40), dtype=torch.uint8)
    write_onnx(
        module,
        {"pixels": pixels},
        GraphOutputs._fields,
        path,
        notes,
        free={"pixels": ("", "height", "width")},
        rewrite=split_batched_products,
    )


def export_post_hoc(classifier: DecidingMixin, method: Method, ood: FeatureOodScore, rules: Rules, path: Path) -> None:
    """Write a classifier of a network's outputs; ``features`` is an input where the fit had them."""
    if not isinstance(method, HasTensorFormula):
        raise no_graph(method)
    examples = {"logits": torch.zeros((2, len(classifier.classes_)))}
    if ood.range_check is not None:
        examples["features"] = torch.zeros((2, len(ood.range_check.low)))
    combined = Combined(ood.combination, Rounding())
    decider = Decider(rules, combined)
    module = OutputsGraph(method, ood.range_check, combined, decider)
    write_onnx(module, examples, GraphOutputs._fields, path, notes_of(classifier, method, rules))


def notes_of(classifier: DecidingMixin, method: Method, rules: Rules) -> dict[str, str]:
    """Return the metadata of a classifier's graph, JSON values by name.

    ``abstain_above`` is a number, null where the policy always answers, and ``"always"`` where it never does;
    ``set_threshold`` is null where every set holds every class.
    """
    policy = rules.policy
    never = not policy.exists or policy.threshold == -math.inf
    names = getattr(classifier, "feature_names_in_", None)
    values: dict[str, Any] = {
        "volta_version": __version__,
        "method": method.title,
        "classes": plain_classes(classifier.classes_),
        "decisions": list(ACTIONS),
        "abstain_above": "always" if never else _finite(policy.threshold),
        "fpr": rules.fpr,
        "alpha": rules.alpha,
        "set_score": rules.sets.score.name,
        "set_threshold": _finite(float(rules.sets.thresholds.values[0])),
        "n_calibration": len(rules.test.scores[0]),
        "feature_names": None if names is None else [str(name) for name in names],
    }
    return {name: canonical_json(value) for name, value in values.items()}


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
