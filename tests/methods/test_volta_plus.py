"""VOLTA+: its score by hand, gross outliers, huge inputs, few rows and folds."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import logsumexp, softmax

from tests.conftest import blobs
from volta import VoltaClassifier
from volta.core.errors import InputError
from volta.core.types import FitData, Split
from volta.methods.mahalanobis import fit_shrunk_distances
from volta.methods.volta_plus import VoltaPlus
from volta.metrics import auroc
from volta.networks.modules import prepared
from volta.networks.recipe import Budget
from volta.networks.trainer import Trainer

PARTS = ("train", "val", "cal")
pytestmark = pytest.mark.filterwarnings("ignore::volta.methods.temperature.CalibrationWarning")


@pytest.fixture(scope="module", params=[False, True], ids=["gaussians", "neighbours"])
def setting(request):
    data, test = blobs(spread=3.0)
    method = VoltaPlus(hidden=32, neighbours=request.param)
    return data, test, method.fit(data, Trainer(seed=5, budget=Budget(max_epochs=10)))


def cooled(method, rows):
    return sum(
        beta * network.outputs(rows).logits
        for beta, network in zip(method.betas_, [method.network_, *method.partners_], strict=True)
    )


def by_hand(method, data, rows):
    """Return the OOD scores of rows from the formula, with the means and deviations of validation rows."""
    of_train, of_val, of_rows = (
        method.network_.outputs(part).features[:, -data.input_shape[0] :].astype(np.float64)
        for part in (data.train.inputs, data.val.inputs, rows)
    )
    found = fit_shrunk_distances(of_train, data.train.labels, 0.05)
    rooted = np.array(method.network_.spec.body.rooted)
    neighbours = method.neighbours_ is not None
    weights = (1.0, 0.0, 0.25, 0.0, 1.0) if neighbours else (1.0, 0.5, 0.25, 0.5, 0.0)

    def unit_hidden(inputs):
        hidden = method.network_.outputs(inputs).features[:, : -data.input_shape[0]].astype(np.float64)
        return hidden / np.linalg.norm(hidden, axis=1, keepdims=True)

    def parts(even, inputs):
        nearest = found.classes.squared_distances(even).min(axis=1)
        relative = nearest - found.background.squared_distances(even)[:, 0]
        quiet = -even[:, rooted].mean(axis=1) if rooted.any() else np.zeros(len(even))
        apart = np.linalg.norm(unit_hidden(inputs)[:, None] - unit_hidden(data.train.inputs), axis=2)
        kth = np.sort(apart, axis=1)[:, 50 - 1]
        probs = softmax(cooled(method, inputs), axis=1)
        doubt = -(probs * np.log(probs)).sum(axis=1) if neighbours else -logsumexp(cooled(method, inputs), axis=1)
        return doubt, relative, nearest, quiet, kth

    score = np.zeros(len(rows))
    known = parts(of_val, data.val.inputs)
    for place, (weight, value, val) in enumerate(zip(weights, parts(of_rows, rows), known, strict=True)):
        standard = ((np.maximum(value, val.min()) if place == 0 and not neighbours else value) - val.mean()) / (
            val.std() or 1.0
        )
        score += weight * (np.maximum(standard, 0.0) if place == 3 else standard)
    return score


def test_its_score_by_hand(setting):
    data, test, method = setting
    prediction, logits = method.predict(test.inputs), cooled(method, test.inputs)
    assert np.allclose(prediction.probs, softmax(logits, axis=1))
    assert np.allclose(prediction.uncertainty, 1 - softmax(logits, axis=1).max(axis=1))
    assert np.allclose(prediction.ood_score, by_hand(method, data, test.inputs), atol=1e-4)


def test_rows_with_little_in_the_columns_that_start_at_zero_are_farther_out():
    data, test = blobs(n_rows=200, n_features=6)
    counts = {
        name: replace(part, inputs=np.exp(0.5 * part.inputs)) for name, part in vars(data).items() if name in PARTS
    }
    data, rows = replace(data, **counts), np.exp(0.5 * test.inputs)
    method = VoltaPlus(hidden=16, neighbours=False).fit(data, Trainer(seed=5, budget=Budget(max_epochs=3)))
    assert method.rooted_.any()
    assert np.allclose(method.predict(rows).ood_score, by_hand(method, data, rows), atol=1e-4)
    without = replace(method, quiet_weight=0.0)
    vars(without).update({name: value for name, value in vars(method).items() if name.endswith("_")})
    gained = method.predict(rows).ood_score - without.predict(rows).ood_score
    even = prepared(method.network_.spec.body, rows)
    low = (
        even[:, method.rooted_].mean(axis=1)
        < prepared(method.network_.spec.body, data.val.inputs)[:, method.rooted_].mean()
    )
    assert (gained[low] > 0.0).all()
    assert np.allclose(gained[~low], 0.0)


def test_the_temperature_minimises_the_cross_entropy_with_half_a_row_of_doubt(setting):
    data, _, method = setting
    logits, n_rows = cooled(method, data.val.inputs), len(data.val)
    targets = np.full_like(logits, 0.5 / (n_rows + 1) / 3)
    targets[np.arange(n_rows), data.val.labels] = 1 - 0.5 / (n_rows + 1)

    def loss(beta):
        return (logsumexp(beta * logits, axis=1) - beta * (targets * logits).sum(axis=1)).mean()

    assert loss(1.0) < min(loss(0.999), loss(1.001))


def test_voltas_network_joins_where_columns_are_few():
    few, _ = blobs(n_rows=200, n_features=128, spread=3.0)
    many, _ = blobs(n_rows=200, n_features=129, spread=3.0)
    budget = Budget(max_epochs=4)
    method = VoltaPlus(hidden=16).fit(few, Trainer(seed=1, budget=budget))
    assert [type(network.spec.head).__name__ for network in method.partners_] == ["Prototypes"]
    assert len(method.betas_) == 2
    assert min(method.betas_) >= 0.0
    assert VoltaPlus(hidden=16).fit(many, Trainer(seed=1, budget=budget)).partners_ == []


@pytest.mark.parametrize("neighbours", [False, True])
@pytest.mark.parametrize("n_features", [2, 8, 60])
def test_gross_outliers_are_flagged(n_features, neighbours):
    data, test = blobs(n_rows=300, n_features=n_features, spread=2.0)
    method = VoltaPlus(hidden=64, neighbours=neighbours).fit(data, Trainer(seed=1))
    known = method.predict(test.inputs).ood_score
    deviation = data.train.inputs.std(axis=0)
    one_column = test.inputs.copy()
    one_column[:, 0] += 1e6
    for outliers in (
        test.inputs + 10.0 * deviation,
        test.inputs - 10.0 * deviation,
        test.inputs * 1000.0,
        one_column,
        np.random.default_rng(0).uniform(-200.0, 200.0, test.inputs.shape),
    ):
        assert auroc(known, method.predict(outliers.astype(np.float32)).ood_score) > 0.99


def test_huge_rows_give_finite_scores_above_all_others(setting):
    _, test, method = setting
    huge = np.concatenate([np.full((1, 8), 1e30), np.full((1, 8), -3e38), np.eye(8)[:1] * 1e30]).astype(np.float32)
    found = method.predict(huge)
    for values in (found.probs, found.uncertainty, found.ood_score):
        assert np.isfinite(values).all()
    assert found.ood_score.min() > method.predict(test.inputs).ood_score.max()


def labelled(labels, rows):
    """Return fit data of rows (n, d): the first half trains, the rest is held out."""
    every = Split(rows.astype(np.float32), labels)
    half = np.arange(len(labels)) < len(labels) // 2
    train, val = every.take(np.flatnonzero(half)), every.take(np.flatnonzero(~half))
    return FitData(train, val, val.take(np.arange(20)), int(labels.max()) + 1)


def both_ends(random, n_rows=1200):
    """Classes of two clusters, at both ends of an axis of their own: all means lie in the middle."""
    labels = np.arange(n_rows) % 5
    ends = random.choice([-4.0, 4.0], n_rows)
    return labelled(labels, random.normal(size=(n_rows, 10)) + ends[:, None] * np.eye(10)[labels])


def along_small_directions(random, n_rows=1200):
    """Classes whose means differ where rows hardly vary; what they share varies a hundred times as much."""
    labels = np.arange(n_rows) % 5
    shared = 10.0 * random.normal(size=(n_rows, 3)) @ random.normal(size=(3, 20))
    means = 0.8 * random.normal(size=(5, 20))
    return labelled(labels, shared + means[labels] + 0.1 * random.normal(size=(n_rows, 20)))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("make", "expected"), [(both_ends, True), (along_small_directions, False)])
def test_neighbours_join_where_gaussians_do_not_see_classes_that_are_left_out(make, expected, seed):
    data = make(np.random.default_rng(seed))
    method = VoltaPlus(hidden=16).fit(data, Trainer(seed=seed, budget=Budget(max_epochs=1)))
    assert (method.neighbours_ is not None) is expected


def test_one_class_with_rows_held_out_decides_nothing():
    data = both_ends(np.random.default_rng(0))
    alone = data.val.take(np.flatnonzero(data.val.labels == 0))
    method = VoltaPlus(hidden=16).fit(replace(data, val=alone), Trainer(seed=0, budget=Budget(max_epochs=1)))
    assert method.neighbours_ is None


def test_no_more_than_1024_rows_are_kept_as_neighbours():
    data = both_ends(np.random.default_rng(0), n_rows=2500)
    method = VoltaPlus(hidden=16, neighbours=True).fit(data, Trainer(seed=0, budget=Budget(max_epochs=1)))
    assert method.neighbours_.bank.shape == (1024, 16)
    assert method.neighbours_.k == round(50 * 1024 / 1250)


def test_training_ends_with_its_cycle_under_both_protocols():
    data, _ = blobs(n_rows=80)
    logs = [VoltaPlus(hidden=8).fit(data, Trainer(seed=1, protocol=one)).network_.log for one in ("fair", "paper")]
    assert [(log.max_epochs, log.patience, len(log.val_losses)) for log in logs] == [(60, None, 60)] * 2


def test_pixels_are_refused():
    pixels = Split(np.zeros((4, 3, 8, 8), dtype=np.float32), np.arange(4) % 2)
    data = FitData(pixels, pixels, pixels, 2, kind="pixels")
    with pytest.raises(InputError, match="VOLTA works on frozen features"):
        VoltaPlus().fit(data, Trainer(seed=0))


@pytest.mark.parametrize("neighbours", [False, True])
def test_saving_explaining_and_deciding(tmp_path, neighbours):
    data, test = blobs(n_rows=300, n_features=5, spread=2.0)
    classifier = VoltaClassifier(VoltaPlus(hidden=16, neighbours=neighbours), max_epochs=2).fit(
        data.train.inputs, data.train.labels
    )
    rows = np.concatenate([test.inputs[:40], 100.0 * test.inputs[:5]])
    classifier.save(tmp_path / "model.safetensors")
    again = VoltaClassifier.load(tmp_path / "model.safetensors")
    assert np.array_equal(again.predict_proba(rows), classifier.predict_proba(rows))
    assert np.array_equal(again.decide(rows).pvalue, classifier.decide(rows).pvalue)
    assert [found.label for found in classifier.explain(rows[:3])] == classifier.predict(rows[:3]).tolist()


@pytest.mark.slow
@pytest.mark.parametrize("neighbours", [False, True])
def test_its_graph_on_many_columns(tmp_path, neighbours):
    onnxruntime = pytest.importorskip("onnxruntime", reason="needs the onnx extra: pip install 'volta-uq[onnx]'")
    pytest.importorskip("onnxscript", reason="needs the onnx extra: pip install 'volta-uq[onnx]'")
    data, test = blobs(n_rows=300, n_features=130, spread=2.0)
    classifier = VoltaClassifier(VoltaPlus(hidden=16, neighbours=neighbours), max_epochs=2).fit(
        data.train.inputs, data.train.labels
    )
    rows = np.concatenate([test.inputs[:40], 100.0 * test.inputs[:5]])
    classifier.to_onnx(tmp_path / "model.onnx")
    session = onnxruntime.InferenceSession(str(tmp_path / "model.onnx"), providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    found = dict(zip(names, session.run(None, {"inputs": rows.astype(np.float64)}), strict=True))
    decisions = classifier.decide(rows)
    assert np.allclose(found["probs"], classifier.predict_proba(rows), atol=1e-5)
    assert np.allclose(found["ood_pvalue"], decisions.pvalue)
    assert np.array_equal(found["decision"], decisions.action)
