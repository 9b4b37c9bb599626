"""Fitted classifiers as ONNX files that decide by themselves: only ONNX Runtime is needed to run them."""

from __future__ import annotations

import copy
import math
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from volta._version import __version__
from volta.core.errors import InputError
from volta.core.files import canonical_json
from volta.decisions import OodTest, Policy, SetPredictor
from volta.decisions.decide import ACTIONS
from volta.decisions.ranks import exact_level
from volta.decisions.set_scores import Floats
from volta.estimators.calibration import FeatureOodScore, warn_if
from volta.estimators.deciding import DecidingMixin
from volta.estimators.saving import plain_classes
from volta.methods.base import Method

if TYPE_CHECKING:
    from volta.estimators.classifier import VoltaClassifier
    from volta.estimators.onnx_graph import FeatureGraph
    from volta.features import Backbone


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
    """Return a classifier of feature rows as a module; see :class:`~volta.estimators.onnx_graph.GraphOutputs`.

    A method whose graph, which computes in float32, would decide otherwise than Python is refused.
    """
    from volta.estimators.graph_rounding import measured_rounding, probe_rows
    from volta.estimators.onnx_graph import Combined, Decider, FeatureGraph
    from volta.methods.exporting import row_graph

    method, ood = classifier.method_, classifier.ood_score_
    graph, probes = row_graph(method), probe_rows(ood.guard)
    combined = Combined(ood.combination, measured_rounding(method, graph, probes))
    decider = Decider(rules.test, rules.sets, rules.policy, rules.fpr, combined)
    module = FeatureGraph(graph, ood.scaler, ood.guard, combined, decider)
    _check_agreement(classifier, module, ood.scaler.inverse(probes), rules)
    return module


def _check_agreement(classifier: VoltaClassifier, module: FeatureGraph, rows: Floats, rules: Rules) -> None:
    import torch

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
    import torch

    from volta.estimators.onnx_graph import GraphOutputs
    from volta.methods.exporting import write_onnx

    # In float64: a column's values may need more digits than float32 has, as dates in seconds do.
    rows = torch.zeros((2, classifier.n_features_in_), dtype=torch.float64)
    notes = notes_of(classifier, classifier.method_, rules)
    write_onnx(feature_graph(classifier, rules), {"inputs": rows}, GraphOutputs._fields, path, notes)


def export_images(classifier: VoltaClassifier, backbone: Backbone, rules: Rules, path: Path) -> None:
    """Write a classifier of a backbone's features with the backbone before it, from uint8 pixels of any size."""
    import torch

    from volta.estimators.onnx_graph import GraphOutputs, ImageGraph
    from volta.features import OnnxBackbone
    from volta.features.graphs import split_batched_products
    from volta.features.preprocessing import AnySizePipeline
    from volta.methods.exporting import write_onnx

    if isinstance(backbone, OnnxBackbone):
        raise InputError(
            f"backbone {backbone.name} is an ONNX graph already and cannot be put into another; "
            "export the classifier of its features, classifier_.to_onnx, and run one after the other"
        )
    network = copy.deepcopy(backbone.network if backbone.fast is None else backbone.fast()).cpu()
    module = ImageGraph(
        AnySizePipeline(network, backbone.preprocessing),
        feature_graph(classifier, rules),
    )
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
    import torch

    from volta.estimators.graph_rounding import Rounding
    from volta.estimators.onnx_graph import Combined, Decider, GraphOutputs, OutputsGraph
    from volta.methods.exporting import no_graph, write_onnx
    from volta.methods.graphs import HasTensorFormula

    if not isinstance(method, HasTensorFormula):
        raise no_graph(method)
    examples = {"logits": torch.zeros((2, len(classifier.classes_)))}
    if ood.guard is not None:
        examples["features"] = torch.zeros((2, len(ood.guard.low)))
    combined = Combined(ood.combination, Rounding())
    decider = Decider(rules.test, rules.sets, rules.policy, rules.fpr, combined)
    module = OutputsGraph(method, ood.guard, combined, decider)
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
