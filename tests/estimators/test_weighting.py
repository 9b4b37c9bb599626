"""Sample weights and class weights mean what they mean in scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn import config_context
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from volta import VoltaClassifier
from volta.core.errors import InputError
from volta.estimators.inputs import RepeatedRowsWarning

pytestmark = pytest.mark.filterwarnings("ignore::volta.methods.temperature.CalibrationWarning")


def draw(n_rows=150, seed=0):
    """Two classes that overlap, nine to one."""
    random = np.random.default_rng(seed)
    labels = (random.random(n_rows) < 0.1).astype(int)
    return random.normal(size=(n_rows, 3)) + 1.2 * labels[:, None], labels


def share_of_rare(classifier):
    return classifier.predict(draw(400, 1)[0]).mean()


@pytest.mark.slow
@pytest.mark.parametrize("method", ["linear", "volta"])
def test_classes_can_be_balanced(method, tmp_path):
    rows, labels = draw()
    plain = VoltaClassifier(method).fit(rows, labels)
    balanced = VoltaClassifier(method, class_weight="balanced").fit(rows, labels)
    assert share_of_rare(balanced) > share_of_rare(plain) + 0.02
    counts = np.bincount(labels)
    named = {label: 150 / (2 * count) for label, count in enumerate(counts.tolist())}
    same = VoltaClassifier(method, class_weight=named).fit(rows, labels)
    assert np.array_equal(same.predict_proba(rows), balanced.predict_proba(rows))
    same.save(tmp_path / "model.safetensors")
    assert VoltaClassifier.load(tmp_path / "model.safetensors").class_weight == named


def test_class_weights_that_make_no_sense_are_refused():
    for weights, words in (
        ("equal", "class_weight is 'equal'; pass None, 'balanced' or a dict"),
        ({7: 2.0}, "class_weight names 7, which y lacks"),
        ({0: -1.0}, "pass positive numbers"),
    ):
        with pytest.raises(InputError, match=words):
            VoltaClassifier("linear", class_weight=weights).fit(*draw())


@pytest.mark.parametrize("method", ["linear", "volta", "knn"])
def test_whole_numbers_count_rows(method):
    rows, labels = draw(80)
    counts = np.random.default_rng(3).integers(4, size=80)
    weighted = VoltaClassifier(method, max_epochs=5).fit(rows, labels, sample_weight=counts)
    order = np.random.default_rng(4).permutation(counts.sum())
    repeated = VoltaClassifier(method, max_epochs=5).fit(rows.repeat(counts, 0)[order], labels.repeat(counts)[order])
    assert np.array_equal(weighted.predict_proba(rows), repeated.predict_proba(rows))
    assert np.array_equal(weighted.ood_pvalues(rows), repeated.ood_pvalues(rows))


def test_copies_of_a_row_do_not_both_train_and_calibrate():
    """Oversampled rows keep their promise; a neighbour's copy had made sets of one class that missed two thirds."""
    random = np.random.default_rng(0)

    def draw(n_rows):
        labels = random.integers(3, size=n_rows)
        return random.normal(size=(n_rows, 10)) + 0.8 * np.eye(10)[labels], labels

    (rows, labels), (new, truth) = draw(400), draw(3000)
    classifier = VoltaClassifier("knn").fit(rows.repeat(5, 0), labels.repeat(5))
    assert len(classifier.calibration_.labels) == 2000
    assert classifier.predict_set(new, alpha=0.1)[np.arange(3000), truth].mean() > 0.85


def test_counts_above_twenty_let_a_row_both_train_and_calibrate_and_say_so():
    rows, labels = draw(80)
    counts = np.ones(80)
    counts[3] = 30
    with pytest.warns(RepeatedRowsWarning, match="counts a row more than 20 times"):
        VoltaClassifier("linear").fit(rows, labels, sample_weight=counts)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["linear", "volta", "temperature", "vector_scaling"])
def test_other_weights_scale_a_rows_losses(method):
    rows, labels = draw()
    weights = np.where(labels == 1, 7.25, 0.8)
    weighted = VoltaClassifier(method, max_epochs=60).fit(rows, labels, sample_weight=weights)
    plain = VoltaClassifier(method, max_epochs=60).fit(rows, labels)
    assert weighted.predict_proba(rows)[:, 1].mean() > plain.predict_proba(rows)[:, 1].mean() + 0.01
    assert np.array_equal(weighted.calibration_.labels, plain.calibration_.labels)
    again = VoltaClassifier(method, max_epochs=60).fit(rows, labels, sample_weight=weights * 2.0)
    assert again.predict_proba(rows) == pytest.approx(weighted.predict_proba(rows), abs=1e-6)


def test_weights_that_make_no_sense_are_refused():
    rows, labels = draw()
    with pytest.raises(ValueError, match=r"at least one non-zero number|0 for every row"):
        VoltaClassifier("linear").fit(rows, labels, sample_weight=np.zeros(150))
    with pytest.raises(ValueError, match="Negative values in data passed to `sample_weight`"):
        VoltaClassifier("linear").fit(rows, labels, sample_weight=np.full(150, -1.0))
    with pytest.raises(ValueError, match=r"sample_weight.shape == \(3,\), expected \(150,\)"):
        VoltaClassifier("linear").fit(rows, labels, sample_weight=np.ones(3))


def test_metadata_is_routed():
    rows, labels = draw()
    weights = np.where(labels == 1, 7.25, 0.8)
    with config_context(enable_metadata_routing=True):
        inner = VoltaClassifier("linear").set_fit_request(sample_weight=True, cal_set=True, eval_set=True)
        scaler = StandardScaler(with_mean=False, with_std=False).set_fit_request(sample_weight=False)
        pipeline = make_pipeline(scaler, inner)
        pipeline.fit(rows, labels, sample_weight=weights, cal_set=draw(40, 2), eval_set=draw(50, 3))
    direct = VoltaClassifier("linear").fit(
        rows, labels, sample_weight=weights, cal_set=draw(40, 2), eval_set=draw(50, 3)
    )
    assert np.array_equal(pipeline.predict_proba(rows), direct.predict_proba(rows))
    assert len(pipeline[-1].calibration_.labels) == 40


def test_frames_of_a_pipeline_keep_their_names():
    pandas = pytest.importorskip("pandas")
    rows, labels = draw()
    frame = pandas.DataFrame(rows, columns=["a", "b", "c"])
    pipeline = make_pipeline(StandardScaler(), VoltaClassifier("linear")).set_output(transform="pandas")
    pipeline.fit(frame, labels)
    assert pipeline[-1].feature_names_in_.tolist() == ["a", "b", "c"]
    assert pipeline.predict(frame).shape == (150,)
