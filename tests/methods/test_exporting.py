"""Every method that is deterministic at test time gives, as an ONNX graph, what it gives in Python.

Over two seconds: the exporter of PyTorch is slow, so all methods share one graph.
"""

import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch

from tests.conftest import blobs
from volta.core.errors import InputError
from volta.core.types import FitData
from volta.decisions import aps_scores
from volta.methods import METHODS, find_method
from volta.methods.base import PostHoc
from volta.methods.graphs import MethodGraph, TensorPrediction, adaptive_set, one_minus_max_softmax
from volta.methods.saving import RowGraph, row_graph, write_onnx
from volta.methods.temperature import CalibrationWarning
from volta.networks.recipe import Budget
from volta.networks.trainer import Trainer

onnxruntime = pytest.importorskip("onnxruntime", reason="needs the onnx extra: pip install 'volta-uq[onnx]'")
pytest.importorskip("onnxscript", reason="needs the onnx extra: pip install 'volta-uq[onnx]'")

# One draws random numbers at test time; the others have no formula on tensors yet.
WITHOUT_GRAPH = {
    "mc_dropout",
    "gen",
    "maxlogit_pnorm",
    "fdbd",
    "nci",
    "neco",
    "nnguide",
    "react",
    "scale",
    "weiper",
    "sirc",
    "isotonic",
    "venn_abers",
}
# Fewer networks and passes than by default, for the export's sake; their formula does not depend on how many.
SMALLER = {
    **{"swag": {"n_samples": 2}, "ensemble": {"n_members": 2}, "enn": {"n_indices": 2}},
    **{"boosted_trees": {"n_trees": 2, "max_leaves": 4}, "random_forest": {"n_trees": 2, "max_leaves": 4}},
    "extra_trees": {"n_trees": 2, "max_leaves": 4},
}
# The formula of auto joins those of others; tests/methods/test_auto.py runs it.
PRESETS = [name for name in METHODS if name not in {*WITHOUT_GRAPH, "auto"}] + ["volta-full-no-mc"]
# Squared Mahalanobis distances and what they are made into multiply the float32 rounding of the features by up to
# a thousand; the distance to a neighbour is the root of a difference of float32 cosines.
INVERSE = {"hyperbolic"}
"""Its OOD score is one over the margin of two logits: where they tie, only the margin can agree to their rounding."""
LOOSER = {
    **{"gmm": 1e-3, "mahalanobis": 1e-3, "rmds": 1e-2, "vim": 1e-3, "knn": 1e-4, "residual": 1e-3},
    **{"mds_plus": 1e-3, "rmds_plus": 1e-2, "radial_mahalanobis": 1e-3, "global_mahalanobis": 1e-3, "delta_mds": 1e-2},
}


class Every(torch.nn.Module):
    """All methods in one graph, the post-hoc ones on one network: most of an export's time is per export and network."""

    def __init__(self, methods):
        super().__init__()
        shared = [method for method in methods if isinstance(method, PostHoc)]
        formulas = [method.predict_tensors for method in shared]
        both = MethodGraph([shared[0].network_], lambda _, outputs: [formula(outputs[0]) for formula in formulas])
        self.shared = RowGraph(both)
        self.others = torch.nn.ModuleList(row_graph(method) for method in methods if not isinstance(method, PostHoc))

    def forward(self, inputs):
        found = [*self.shared(inputs), *(graph(inputs) for graph in self.others)]
        return tuple(value for prediction in found for value in prediction)


@pytest.fixture(scope="module")
def fitted():
    data, test = blobs(n_rows=200, spread=2.5)
    data = FitData(data.train, data.val, data.cal, data.n_classes, encoder="vision")
    trainer = Trainer(seed=1, budget=Budget(max_epochs=10))
    presets = {name: replace(find_method(name).method, **SMALLER.get(name, {})) for name in PRESETS}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrationWarning)
        return {name: method.fit(data, trainer) for name, method in presets.items()}, test.inputs


@pytest.fixture(scope="module")
def session(fitted, tmp_path_factory):
    methods, _ = fitted
    path = tmp_path_factory.mktemp("graphs") / "every.onnx"
    ordered = sorted(methods, key=lambda name: not isinstance(methods[name], PostHoc))
    names = [f"{name}/{field}" for name in ordered for field in TensorPrediction._fields]
    module = Every([methods[name] for name in ordered])
    write_onnx(module, {"inputs": torch.zeros((2, 8))}, names, path, {})
    return onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])


@pytest.mark.parametrize("name", PRESETS)
def test_the_graph_gives_what_the_method_gives(fitted, session, name):
    methods, inputs = fitted
    far = np.concatenate([inputs[:5] * 1e3, np.full((1, 8), 1e6, dtype=np.float32)])
    for rows in (inputs, inputs[:1], far):
        expected = methods[name].predict(rows)
        probs, *scores = session.run([f"{name}/{field}" for field in TensorPrediction._fields], {"inputs": rows})
        np.testing.assert_allclose(probs, expected.probs, atol=1e-5)
        scale = LOOSER.get(name, 1e-5)
        wanted_scores = [expected.uncertainty, expected.ood_score]
        if name in INVERSE:
            scores[1], wanted_scores[1] = 1.0 / scores[1], 1.0 / wanted_scores[1]
        for got, wanted in zip(scores, wanted_scores, strict=True):
            assert got.shape == wanted.shape
            np.testing.assert_allclose(got, wanted, rtol=scale, atol=scale * max(1.0, np.abs(wanted).max()))


def test_a_method_is_written_with_its_notes(fitted, tmp_path):
    methods, inputs = fitted
    examples = {"inputs": torch.from_numpy(inputs[:2])}
    graph = row_graph(methods["energy"])
    write_onnx(graph, examples, TensorPrediction._fields, tmp_path / "method.onnx", {"for": "a test"})
    session = onnxruntime.InferenceSession(str(tmp_path / "method.onnx"), providers=["CPUExecutionProvider"])
    assert session.get_modelmeta().custom_metadata_map == {"for": "a test"}
    assert [output.name for output in session.get_outputs()] == ["probs", "uncertainty", "ood_score"]
    np.testing.assert_allclose(
        session.run(None, {"inputs": inputs})[0], methods["energy"].predict(inputs).probs, atol=1e-6
    )


@pytest.mark.filterwarnings("ignore::volta.methods.temperature.CalibrationWarning")
def test_methods_that_sample_are_refused_with_what_to_do():
    data, _ = blobs(n_rows=80)
    trainer = Trainer(seed=1, budget=Budget(max_epochs=1))
    with pytest.raises(InputError, match=r"VOLTA samples 10 passes at test time.* fit it with n_passes=0"):
        row_graph(find_method("volta-full").method.fit(data, trainer))
    with pytest.raises(
        InputError, match=r"MC Dropout cannot be exported.*draws random numbers.*instead: volta, softmax"
    ):
        row_graph(find_method("mc_dropout").method.fit(data, trainer))


def test_adaptive_sets_of_tensors_are_those_of_arrays():
    random = np.random.default_rng(0)
    probs = np.concatenate([random.dirichlet(np.ones(5), size=50), np.full((1, 5), 0.2), [[0.4, 0.4, 0.1, 0.1, 0.0]]])
    for threshold in (0.0, 0.3, 0.8, np.inf):
        expected = aps_scores(probs) <= threshold
        assert (adaptive_set(torch.tensor(probs), threshold).numpy() == expected).all()


def test_the_share_of_other_classes_is_exact_where_it_is_small():
    logits = torch.tensor([[0.0, -100.0, -100.0], [1.0, 1.0, -900.0]], dtype=torch.float64)
    np.testing.assert_allclose(one_minus_max_softmax(logits).numpy(), [2.0 * np.exp(-100.0), 0.5], rtol=1e-12)
