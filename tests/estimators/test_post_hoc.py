"""Anybody's network: its outputs by a hook, and post-hoc methods on them with calibrated decisions."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch
from scipy.special import softmax
from torch import nn

from tests.estimators.test_face import draw
from volta import (
    METHODS,
    InputError,
    LabelledOutputs,
    LastLayer,
    Outputs,
    PostHocClassifier,
    VoltaClassifier,
    VoltaImageClassifier,
    outputs_of,
)
from volta.core.seeding import rng
from volta.estimators.deciding import TooFewRowsWarning
from volta.estimators.post_hoc import EqualScoresWarning, ProbabilitiesAsLogitsWarning
from volta.methods.base import PostHoc
from volta.methods.knn import Knn

pytestmark = pytest.mark.filterwarnings("ignore::volta.methods.temperature.CalibrationWarning")


class Mine(nn.Module):
    """A user's network whose last linear layer is neither the last one registered nor the end of the forward pass."""

    def __init__(self):
        super().__init__()
        self.classify = nn.Linear(8, 3)
        self.encode = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Dropout(0.5))

    def forward(self, rows):
        return self.classify(self.encode(rows)).softmax(dim=1)


@pytest.fixture(scope="module")
def network():
    torch.manual_seed(0)
    network = Mine()
    rows, labels = (torch.from_numpy(part) for part in draw(600))
    optimiser = torch.optim.Adam(network.parameters(), lr=0.02)
    for _ in range(60):
        optimiser.zero_grad()
        nn.functional.nll_loss(network(rows.float()).log(), labels).backward()
        optimiser.step()
    return network


def batches(n_rows, seed):
    rows, labels = (torch.from_numpy(part) for part in draw(n_rows, seed))
    return [(rows[i : i + 64].float(), labels[i : i + 64]) for i in range(0, n_rows, 64)]


def test_outputs_come_from_the_last_linear_layer_called(network, capsys):
    found = outputs_of(network, batches(150, 1), verbose=True)
    assert isinstance(found, LabelledOutputs)
    assert np.array_equal(found.labels, draw(150, 1)[1])
    layer = found.outputs.last_layer
    np.testing.assert_allclose(
        found.outputs.features @ layer.weight.T + layer.bias, found.outputs.logits, rtol=1e-4, atol=1e-5
    )
    assert network.training
    assert "150 rows" in capsys.readouterr().err
    again = outputs_of(network, [inputs for inputs, _ in batches(150, 1)])
    assert isinstance(again, Outputs)
    assert np.array_equal(again.logits, found.outputs.logits)
    named = outputs_of(network, batches(10, 1), layer="encode.0")
    assert named.outputs.features.shape == (10, 4)


def test_batches_of_named_tensors_are_taken_as_hugging_face_gives_them(network):
    class Named(nn.Module):
        def __init__(self):
            super().__init__()
            self.network = network

        def forward(self, values):
            return {"logits": self.network(values)}

    found = outputs_of(Named(), [{"values": rows, "labels": labels} for rows, labels in batches(150, 1)])
    expected = outputs_of(network, batches(150, 1))
    assert np.array_equal(found.outputs.logits, expected.outputs.logits)
    assert np.array_equal(found.labels, expected.labels)


def test_what_cannot_be_watched_is_named(network):
    with pytest.raises(
        InputError, match="layer is 'head', which is no linear layer of the model; pass one of classify"
    ):
        outputs_of(network, batches(10, 1), layer="head")
    with pytest.raises(InputError, match="loader is empty"):
        outputs_of(network, [])
    with pytest.raises(InputError, match="called no linear layer"):
        outputs_of(nn.ReLU(), [torch.zeros(2, 3)])
    with pytest.raises(InputError, match=r"input has shape \(2, 5, 4\)"):
        outputs_of(nn.Linear(4, 3), [torch.zeros(2, 5, 4)])
    with pytest.raises(InputError, match="loader gives a dict; expected batches"):
        outputs_of(network, [{"x": [0.0, 0.0]}])
    with pytest.raises(InputError, match="loader is one Tensor; pass batches"):
        outputs_of(network, torch.zeros(2, 4))
    with pytest.raises(InputError, match=r"labels of shape \(2,\) and float32; expected \(n,\) whole numbers"):
        outputs_of(nn.Linear(4, 3), [(torch.zeros(2, 4), torch.tensor([0.5, 1.0]))])
    with pytest.raises(InputError, match=r"model is a function; pass a torch\.nn\.Module"):
        outputs_of(lambda rows: rows, [])


def test_features_of_another_width_are_refused(network):
    train, cal = (outputs_of(network, batches(n, seed)) for n, seed in ((400, 0), (400, 2)))
    classifier = PostHocClassifier("mahalanobis").fit(train, cal=cal)
    narrow = Outputs(cal.outputs.logits, cal.outputs.features[:, :1])
    for call in (classifier.uncertainty, classifier.predict_proba):
        with pytest.raises(InputError, match="X has features of 1 columns but the fit's had"):
            call(narrow)


@pytest.mark.parametrize("name", [name for name, method in METHODS.items() if issubclass(method, PostHoc)])
def test_every_post_hoc_method_decides(network, name, tmp_path):
    train, cal, new = (outputs_of(network, batches(n, seed)) for n, seed in ((400, 0), (400, 2), (200, 3)))
    classifier = PostHocClassifier(name).fit(train, cal=cal)
    assert len(classifier.calibration_.labels) == 200
    assert (classifier.predict(new.outputs) == new.labels).mean() > 0.7
    assert classifier.is_ood(new.outputs).mean() < 0.15
    far = outputs_of(network, [torch.full((5, 4), 500.0)])
    assert classifier.is_ood(far).all()
    sets = classifier.predict_set(new.outputs)
    assert sets[np.arange(200), new.labels].mean() > 0.8
    classifier.save(tmp_path / "a.safetensors")
    loaded = PostHocClassifier.load(tmp_path / "a.safetensors")
    assert np.array_equal(loaded.decide(new.outputs).to_array(), classifier.decide(new.outputs).to_array())


def test_logits_alone_are_enough_for_some():
    random = np.random.default_rng(0)
    labels = random.integers(3, size=500)
    logits = random.normal(size=(500, 3)) + 3.0 * np.eye(3)[labels]
    rows = LabelledOutputs(Outputs(logits), labels)
    classifier = PostHocClassifier("energy").fit(cal=rows)
    assert classifier.predict(logits.tolist()).shape == (500,)
    assert np.array_equal(classifier.predict_proba(rows), classifier.predict_proba(logits))
    other = LabelledOutputs(Outputs(logits + random.normal(size=(500, 3))), labels)
    own = PostHocClassifier("energy").fit(val=other, cal=rows)
    assert len(own.calibration_.labels) == 500
    with pytest.raises(InputError, match="X has 2 logits a row but the fit had 3"):
        classifier.predict(logits[:, :2])


def test_tensors_are_taken_as_they_come_from_a_network():
    torch.manual_seed(0)
    labels = torch.randint(3, (400,))
    logits = (torch.randn(400, 3) + 3.0 * torch.eye(3)[labels]).bfloat16().requires_grad_()
    classifier = PostHocClassifier("energy").fit(cal=LabelledOutputs(Outputs(logits), labels))
    plain = logits.detach().float().numpy()
    assert np.array_equal(classifier.predict_proba(logits), classifier.predict_proba(plain))


def test_probabilities_in_place_of_logits_are_told():
    random = np.random.default_rng(0)
    labels = random.integers(3, size=400)
    probs = softmax(random.normal(size=(400, 3)) + 3.0 * np.eye(3)[labels], axis=1)
    with pytest.warns(ProbabilitiesAsLogitsWarning, match=r"cal holds logits .* pass Outputs\(np\.log\(probs\)\)"):
        PostHocClassifier("energy").fit(cal=LabelledOutputs(Outputs(probs), labels))
    logs = LabelledOutputs(Outputs(np.log(probs)), labels)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ProbabilitiesAsLogitsWarning)
        PostHocClassifier("temperature").fit(cal=logs)
    with pytest.warns(EqualScoresWarning, match="Energy gives all 200 validation rows the same uncertainty; pass log"):
        PostHocClassifier("energy").fit(cal=logs)


def test_mistakes_are_named(tmp_path):
    rows = LabelledOutputs(Outputs(2 * np.eye(2)), np.array([0, 1]))
    with pytest.raises(InputError, match="cal is missing; pass cal="):
        PostHocClassifier().fit(rows)
    with pytest.raises(InputError, match="method is 'volta', which trains a network of its own; pass one of softmax"):
        PostHocClassifier("volta").fit(cal=rows)
    with pytest.raises(InputError, match="the method learns from train rows and there are none"):
        PostHocClassifier(Knn(k=1)).fit(cal=rows)
    with pytest.raises(AttributeError, match="PostHocClassifier is not fitted"):
        PostHocClassifier().predict(np.eye(2))
    for name in ("train", "val", "cal"):
        with pytest.raises(InputError, match=f"{name} is tuple; pass LabelledOutputs"):
            PostHocClassifier().fit(**({"cal": rows} | {name: (np.eye(2), np.array([0, 1]))}))
    VoltaClassifier("linear").fit(*draw(60)).save(tmp_path / "a.safetensors")
    with pytest.raises(InputError, match=r"load it with VoltaClassifier\.load"):
        PostHocClassifier.load(tmp_path / "a.safetensors")
    own, _ = fitted_on(40, random_state=None)
    own.save(tmp_path / "b.safetensors")
    for other in (VoltaClassifier, VoltaImageClassifier):
        with pytest.raises(InputError, match=r"a network's outputs; load it with PostHocClassifier\.load"):
            other.load(tmp_path / "b.safetensors")
    assert PostHocClassifier.load(tmp_path / "b.safetensors").seed_ == own.seed_
    logits = np.zeros((2, 3))
    with pytest.raises(InputError, match="score is 'foo'; pass one of lac, aps, raps"):
        own.predict_set(logits, score="foo")
    with pytest.raises(InputError, match="alpha is a; expected a number strictly between 0 and 1"):
        own.predict_set(logits, alpha="a")
    with pytest.raises(InputError, match=r"fpr is 0\.1 and fdr 0\.2; pass one of them"):
        own.is_ood(logits, fpr=0.1, fdr=0.2)


def logits_of(n_rows, seed):
    random = np.random.default_rng(seed)
    labels = random.integers(3, size=n_rows)
    return LabelledOutputs(Outputs(random.normal(size=(n_rows, 3)) + 2.0 * np.eye(3)[labels]), labels)


def fitted_on(n_cal, method="energy", seed=2, **parameters):
    """Return a classifier calibrated on so many rows, and other rows' logits."""
    classifier = PostHocClassifier(method, **parameters).fit(val=logits_of(60, 1), cal=logits_of(n_cal, seed))
    return classifier, logits_of(100, 3).outputs.logits


def test_too_few_rows_for_flags_and_policies_are_said_to_be_too_few():
    classifier, new = fitted_on(8)
    with pytest.warns(TooFewRowsWarning, match=r"8 calibration samples are few for fdr = 0\.1: no row .* takes 9"):
        assert not classifier.is_ood(new - 100.0, fdr=0.1).any()
    with pytest.warns(TooFewRowsWarning, match="is flagged unless at least 38 are far out"):
        classifier.is_ood(new, fdr=0.3)
    with pytest.warns(TooFewRowsWarning, match=r"8 calibration samples are too few for coverage = 0\.9"):
        classifier.decide(new, fpr=0.2, alpha=0.2)
    with pytest.warns(TooFewRowsWarning, match="max_error=0.02 needs at least 149 calibration samples; got 8"):
        assert not classifier.fit_policy(max_error=0.02).exists
    with pytest.warns(TooFewRowsWarning, match="groups 0, 1, 2 have fewer"):
        classifier.is_ood(new, conditional="class")
    enough, new = fitted_on(120)
    assert enough.is_ood(new, fdr=0.1).mean() < 0.2


def test_warnings_name_the_classes_by_their_labels():
    classifier, new = fitted_on(8)
    classifier.classes_ = np.array(["ash", "birch", "oak"])
    with pytest.warns(TooFewRowsWarning, match="classes ash, birch, oak have fewer"):
        classifier.predict_set(new, conditional="class")
    with pytest.warns(TooFewRowsWarning, match="groups ash, birch, oak have fewer"):
        classifier.is_ood(new, conditional="class")


@pytest.mark.parametrize("method", ["conformal", "aps"])
def test_calibration_rows_are_for_nothing_else(method):
    one, new = fitted_on(40, method, seed=2)
    other, _ = fitted_on(40, method, seed=5)
    assert np.array_equal(one.uncertainty(new), other.uncertainty(new))
    rows, labels = draw(120)
    fits = [
        VoltaClassifier(method, max_epochs=2).fit(rows, labels, eval_set=draw(40, 1), cal_set=draw(40, seed))
        for seed in (2, 3)
    ]
    assert np.array_equal(fits[0].uncertainty(rows), fits[1].uncertainty(rows))


@pytest.mark.filterwarnings("ignore:.*calibration samples are too few:volta.estimators.deciding.TooFewRowsWarning")
def test_absurd_outputs_are_ood_or_refused(network, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    classifier = PostHocClassifier("energy").fit(
        outputs_of(network, batches(60, 1)), cal=outputs_of(network, batches(60, 2))
    )
    usual = outputs_of(network, batches(2, 3)).outputs
    far = usual.features.copy()
    far[1, 0] = 1e30
    assert classifier.is_ood(Outputs(usual.logits, far)).tolist() == [False, True]
    huge = usual.logits.copy()
    huge[1, 0] = 1e30
    with pytest.raises(InputError, match=r"X row 1 has the logit 1e\+30, beyond 1e\+15"):
        classifier.predict(Outputs(huge, usual.features))
    classifier.to_onnx(tmp_path / "m.onnx")
    session = onnxruntime.InferenceSession(str(tmp_path / "m.onnx"), providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    for logits, features in ((usual.logits, far), (huge, usual.features)):
        inputs = {"logits": logits.astype(np.float32), "features": features.astype(np.float32)}
        found = dict(zip(names, session.run(None, inputs), strict=True))
        assert np.isfinite(found["probs"]).all()
        assert found["decision"][1] == 2


@pytest.mark.parametrize("part", ["train", "val"])
def test_calibration_rows_of_another_part_are_refused(part):
    random = np.random.default_rng(0)
    logits, labels = random.normal(size=(200, 3)), random.integers(3, size=200)
    rows = LabelledOutputs(Outputs(logits, random.normal(size=(200, 2))), labels)
    with pytest.raises(InputError, match="cal has 200 rows of 200 among those that the model learns from"):
        PostHocClassifier("temperature").fit(cal=rows, **{part: rows})


@pytest.mark.filterwarnings("ignore::volta.estimators.inputs.RepeatedRowsWarning")
@pytest.mark.parametrize("method", ["weiper", "nnguide", "knn"])
def test_rows_alone_are_flagged_as_among_others(method):
    """Few distinct rows: what rounding makes of one row alone must not break its tie with calibration rows."""
    random = np.random.default_rng(0)
    kinds = np.abs(random.normal(size=(6, 16))).astype(np.float32)
    layer = LastLayer(random.normal(size=(3, 16)).astype(np.float32), np.zeros(3, np.float32))

    def draw(n_rows):
        kind = random.choice(6, p=[0.3, 0.25, 0.2, 0.15, 0.06, 0.04], size=n_rows)
        return Outputs((kinds[kind] @ layer.weight.T).astype(np.float64), kinds[kind], layer), kind % 3

    train, val, cal = (LabelledOutputs(*draw(n_rows)) for n_rows in (400, 200, 400))
    classifier = PostHocClassifier(method).fit(train, val=val, cal=cal)
    new, _ = draw(60)
    alone = [classifier.is_ood(Outputs(new.logits[[row]], new.features[[row]], layer))[0] for row in range(60)]
    assert np.array_equal(alone, classifier.is_ood(new))


@pytest.mark.filterwarnings("ignore::volta.estimators.deciding.TooFewRowsWarning")
def test_sets_of_outputs_that_are_given_several_times_cover_new_rows():
    covered = []
    for seed in range(8):
        random = np.random.default_rng(seed)
        labels = random.integers(6, size=560)
        logits = 2.0 * random.normal(size=(560, 6)) + np.eye(6)[labels]
        found = Outputs(logits.astype(np.float32), features=random.normal(size=(560, 4)).astype(np.float32))
        copied = Outputs(found.logits[:60].repeat(6, axis=0), found.features[:60].repeat(6, axis=0))
        classifier = PostHocClassifier("isotonic").fit(cal=LabelledOutputs(copied, labels[:60].repeat(6)))
        sets = classifier.predict_set(Outputs(found.logits[60:], found.features[60:]), alpha=0.1)
        covered.append(sets[np.arange(500), labels[60:]].mean())
    # Where copies fit isotonic regression and calibrate both, it is .75.
    assert np.mean(covered) > 0.88


def test_rows_of_which_a_network_is_sure_are_no_copies():
    random = np.random.default_rng(0)
    labels = random.integers(10, size=3000)
    logits = 4.0 * random.normal(size=(3000, 10)) + 16.0 * np.eye(10)[labels]
    # As advised for probabilities, which float32 has rounded: most rows hold the same few numbers.
    rounded = np.log(np.clip(softmax(logits, axis=1).astype(np.float32), 1e-7, None))
    classifier = PostHocClassifier("softmax").fit(cal=LabelledOutputs(Outputs(rounded[:1000]), labels[:1000]))
    assert len(classifier.calibration_.ood) == 500
    answered = ~classifier.abstain(rounded[1000:], coverage=0.5)
    assert answered.mean() == pytest.approx(0.5, abs=0.1)


def test_weights_of_rows_that_only_calibrate_may_be_0():
    weights = np.zeros(40)
    weights[rng(0, "post_hoc", "halves").permutation(40)[:20]] = 1.0
    cal = LabelledOutputs(Outputs(np.random.default_rng(0).normal(size=(40, 3))), np.arange(40) % 3, weights)
    assert len(PostHocClassifier("energy", random_state=0).fit(cal=cal).calibration_.ood) == 20


def test_weights_count_where_calibration_rows_are_halved():
    random = np.random.default_rng(0)
    labels = random.integers(3, size=400)
    logits = 3.0 * random.normal(size=(400, 3)) + np.eye(3)[labels]
    weights = np.where(logits.argmax(axis=1) == labels, 2.0, 0.05)
    plain, weighted = (
        PostHocClassifier("temperature").fit(cal=LabelledOutputs(Outputs(logits), labels, own)).method_.fitted_.beta
        for own in (None, weights)
    )
    assert weighted > 3.0 * plain
