"""A classifier's graph decides as the classifier does: scaling, guard, p-values, sets and policy are inside it.

Tests that export take over two seconds each: the exporter of PyTorch takes as long for a small graph.
"""

import json

import numpy as np
import pytest
import torch

from volta import LabelledOutputs, Outputs, PostHocClassifier, VoltaClassifier, __version__
from volta.core.errors import InputError, NotFittedError
from volta.decisions import fit_evidence, fit_join
from volta.estimators import onnx
from volta.estimators.deciding import TooFewRowsWarning

onnxruntime = pytest.importorskip("onnxruntime", reason="needs the onnx extra: pip install 'volta-uq[onnx]'")
pytest.importorskip("onnxscript", reason="needs the onnx extra: pip install 'volta-uq[onnx]'")


def opened(path):
    return onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])


def run(session, **inputs):
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(None, inputs), strict=True))


def rows_of(n_rows, seed):
    """Three classes in six columns on scales from 1e-3 to 1e4."""
    random = np.random.default_rng(seed)
    labels = random.integers(3, size=n_rows)
    rows = random.normal(size=(n_rows, 6)) + 1.5 * np.eye(3, 6)[labels]
    return (rows * np.logspace(-3, 4, 6) + np.arange(6)).astype(np.float32), labels


def far_rows():
    rows, _ = rows_of(4, seed=3)
    huge = np.full((2, 6), 1e30, dtype=np.float32)
    return np.concatenate([rows * 1000, rows + 1e5, huge, -3e38 * np.ones((1, 6), dtype=np.float32)])


def assert_decides_alike(session, classifier, rows, **settings):
    got, expected = run(session, inputs=rows.astype(np.float64)), classifier.decide(rows, **settings)
    prediction = classifier.predict_full(rows)
    np.testing.assert_allclose(got["probs"], prediction.probs, atol=1e-5)
    np.testing.assert_allclose(got["uncertainty"], prediction.uncertainty, rtol=1e-5, atol=1e-5)
    # The method's score, in single precision in a graph, may be a rank off where it is next to one of the ranks.
    assert np.isclose(got["ood_score"], classifier._scored(rows).ood.mean(axis=0), rtol=1e-5, atol=1e-5).mean() >= 0.99
    np.testing.assert_array_equal(got["ood_pvalue"], expected.pvalue)
    np.testing.assert_array_equal(got["set"], expected.sets)
    np.testing.assert_array_equal(got["decision"], expected.action)
    np.testing.assert_array_equal(classifier.classes_[got["label"]], expected.label)


@pytest.fixture(scope="module")
def volta_graph(tmp_path_factory):
    rows, labels = rows_of(500, seed=0)
    classifier = VoltaClassifier(max_epochs=3).fit(rows, np.array(["a", "b", "c"])[labels])
    path = tmp_path_factory.mktemp("graph") / "volta.onnx"
    classifier.to_onnx(path, alpha=0.2, fpr=0.1)
    return classifier, opened(path)


def test_new_rows_far_rows_and_single_rows_are_decided_alike(volta_graph):
    classifier, session = volta_graph
    rows, _ = rows_of(300, seed=1)
    for given in (rows, far_rows(), rows[:1]):
        assert_decides_alike(session, classifier, given, alpha=0.2, fpr=0.1)
    assert set(run(session, inputs=rows.astype(np.float64))["decision"]) == {0, 1, 2}
    assert (run(session, inputs=far_rows().astype(np.float64))["decision"] == 2).all()


def test_metadata_hold_classes_version_and_thresholds(volta_graph):
    classifier, session = volta_graph
    notes = {name: json.loads(value) for name, value in session.get_modelmeta().custom_metadata_map.items()}
    assert notes["classes"] == ["a", "b", "c"]
    assert notes["volta_version"] == __version__
    assert notes["decisions"] == ["answer", "abstain", "ood"]
    assert (notes["alpha"], notes["fpr"], notes["n_calibration"]) == (0.2, 0.1, 500)
    assert notes["n_folds"] == 5
    assert notes["abstain_above"] == pytest.approx(classifier.policy_.threshold)
    assert notes["set_threshold"] is None


def test_a_row_with_nan_is_ood(volta_graph):
    classifier, session = volta_graph
    rows = rows_of(3, seed=1)[0].astype(np.float64)
    rows[1, 2] = np.nan
    got = run(session, inputs=rows)
    n = len(classifier.calibration_.labels)
    assert (got["decision"][1], got["ood_pvalue"][1], got["ood_score"][1]) == (2, 1 / (n + 1), np.inf)
    kept = classifier.decide(rows[[0, 2]], alpha=0.2, fpr=0.1)
    np.testing.assert_array_equal(got["decision"][[0, 2]], kept.action)


def test_an_absurd_row_of_sixty_is_ood(tmp_path):
    rows, labels = rows_of(60, seed=0)
    classifier = VoltaClassifier("linear").fit(rows, labels)
    classifier.to_onnx(tmp_path / "few.onnx")
    rows = rows_of(40, seed=1)[0]
    one_column = rows[:1].copy()
    one_column[0, 3] = -1e30
    far = np.concatenate([np.full((1, 6), 1e30, dtype=np.float32), one_column])
    session = opened(tmp_path / "few.onnx")
    assert_decides_alike(session, classifier, np.concatenate([rows, far]))
    assert (run(session, inputs=far.astype(np.float64))["decision"] == 2).all()
    assert classifier.is_ood(far).all()
    assert classifier.is_ood(rows).mean() < 0.2


def test_one_fit_has_one_threshold(tmp_path):
    rows, labels = rows_of(400, seed=0)
    classifier = VoltaClassifier("linear", calibration="split").fit(rows, labels)
    classifier.to_onnx(tmp_path / "split.onnx")
    session = opened(tmp_path / "split.onnx")
    assert_decides_alike(session, classifier, np.concatenate([rows_of(200, seed=1)[0], far_rows()]))
    notes = {name: json.loads(value) for name, value in session.get_modelmeta().custom_metadata_map.items()}
    assert notes["set_threshold"] == pytest.approx(np.sort(classifier.calibration_.true_scores["lac"])[36])
    assert (notes["n_calibration"], notes["n_folds"]) == (40, 1)


def test_columns_far_from_0_for_their_spread_are_decided_alike(tmp_path):
    rows, labels = rows_of(600, seed=0)
    rows = rows.astype(np.float64)
    rows[:, 0] = 1.6e9 + 1e4 * rows[:, 0]  # dates in seconds, of which float32 tells only every second minute apart
    classifier = VoltaClassifier("linear").fit(rows[:400], labels[:400])
    classifier.to_onnx(tmp_path / "dates.onnx")
    assert_decides_alike(opened(tmp_path / "dates.onnx"), classifier, rows[400:])


@pytest.mark.filterwarnings("ignore:no threshold shows an error:volta.estimators.deciding.TooFewRowsWarning")
@pytest.mark.filterwarnings("ignore:max_error=:volta.estimators.deciding.TooFewRowsWarning")
def test_long_calibration_adaptive_sets_wide_rows_and_no_policy(tmp_path, monkeypatch):
    monkeypatch.setattr(onnx, "SEARCH_WIDTH", 8)  # ranks by blocks, as with more than a thousand rows
    rows, labels = rows_of(500, seed=0)
    classifier = VoltaClassifier("aps", scale="none", max_epochs=1).fit(rows, labels)
    assert not classifier.fit_policy(max_error=0.001).exists
    classifier.to_onnx(tmp_path / "aps.onnx")
    session = opened(tmp_path / "aps.onnx")
    assert_decides_alike(session, classifier, np.concatenate([rows_of(200, seed=1)[0], far_rows()]))
    assert json.loads(session.get_modelmeta().custom_metadata_map["abstain_above"]) == "always"
    assert 0 not in run(session, inputs=rows.astype(np.float64))["decision"]


@pytest.mark.parametrize(
    "method",
    [
        "volta",
        # slow: an export takes seconds, and the ranks that ties meet are the same part of every graph
        *(pytest.param(name, marks=pytest.mark.slow) for name in ("linear", "energy", "mahalanobis")),
    ],
)
def test_rows_that_are_equal_to_calibration_rows_tie_with_them(tmp_path, method):
    def few_distinct_rows(seed):
        random = np.random.default_rng(seed)
        labels = random.integers(2, size=1000)
        shares = np.where(labels[:, None] == 1, [0.8, 0.7, 0.6, 0.5, 0.9], [0.3, 0.2, 0.5, 0.5, 0.4])
        return (random.random((1000, 5)) < shares).astype(float), labels

    classifier = VoltaClassifier(method, max_epochs=20).fit(*few_distinct_rows(0))
    classifier.to_onnx(tmp_path / "ties.onnx")
    rows = few_distinct_rows(1)[0]
    assert len(np.unique(rows, axis=0)) == 32
    assert_decides_alike(opened(tmp_path / "ties.onnx"), classifier, rows)


@pytest.mark.parametrize("n_features", [0, 4])
def test_outputs_of_ones_own_network_are_decided_alike(tmp_path, n_features):
    random = np.random.default_rng(0)

    def draw(n_rows):
        labels = random.integers(3, size=n_rows)
        logits = (random.normal(size=(n_rows, 3)) + 2.0 * np.eye(3)[labels]).astype(np.float32)
        features = random.normal(size=(n_rows, 4)).astype(np.float32) if n_features else None
        return LabelledOutputs(Outputs(logits, features), labels)

    classifier = PostHocClassifier("mahalanobis" if n_features else "energy")
    classifier.fit(train=draw(300) if n_features else None, val=draw(80), cal=draw(80))
    classifier.to_onnx(tmp_path / "own.onnx")
    new = draw(100).outputs
    inputs = {"logits": new.logits.astype(np.float32)} | ({"features": new.features} if n_features else {})
    got, expected = run(opened(tmp_path / "own.onnx"), **inputs), classifier.decide(new)
    np.testing.assert_array_equal(got["ood_pvalue"], expected.pvalue)
    np.testing.assert_array_equal(got["decision"], expected.action)
    np.testing.assert_array_equal(got["set"], expected.sets)
    np.testing.assert_allclose(got["uncertainty"], expected.uncertainty, rtol=1e-5)


def test_ranks_are_those_of_numpy_for_every_length():
    random = np.random.default_rng(0)
    for length in (1, 7, 1024, 1025, 5000):
        ordered = np.sort(random.integers(0, 200, (2, length)).astype(float), axis=1)
        scores = np.concatenate([random.integers(-5, 210, (50, 2)), ordered[:, -1][None] + [[0.0], [1.0]]])
        expected = np.stack([np.searchsorted(ordered[j], scores[:, j], side="left") for j in range(2)], axis=1)
        got = onnx.Rank(ordered)(torch.tensor(scores).unsqueeze(2)).long()
        np.testing.assert_array_equal(got.numpy(), expected)


def test_evidence_and_join_are_those_of_python(tmp_path):
    random = np.random.default_rng(0)
    rows, labels = rows_of(400, seed=0)
    rows[:, 0] = rows[:, 0].round()
    evidence = fit_evidence(rows[:200], labels[:200])
    join, _ = fit_join(evidence.scores(rows[200:]).round(10), bounded=[False, True, False, False])
    graph = torch.nn.Sequential(onnx.EvidenceScores(evidence), onnx.Joined(join, onnx.Rounding()))
    wide = np.concatenate([rows, far_rows(), random.normal(size=rows.shape)]).astype(np.float64)
    expected = evidence.scores(wide)
    np.testing.assert_allclose(graph[0](torch.tensor(wide)).numpy(), expected, rtol=1e-9, atol=1e-12)
    joined = join.score(expected.round(10))
    np.testing.assert_allclose(graph(torch.tensor(wide)).numpy()[:, 0], joined, rtol=1e-8)
    onnx.write_onnx(graph, {"rows": torch.tensor(wide[:2])}, ("joined",), tmp_path / "join.onnx", {})
    found = run(opened(tmp_path / "join.onnx"), rows=wide)["joined"]
    np.testing.assert_allclose(found[:, 0], joined, rtol=1e-8)


@pytest.mark.filterwarnings("ignore:.*too few for coverage:volta.estimators.deciding.TooFewRowsWarning")
def test_what_cannot_be_exported_is_refused_and_leaves_no_file(tmp_path):
    path = tmp_path / "model.onnx"
    with pytest.raises(NotFittedError, match="is not fitted"):
        VoltaClassifier().to_onnx(path)
    rows, labels = rows_of(60, seed=0)
    classifier = VoltaClassifier("mc_dropout", calibration="split", max_epochs=1).fit(rows, labels)
    with pytest.warns(TooFewRowsWarning, match="too few for fpr"), pytest.raises(InputError, match="MC Dropout cannot"):
        classifier.to_onnx(path, alpha=0.5)
    with pytest.raises(InputError, match="fpr"):
        classifier.to_onnx(path, fpr=2.0)
    assert not path.exists()


# slow: a share over a full fit of forty classes
@pytest.mark.slow
def test_sets_of_thresholds_below_float32_are_those_of_python(tmp_path):
    """A label in thirty is wrong, so that sets reach down to probabilities of 1e-6 and less."""
    random = np.random.default_rng(0)
    centres = 1.5 * np.random.default_rng(1).normal(size=(40, 16))

    def draw(n_rows, wrong=0.0):
        labels = random.integers(40, size=n_rows)
        rows = centres[labels] + random.normal(size=(n_rows, 16))
        return rows, np.where(random.random(n_rows) < wrong, random.integers(40, size=n_rows), labels)

    classifier = VoltaClassifier("linear").fit(*draw(1200), cal_set=draw(600, 0.04))
    new = draw(300)[0]
    classifier.to_onnx(tmp_path / "model.onnx", alpha=0.03)
    session = onnxruntime.InferenceSession(str(tmp_path / "model.onnx"), providers=["CPUExecutionProvider"])
    found = dict(zip([one.name for one in session.get_outputs()], session.run(None, {"inputs": new}), strict=True))
    decided = classifier.decide(new, alpha=0.03)
    assert 1.0 < decided.sets.sum(axis=1).mean() < 39.0
    assert (found["set"] != decided.sets).any(axis=1).mean() < 0.02


@pytest.mark.filterwarnings("ignore::volta.methods.temperature.CalibrationWarning")
def test_a_method_whose_graph_would_decide_otherwise_is_refused(tmp_path):
    random = np.random.default_rng(1)
    labels = random.integers(2, size=900)
    rows = 4.0 * labels[:, None] + random.normal(size=(900, 1))
    classifier = VoltaClassifier("vim").fit(rows, labels)
    with pytest.raises(InputError, match=r"a graph of ViM.*would decide \d+% of rows .* export another method"):
        classifier.to_onnx(tmp_path / "model.onnx")
    assert not (tmp_path / "model.onnx").exists()
