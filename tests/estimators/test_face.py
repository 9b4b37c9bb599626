"""What scikit-learn users expect of the constructor, of fit and of what fit leaves behind."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.exceptions import NotFittedError as SklearnNotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from volta import VoltaClassifier
from volta.core.errors import InputError
from volta.estimators.classifier import warn_about
from volta.methods.knn import Knn
from volta.networks.recipe import TrainingLog

pytestmark = pytest.mark.filterwarnings("ignore::volta.methods.temperature.CalibrationWarning")


def draw(n_rows, seed=0):
    random = np.random.default_rng(seed)
    labels = random.integers(3, size=n_rows)
    centres = np.random.default_rng(1).normal(0.0, 2.0, (3, 4))
    return centres[labels] + random.normal(size=(n_rows, 4)), labels


def quick(method="volta", **parameters):
    return VoltaClassifier(method, **({"max_epochs": 4} | parameters))


def test_a_method_comes_by_name_or_as_itself_with_its_parameters(tmp_path, monkeypatch):
    method = Knn(k=3)
    classifier = quick(method).fit(*draw(120))
    assert classifier.method_.k == 3
    assert not hasattr(method, "bank_")
    assert clone(classifier).get_params() == classifier.get_params()
    classifier.save(tmp_path / "a.safetensors")
    monkeypatch.setenv("HOME", str(tmp_path))
    loaded = VoltaClassifier.load("~/a.safetensors")
    assert loaded.method == method
    assert np.array_equal(loaded.ood_pvalues(draw(20)[0]), classifier.ood_pvalues(draw(20)[0]))
    with pytest.raises(InputError, match="method is 3; pass a name or a Method"):
        quick(3).fit(*draw(120))


def test_own_rows_steer_and_calibrate():
    classifier = quick().fit(*draw(60), eval_set=draw(40, 1), cal_set=draw(30, 2))
    assert len(classifier.calibration_.labels) == 30
    assert len(classifier.calibration_.reference) == 40
    assert np.array_equal(classifier.calibration_.labels, draw(30, 2)[1])
    with pytest.raises(InputError, match=r"cal_set\[1\] row 0 has the label .*9.*, which y lacks"):
        quick().fit(*draw(60), cal_set=(draw(5)[0], np.full(5, 9)))
    with pytest.raises(InputError, match=r"eval_set is ndarray; pass a pair \(X, y\)"):
        quick().fit(*draw(60), eval_set=draw(5)[0])
    with pytest.raises(InputError, match=r"eval_set\[0\]: X has 3 features, but VoltaClassifier is expecting 4"):
        quick().fit(*draw(60), eval_set=(draw(5)[0][:, :3], draw(5)[1]))


def test_random_state_is_scikit_learns():
    rows, labels = draw(120)
    same = [quick(random_state=7).fit(rows, labels).predict_proba(rows) for _ in range(2)]
    assert np.array_equal(*same)
    generator = np.random.RandomState(0)
    drawn = [quick(random_state=generator).fit(rows, labels).seed_ for _ in range(2)]
    assert drawn[0] != drawn[1]
    assert quick(random_state=None).fit(rows, labels).seed_ >= 0


def test_a_row_gets_the_same_numbers_alone_and_among_others():
    rows, labels = draw(150)
    for method in ("volta", "linear", "ensemble(n_members=2)", "hyperbolic"):
        classifier = quick(method).fit(rows, labels)
        alone = np.concatenate([classifier.predict_proba(rows[[i]]) for i in range(40)])
        assert np.allclose(alone, classifier.predict_proba(rows)[:40], rtol=1e-12, atol=0.0)
        decided, together = [classifier.decide(rows[[i]], fpr=0.1) for i in range(5)], classifier.decide(rows, fpr=0.1)
        assert [found[0].action for found in decided] == [together[i].action for i in range(5)]
        assert [found[0].pvalue for found in decided] == [together[i].pvalue for i in range(5)]


def test_it_tells_how_training_went(capsys, tmp_path):
    classifier = quick("ensemble(n_members=2)", verbose=True).fit(*draw(120))
    assert len(classifier.history_) > 1
    assert all(len(log.val_losses) == log.epochs == log.max_epochs == 4 for log in classifier.history_)
    assert all(1 <= log.best_epoch <= 4 for log in classifier.history_)
    assert "network 2, epoch 4 of 4, validation loss" in capsys.readouterr().err
    classifier.save(tmp_path / "a.safetensors")
    assert VoltaClassifier.load(tmp_path / "a.safetensors").history_ == classifier.history_
    quick().fit(*draw(120))
    assert capsys.readouterr().err == ""


def log_of(*val_losses, max_epochs, patience=20):
    return TrainingLog(max_epochs, patience, 0.0, val_losses, seconds=1.0)


def test_a_training_that_ended_badly_is_warned_about():
    early, late = log_of(0.1, 0.2, max_epochs=40), log_of(0.3, 0.2, 0.1, max_epochs=3)
    with pytest.warns(ConvergenceWarning, match="the best epoch was 1 of at most 40"):
        warn_about([early])
    with pytest.warns(ConvergenceWarning, match="still falling at the last epoch allowed, 3; raise max_epochs"):
        warn_about([late])
    warn_about([log_of(0.3, 0.1, 0.2, max_epochs=3), log_of(0.3, 0.2, 0.1, max_epochs=3, patience=None)])
    with pytest.warns(ConvergenceWarning, match="still falling"):
        quick(protocol="paper", max_epochs=1).fit(*draw(300))


def test_what_is_no_column_of_numbers_is_refused_by_a_model_of_numbers():
    pandas = pytest.importorskip("pandas")
    rows, labels = draw(60)
    with pytest.raises(TypeError, match="Sparse data was passed for X, but dense data is required"):
        quick().fit(sparse.csr_array(rows), labels)
    frame = pandas.DataFrame(rows, columns=list("abcd"))
    whole = quick().fit(frame.assign(a=pandas.array([1, 2] * 30, dtype="Int64")), labels)
    assert whole.feature_names_in_.tolist() == list("abcd")
    assert whole.schema_ is None
    with pytest.raises(InputError, match=r"X column 'b' \(.*\) holds 'red'; encode the column as numbers"):
        whole.predict(frame.assign(b="red"))
    nullable = frame.assign(a=pandas.array([1, None] * 30, dtype="Int64"))
    with pytest.raises(InputError, match="Input X contains NaN: X row 1 holds nan in column 'a'; impute it or drop"):
        whole.predict(nullable)


def test_labels_that_are_missing_are_refused():
    pandas = pytest.importorskip("pandas")
    rows, labels = draw(60)
    for gap in (None, float("nan"), pandas.NA):
        names = np.array(["x", "y", "z"], dtype=object)[labels]
        names[4] = gap
        with pytest.raises(InputError, match="Input y contains NaN: y row 4"):
            quick().fit(rows, names)
    with pytest.raises(ValueError, match="Unknown label type: continuous"):
        quick().fit(rows, rows[:, 0])


def test_labels_come_back_as_they_were():
    pandas = pytest.importorskip("pandas")
    rows, labels = draw(60)
    for given in (pandas.Series(labels, dtype="Int64"), pandas.Series(labels > 0, dtype="boolean")):
        found = VoltaClassifier("linear").fit(rows, given).predict(rows)
        assert found.dtype == given.dtype.numpy_dtype
    mixed = np.array([0, "one"], dtype=object)[(labels > 0).astype(int)]
    with pytest.raises(
        InputError, match=r"Unknown label type: y is an array of objects of the types int, str; pass an"
    ):
        VoltaClassifier("linear").fit(rows, mixed)


def test_a_folder_is_no_file(tmp_path):
    rows, labels = draw(60)
    classifier = VoltaClassifier("linear").fit(rows, labels)
    for write in (classifier.save, classifier.to_onnx):
        with pytest.raises(InputError, match="is a folder; pass the name of a file in it"):
            write(tmp_path)


def test_an_unfitted_classifier_says_so_in_both_packages_words():
    for use in (VoltaClassifier().decide, VoltaClassifier().is_ood, VoltaClassifier().explain):
        with pytest.raises(SklearnNotFittedError, match="is not fitted; call fit"):
            use(np.zeros((1, 2)))
    with pytest.raises(SklearnNotFittedError, match="is not fitted; call fit"):
        VoltaClassifier().monitor()


def test_it_is_at_home_in_a_pipeline():
    rows, labels = draw(150)
    assert make_pipeline(StandardScaler(), quick(max_epochs=30)).fit(rows, labels).score(rows, labels) > 0.8
