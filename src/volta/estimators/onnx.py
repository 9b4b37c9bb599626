"""Fitted classifiers as ONNX graphs that decide by themselves.

A network computes in float32 in a graph and in float64 in Python. Decisions compare scores with those of calibration
rows, and a row that is equal to one of them must tie with it in the graph too: data of few distinct rows would
otherwise be decided at random. So a score counts as larger than another only where it is larger by more than rounding.
"""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from volta._version import __version__
from volta.core.errors import InputError
from volta.core.files import canonical_json
from volta.core.quantile import conformal_quantile
from volta.core.scaling import LARGEST_INPUT
from volta.core.seeding import rng
from volta.data.column_encoding import TableSchema
from volta.data.frames import RawTable
from volta.decisions import Policy, ScoreJoin, TableEvidence
from volta.decisions.conformal import Floats, ScoreName, exact_level
from volta.decisions.cross_conformal import CrossTest
from volta.decisions.decide import ACTIONS
from volta.decisions.ood_evidence import KNEE, N_NEIGHBOURS, SAME_IN_TAIL, SAME_VALUE, SPARE_NEIGHBOURS
from volta.decisions.ood_evidence import LARGEST as LARGEST_DEVIATION
from volta.estimators.deciding import DecidingMixin, warn_if
from volta.estimators.onnx_tables import feeds, with_encoding
from volta.estimators.saving import plain_classes
from volta.methods.base import Method
from volta.methods.graphs import HasTensorFormula, TensorOutputs, TensorPrediction, mass_of_likelier
from volta.methods.saving import RowGraph, no_graph, row_graph, write_onnx

if TYPE_CHECKING:
    from volta.estimators.classifier import RowMember, VoltaClassifier
    from volta.estimators.post_hoc import OutputsMember
    from volta.estimators.row_classifier import RowClassifier
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

    ``absolute``: the difference of both that does not depend on their size, of graphs with float32 in between.
    The defaults are for graphs that compute in float64 from the same numbers.
    """

    scores: float = 1e-9
    probs: float = 1e-9
    absolute: float = 0.0


def probe_rows(member: RowMember) -> Floats:
    """Return random rows, scaled, with about the training rows' centres and covariances."""
    evidence = member.evidence
    noise = rng(0, "export").normal(size=(N_PROBES, len(evidence.centre)))
    rows = evidence.centre + evidence.scale * np.linalg.solve(evidence.whitening.T, noise.T).T
    return member.scaler.apply(rows, np.float64)


def measured_rounding(
    method: Method, graph: RowGraph, probes: Floats, dtype: type[np.floating[Any]] = np.float32
) -> Rounding:
    """Compare graph, which computes in ``dtype``, and Python on rows like the training rows; leave room to spare."""
    rows = probes.astype(np.float32)
    exact = method.predict(rows.astype(np.float64))
    with torch.no_grad():
        found = graph.eval()(torch.tensor(rows.astype(dtype)))
    scores = [(found.uncertainty, exact.uncertainty), (found.ood_score, exact.ood_score)]
    return Rounding(
        _with_room(max(_relative(values.numpy(), own) for values, own in scores), Rounding().scores),
        _with_room(_relative(found.probs.numpy(), np.maximum(exact.probs, SMALLEST_PROB)), Rounding().probs),
    )


def tied_up_to(values: Floats, relative: Floats | float, absolute: Floats | float = 0.0) -> Floats:
    """Return what a score must exceed to be larger than ``values`` and not equal to them but for rounding."""
    return values + np.abs(values) * relative + ABSOLUTE_TIE + absolute


def _relative(found: Floats, exact: Floats) -> float:
    beyond = np.maximum(np.abs(found - exact) - ABSOLUTE_TIE, 0.0)
    return float((beyond / np.maximum(np.abs(exact), np.finfo(np.float64).tiny)).max())


def _with_room(difference: float, least: float) -> float:
    return max(least, min(ROOM * difference, LARGEST_TIE))


SEARCH_WIDTH = 128

HALF_ULP_OF_ONE = 2.0**-53
"""So far 1 − p may be from what it stands for, by which Python decides on sets."""


HALF_STEP = 2.0**-33
"""Relative to this Python rounds probabilities (`without_last_bits`), and a graph does not."""


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


class EvidenceScores(nn.Module):
    """The evidence's scores (n, 4) of exactly scaled rows (n, d) in float64; see `fit_evidence`."""

    def __init__(self, evidence: TableEvidence) -> None:
        super().__init__()
        n_columns, n_places = evidence.surprise.shape
        self.levels, self.surprise = _constant(evidence.levels), _constant(evidence.surprise.reshape(-1, 1))
        self.starts = _constant(np.arange(n_columns) * n_places)
        self.low, self.high = _constant(evidence.levels[:, 0]), _constant(evidence.high)
        self.low_unit, self.high_unit = _constant(evidence.low_unit), _constant(evidence.high_unit)
        self.same = _constant(SAME_IN_TAIL * np.minimum(evidence.low_unit, evidence.high_unit))
        self.centre, self.scale = _constant(evidence.centre), _constant(evidence.scale)
        self.whitening = _constant(evidence.whitening)
        self.classes, self.neighbours = Nearest(evidence.class_centres, 1), Nearest(evidence.reference, N_NEIGHBOURS)
        self.unit = _constant(np.array([evidence.unit]))  # a plain number would be written in single precision

    def forward(self, rows: Tensor) -> Tensor:
        """Return the scores of ``volta.decisions.ood_evidence.SCORE_NAMES``."""
        near = torch.minimum(SAME_VALUE * rows.abs(), self.same)
        low, high = (rows - near).unsqueeze(2), (rows + near).unsqueeze(2)
        place = (_count(self.levels < low) + _count(self.levels <= high)).long()
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
    """One OOD score (n, 1) of (n, m) scores, the method's last; see `fit_join`."""

    def __init__(self, join: ScoreJoin, rounding: Rounding) -> None:
        super().__init__()
        ordered = np.stack(join.reference)
        relative = np.array([*([Rounding().scores] * (len(ordered) - 1)), rounding.scores])[:, None]
        absolute = np.array([*([0.0] * (len(ordered) - 1)), rounding.absolute])[:, None]
        self.rank = Rank(tied_up_to(ordered, relative, absolute))
        self.largest = _constant(ordered[:, -1])
        self.excess = _constant(np.where(join.bounded, 0.0, join.weights))
        self.weights = _constant(join.weights)  # a plain number would be written in single precision
        self._n, self._tie = ordered.shape[1], rounding if len(ordered) == 1 else Rounding()

    def forward(self, scores: Tensor) -> Tensor:
        """Return the joined scores; ranks are added in Python's order, so that equal ones give equal bits."""
        if len(self.weights) == 1:
            return scores
        counts = self._n - self.rank(scores.unsqueeze(2))
        beyond = (scores - self.largest) * (counts == 0.0)
        total = torch.zeros_like(scores[:, 0])
        for j in range(len(self.weights)):
            total = total + self.weights[j] / (1.0 + counts[:, j])
            total = total + self.excess[j] * beyond[:, j]
        return total.unsqueeze(1)

    def tied(self, joined: Floats) -> Floats:
        """Return what a joined score must exceed to be larger than ``joined`` and not equal but for rounding."""
        return tied_up_to(joined, self._tie.scores, self._tie.absolute)


class Decider(nn.Module):
    """From each fit's prediction and joined OOD scores (n, 1) to p-values, sets and decisions.

    A p-value is (1 + m) / (1 + n), m how many calibration scores are at least as large, each compared with the score of
    the fit that did not see its row.
    """

    def __init__(self, rules: Rules, joined: Sequence[Joined], rounding: Sequence[Rounding]) -> None:
        super().__init__()
        policy, self._set_score = rules.policy, rules.set_score
        folds = [each.tied(scores) for each, (scores,) in zip(joined, rules.ood.scores, strict=True)]
        self.ranks = nn.ModuleList(Rank(scores[None]) for scores in folds)
        self._n = sum(map(len, folds))
        # So many calibration scores may be at least as large as a flagged row's, or as a class's that is in no set.
        self._most_flagged = math.floor(exact_level(rules.fpr, "fpr") * (self._n + 1)) - 1
        self._most_left_out = math.floor(exact_level(rules.alpha, "alpha") * (self._n + 1)) - 1
        worst, furthest = max(each.scores for each in rounding), max(each.absolute for each in rounding)
        threshold = np.array([policy.threshold if policy.exists else -math.inf])
        self.threshold = _constant(threshold if math.isinf(threshold[0]) else tied_up_to(threshold, worst, furthest))
        self.set_ranks = nn.ModuleList(
            Rank(self._set_values(scores, each)[None])
            for (scores,), each in zip(rules.sets.scores, rounding, strict=True)
        )

    def _set_values(self, scores: Floats, rounding: Rounding) -> Floats:
        """Return what a class's probability, or minus the mass above it, must exceed to fit as a calibration row."""
        if self._set_score == "aps":
            return np.sort(np.nextafter(-scores - rounding.probs - rounding.absolute, -math.inf))
        probs = 1.0 - scores
        # What moves a logit by δ moves a probability p by p (1 − p) δ.
        apart = np.minimum(probs, scores) * rounding.probs + HALF_ULP_OF_ONE + rounding.absolute
        apart = np.maximum(apart, probs * HALF_STEP)
        return np.sort(np.nextafter(probs - apart, -math.inf))

    def forward(self, found: list[TensorPrediction], ood: list[Tensor], lost: Tensor) -> GraphOutputs:
        """Return all that the graph gives; rows that are ``lost`` (n, 1) are the furthest out of all, and always OOD.

        Runtimes differ in what they clip NaN to in between.
        """
        ood = [scores.masked_fill(lost, math.inf) for scores in ood]
        n_larger = self._n - _sum([rank(scores) for rank, scores in zip(self.ranks, ood, strict=True)])
        unlike = torch.tensor(ACTIONS.index("ood"))
        probs, uncertainty = _mean([each.probs for each in found]), _mean([each.uncertainty for each in found])
        # 0 is answer and 1 abstain: a comparison is the decision.
        decision = (uncertainty > self.threshold).long()
        flagged = (n_larger <= self._most_flagged) | lost.squeeze(1)
        return GraphOutputs(
            probs,
            probs.argmax(dim=1),
            uncertainty,
            _mean(ood).squeeze(1),
            (1.0 + n_larger) / (1.0 + self._n),
            _sum([rank(self._fit(each.probs)) for rank, each in zip(self.set_ranks, found, strict=True)])
            > self._most_left_out,
            torch.where(flagged, unlike, decision),
        )

    def _fit(self, probs: Tensor) -> Tensor:
        """Return (n, K, 1), how well each class fits: its probability, or minus the mass of likelier classes."""
        if self._set_score == "aps":
            return -mass_of_likelier(probs).unsqueeze(2)
        return probs.unsqueeze(2)


def _sum(values: list[Tensor]) -> Tensor:
    return values[0] if len(values) == 1 else torch.stack(values).sum(dim=0)


def _mean(values: list[Tensor]) -> Tensor:
    return values[0] if len(values) == 1 else torch.stack(values).mean(dim=0)


class DoubleGelu(nn.Module):
    """x Φ(x) in double precision but for Φ, which ONNX Runtime has in single precision alone."""

    def forward(self, inputs: Tensor) -> Tensor:
        """Return the activations."""
        erf = torch.erf((inputs * 0.5**0.5).float()).double()
        return 0.5 * inputs * (1.0 + erf)


def in_double(graph: RowGraph) -> RowGraph:
    """Return the graph with its networks in float64: a rare category is far out, and float32 would round too much."""
    for module in list(graph.modules()):
        for name, child in module.named_children():
            if isinstance(child, nn.GELU):
                setattr(module, name, DoubleGelu())
    return graph.double()


class MemberGraph(nn.Module):
    """One fit of a :class:`VoltaClassifier` from float64 rows (n, d) in the user's units."""

    def __init__(self, method: RowGraph, member: RowMember, joined: Joined, *, precise: bool = False) -> None:
        super().__init__()
        self._precise = precise
        scaler = member.scaler
        self.method, self.evidence, self.joined = method, EvidenceScores(member.evidence), joined
        self.limit = _constant(np.array([scaler.limit]))
        self.centre = None if scaler.centre is None else _constant(scaler.centre)
        self.scale = None if scaler.scale is None else _constant(scaler.scale)

    def forward(self, rows: Tensor) -> tuple[TensorPrediction, Tensor]:
        """Return the prediction and OOD scores (n, 1)."""
        scaled = rows
        if self.centre is not None and self.scale is not None:
            # In float64: columns may lie far from 0 for their spread.
            scaled = (rows - self.centre) / self.scale
        # No clamp: the exporter names its bounds after the input, and the bounds of several fits would have one name.
        scaled = torch.where(scaled > self.limit, self.limit, torch.where(scaled < -self.limit, -self.limit, scaled))
        found = self.method(scaled if self._precise else scaled.float())
        return found, self.joined(torch.cat([self.evidence(rows), found.ood_score.unsqueeze(1)], dim=1))


class FeatureGraph(nn.Module):
    """A :class:`VoltaClassifier` from rows (n, d) in the user's units."""

    def __init__(self, members: list[MemberGraph], decider: Decider) -> None:
        super().__init__()
        self.members = nn.ModuleList(members)
        self.decider = decider

    def forward(self, inputs: Tensor) -> GraphOutputs:
        """Return probabilities, uncertainty, OOD score and p-value, set and decision of each row."""
        rows = inputs.double()
        found, ood = (list(each) for each in zip(*(member(rows) for member in self.members), strict=True))
        # The sum of a row's inputs is NaN where one of them is.
        outputs: GraphOutputs = self.decider(found, ood, rows.sum(dim=1, keepdim=True).isnan())
        return outputs


class OutputsGraph(nn.Module):
    """A :class:`PostHocClassifier` from a network's logits (n, K), and penultimate vectors (n, w) where it has any."""

    def __init__(
        self, method: HasTensorFormula, evidence: TableEvidence | None, joined: Joined, decider: Decider
    ) -> None:
        super().__init__()
        self._formula = method.predict_tensors
        self.evidence = None if evidence is None else EvidenceScores(evidence)
        self.joined = joined
        self.decider = decider

    def forward(self, logits: Tensor, features: Tensor | None = None) -> GraphOutputs:
        """Return probabilities, uncertainty, OOD score and p-value, set and decision of each row."""
        wide = logits.double()
        vectors = wide[:, :0] if features is None else features.double()
        found = self._formula(TensorOutputs(wide, vectors))
        scores = found.ood_score.unsqueeze(1)
        if self.evidence is not None:
            scores = torch.cat([self.evidence(vectors), scores], dim=1)
        lost = (wide.sum(dim=1, keepdim=True) + vectors.sum(dim=1, keepdim=True)).isnan()
        far = wide.abs().amax(dim=1, keepdim=True) > LARGEST_INPUT
        outputs: GraphOutputs = self.decider([found], [self.joined(scores)], lost | far)
        return outputs


MOST_DIFFERENT = 0.02
"""Rows at a threshold may fall to either side of it by rounding; more than this share are more than those."""


@dataclass(frozen=True, eq=False)
class Rules:
    """What is fixed when a classifier is exported: the OOD test at ``fpr``, sets at ``alpha``, the policy."""

    ood: CrossTest
    sets: CrossTest
    set_score: ScoreName
    policy: Policy
    alpha: float
    fpr: float


def fix_rules(classifier: DecidingMixin, alpha: float, fpr: float) -> Rules:
    """Return what ``decide(X, fpr=fpr, alpha=alpha)`` goes by now, warning as it does."""
    calibration, score = classifier.calibration_, classifier.set_score_
    ood, sets = calibration.ood_test(), calibration.set_test(score)
    exact_level(fpr, "fpr")
    exact_level(alpha, "alpha")
    warn_if(ood.note(fpr))
    warn_if(sets.note(alpha, level="alpha"))
    warn_if(classifier.policy_.note)
    return Rules(ood, sets, score, classifier.policy_, float(alpha), float(fpr))


def feature_graph(classifier: VoltaClassifier, rules: Rules) -> FeatureGraph:
    """Return a classifier of feature rows as a module; see :class:`~volta.estimators.onnx.GraphOutputs`.

    A method whose graph, which computes in float32, would decide otherwise than Python is refused.
    """
    members, roundings, probes = [], [], []
    precise = classifier.schema_ is not None
    for member in classifier.members_:
        graph, rows = row_graph(member.method), probe_rows(member)
        if precise:
            in_double(graph)
        rounding = measured_rounding(member.method, graph, rows, np.float64 if precise else np.float32)
        joined = Joined(classifier.calibration_.join, rounding)
        members.append(MemberGraph(graph, member, joined, precise=precise))
        roundings.append(rounding)
        probes.append(member.scaler.inverse(rows))
    module = FeatureGraph(members, Decider(rules, [each.joined for each in members], roundings))
    _check_agreement(classifier, module, np.concatenate(probes), rules)
    return module


def _check_agreement(classifier: VoltaClassifier, module: FeatureGraph, rows: Floats, rules: Rules) -> None:
    with warnings.catch_warnings():
        # Rows without the names of their columns, and what was warned of before.
        warnings.simplefilter("ignore")
        decided = classifier.decide_scored(classifier._score(rows), rules.fpr, alpha=rules.alpha).action
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
    schema, notes = classifier.schema_, notes_of(classifier, classifier.method_, rules)
    rows = torch.zeros(
        (2, classifier.n_features_in_ if schema is None else len(schema.encoded_names)), dtype=torch.float64
    )
    graph = feature_graph(classifier, rules)
    rewrite = None if schema is None else partial(_with_checked_encoding, classifier, rules)
    write_onnx(graph, {"inputs": rows}, GraphOutputs._fields, path, notes, rewrite=rewrite)


LARGEST_DIFFERENCE = 1e-5
"""So far probabilities of a table's rows may lie apart in a graph and in Python."""


def _with_checked_encoding(classifier: VoltaClassifier, rules: Rules, model: Any) -> Any:
    """Return the model with the table's encoding in front of it, run beside Python on rows like the training rows."""
    schema = cast(TableSchema, classifier.schema_)
    model = with_encoding(model, schema)
    check_table_graph(classifier, rules, model, table_probes(schema, classifier.members_[0].evidence))
    return model


def table_probes(schema: TableSchema, evidence: TableEvidence) -> RawTable:
    """Return rows like the training rows, as a table, and of each column a cell that none of those has."""
    squeezed = np.linalg.solve(evidence.whitening.T, evidence.reference.T).T
    size = np.abs(squeezed)
    deviation = np.copysign(np.where(size <= KNEE, size, KNEE + KNEE * np.expm1((size - KNEE) / KNEE)), squeezed)
    rows = schema.encode_table(schema.decode(evidence.centre + evidence.scale * deviation))
    odd = rows[np.arange(len(schema.flags)) % len(rows)]
    odd[np.arange(len(schema.flags)), schema.flags] = 1.0
    return schema.decode(np.concatenate([rows, odd]))


def check_table_graph(classifier: RowClassifier, rules: Rules, model: Any, table: RawTable) -> None:
    """Refuse a graph that decides a table's rows otherwise than Python does, or gives other probabilities."""
    from volta.features.backbones.backbone import onnx_session
    from volta.features.engines import need_onnxruntime

    need_onnxruntime("comparing a graph with Python")
    session = onnx_session(model.SerializeToString(), 1)
    names = [each.name for each in session.get_inputs()]
    found = dict(zip(GraphOutputs._fields, session.run(None, feeds(table, names)), strict=True))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what was warned of before
        decided = classifier.decide_at(table, rules.fpr, alpha=rules.alpha)
        probs = classifier.predict_full(table).probs
    apart = float(np.abs(found["probs"] - probs).max())
    differ = int((found["decision"] != decided.action).sum())
    if apart > LARGEST_DIFFERENCE or differ:
        raise InputError(
            f"a graph of this model would give probabilities up to {apart:.3g} apart from Python's and decide {differ} "
            f"of {len(table)} rows like the training rows otherwise; export another method"
        )


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


def export_post_hoc(classifier: DecidingMixin, member: OutputsMember, rules: Rules, path: Path) -> None:
    """Write a classifier of a network's outputs; ``features`` is an input where the fit had them."""
    method, evidence = member.method, member.evidence
    if not isinstance(method, HasTensorFormula):
        raise no_graph(method)
    examples = {"logits": torch.zeros((2, len(classifier.classes_)))}
    if evidence is not None:
        examples["features"] = torch.zeros((2, len(evidence.high)))
    joined = Joined(classifier.calibration_.join, Rounding())
    module = OutputsGraph(method, evidence, joined, Decider(rules, [joined], [Rounding()]))
    write_onnx(module, examples, GraphOutputs._fields, path, notes_of(classifier, method, rules))


def notes_of(classifier: DecidingMixin, method: Method, rules: Rules) -> dict[str, str]:
    """Return the metadata of a classifier's graph, JSON values by name.

    ``abstain_above`` is a number, null where the policy always answers, and ``"always"`` where it never does;
    ``set_threshold`` is null where every set holds every class, and with cross-fitting, which has no single one.
    """
    policy, sets = rules.policy, rules.sets
    threshold = conformal_quantile(sets.scores[0][0], rules.alpha) if len(sets.scores) == 1 else math.inf
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
        "set_score": rules.set_score,
        "set_threshold": _finite(threshold),
        "n_calibration": int(sets.counts[0]),
        "n_folds": len(sets.scores),
        "feature_names": None if names is None else [str(name) for name in names],
    }
    return {name: canonical_json(value) for name, value in values.items()}


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
