from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import cross_val_score

import volta
from volta.core.errors import InputError, NotFittedError

pytestmark = pytest.mark.filterwarnings("ignore::volta.methods.temperature.CalibrationWarning")


@pytest.fixture(scope="module")
def rows():
    random = np.random.default_rng(0)
    centres = random.normal(0, 3, (3, 6))
    labels = random.integers(3, size=1400)
    features = (centres[labels] + 1.5 * random.normal(size=(1400, 6))).astype(np.float32)
    names = np.array(["cat", "dog", "owl"])[labels]
    return features[:1200], names[:1200], features[1200:], names[1200:]


@pytest.fixture(scope="module")
def fitted(rows):
    return volta.VoltaClassifier(max_epochs=30).fit(rows[0], rows[1])


def test_it_classifies_with_the_users_labels(rows, fitted):
    _, _, features, names = rows
    assert fitted.classes_.tolist() == ["cat", "dog", "owl"]
    assert fitted.score(features, names) > 0.9
    assert fitted.predict_proba(features).sum(axis=1) == pytest.approx(1)
    assert set(fitted.predict(features)) <= set(names)
    assert fitted.uncertainty(features).shape == (200,)


def test_abstention_sets_and_flags_do_what_they_promise(rows, fitted):
    _, _, features, names = rows
    answers = fitted.predict_or_abstain(features, coverage=0.8)
    kept = np.array([answer is not None for answer in answers])
    assert 0.6 < kept.mean() < 0.95
    assert (answers[kept] == names[kept]).mean() >= fitted.score(features, names)
    sets = fitted.predict_set(features, alpha=0.1)
    members = sets[np.arange(200), np.searchsorted(fitted.classes_, names)]
    assert members.mean() > 0.82
    assert fitted.is_ood(features).mean() < 0.2
    knn = volta.VoltaClassifier("knn", max_epochs=30).fit(rows[0], rows[1])
    far = np.random.default_rng(1).normal(0, 1, (100, 6)).astype(np.float32) * 30
    assert knn.is_ood(far, fpr=0.05).mean() > knn.is_ood(features).mean()


@pytest.mark.parametrize("method", ["volta", "mahalanobis", "ensemble(n_members=2)", "volta-full"])
def test_saved_classifiers_come_back(rows, tmp_path, method):
    classifier = volta.VoltaClassifier(method, max_epochs=2).fit(rows[0], rows[1])
    classifier.save(tmp_path / "model.safetensors")
    loaded = volta.VoltaClassifier.load(tmp_path / "model.safetensors")
    assert loaded.get_params() == classifier.get_params()
    assert np.array_equal(loaded.predict_proba(rows[2]), classifier.predict_proba(rows[2]))
    assert np.array_equal(loaded.predict(rows[2]), classifier.predict(rows[2]))
    assert np.array_equal(loaded.predict_set(rows[2]), classifier.predict_set(rows[2]))
    assert np.array_equal(loaded.is_ood(rows[2]), classifier.is_ood(rows[2]))


def test_integer_labels_with_gaps(rows, tmp_path):
    labels = np.where(rows[1] == "cat", 7, np.where(rows[1] == "dog", -2, 100))
    classifier = volta.VoltaClassifier("softmax", max_epochs=2).fit(rows[0], labels)
    assert classifier.classes_.tolist() == [-2, 7, 100]
    classifier.save(tmp_path / "m.safetensors")
    assert volta.VoltaClassifier.load(tmp_path / "m.safetensors").predict(rows[2]).dtype == labels.dtype


def test_it_works_with_scikit_learns_tools(rows):
    classifier = volta.VoltaClassifier("softmax", max_epochs=5)
    copied = clone(classifier)
    assert copied.get_params() == classifier.get_params()
    scores = cross_val_score(classifier, rows[0], rows[1], cv=2)
    assert scores.shape == (2,)
    assert classifier.set_params(random_state=7).random_state == 7


def test_mistakes_are_named(rows):
    with pytest.raises(NotFittedError, match="is not fitted"):
        volta.VoltaClassifier().predict(rows[2])
    with pytest.raises(NotFittedError, match="is not fitted"):
        volta.VoltaClassifier().save("x")
    with pytest.raises(InputError, match="y has shape"):
        volta.VoltaClassifier().fit(rows[0], rows[1][:-1])
    with pytest.raises(InputError, match="one class only"):
        volta.VoltaClassifier().fit(rows[0], np.zeros(1200))
    with pytest.raises(InputError, match="at least 10"):
        volta.VoltaClassifier().fit(rows[0][:6], rows[1][:6])
    with pytest.raises(InputError, match="there is no method 'nope'"):
        volta.VoltaClassifier("nope").fit(rows[0], rows[1])
    with pytest.raises(InputError, match="encoder is 'sound'"):
        volta.VoltaClassifier(encoder="sound").fit(rows[0], rows[1])
    with pytest.raises(InputError, match="y has fewer than 2 rows of 1 of 4 classes, first 'lone'"):
        volta.VoltaClassifier().fit(rows[0], np.r_[["lone"], rows[1][1:]])
    with pytest.raises(InputError, match="beyond float32's range"):
        volta.VoltaClassifier(scale="none").fit(rows[0].astype(np.float64) * 1e39, rows[1])
