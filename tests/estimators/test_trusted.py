"""Trust around other libraries' classifiers: the same decisions, by rows that the model did not see."""

from __future__ import annotations

import copy
import io
from functools import cache
from typing import NamedTuple

import catboost
import joblib
import lightgbm
import numpy as np
import pandas as pd
import pytest
import torch
import xgboost
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_breast_cancer, load_iris, load_wine
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_predict
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.utils.estimator_checks import parametrize_with_checks

from volta import TrustedClassifier
from volta.core.errors import InputError
from volta.estimators.deciding import TooFewRowsWarning
from volta.estimators.model_files import StorageWarning
from volta.estimators.trusted import choose_for_fits
from volta.networks.outputs import LabelledOutputs, Outputs


def scaled_regression():
    return make_pipeline(StandardScaler(), LogisticRegression())


MODELS = {
    "regression": scaled_regression,
    "forest": lambda: RandomForestClassifier(20, random_state=0),
    "histogram": lambda: HistGradientBoostingClassifier(max_iter=10),
    "lightgbm": lambda: lightgbm.LGBMClassifier(n_estimators=10, verbose=-1, n_jobs=1),
    "xgboost": lambda: xgboost.XGBClassifier(n_estimators=10, n_jobs=1),
    "catboost": lambda: catboost.CatBoostClassifier(
        iterations=10, verbose=0, allow_writing_files=False, thread_count=1
    ),
    "margins": lambda: make_pipeline(StandardScaler(), LinearSVC()),
}


def cancer(names=("benign", "malignant")):
    rows, labels = load_breast_cancer(return_X_y=True)
    labels = np.array(names)[labels]
    new = np.arange(len(labels)) % 3 == 0
    return rows[~new], labels[~new], rows[new], labels[new]


@cache
def trusted_on_cancer(name):
    """Five fits of a kind of model, which several tests look at."""
    rows, labels, _, _ = cancer()
    return TrustedClassifier(MODELS[name]()).fit(rows, labels)


@parametrize_with_checks([TrustedClassifier(LogisticRegression())])
def test_scikit_learn_accepts_it(estimator, check):
    check(estimator)


@pytest.mark.parametrize("name", MODELS)
def test_every_kind_of_model_decides(name):
    rows, _, new, true = cancer()
    trusted = trusted_on_cancer(name)
    assert len(trusted.members_) == 5
    decisions = trusted.decide(new)
    answered = decisions.action == 0
    assert 0.75 < answered.mean() < 0.97
    assert (decisions.label[answered] == true[answered]).mean() > 0.92
    members = trusted.predict_set(new)[np.arange(len(true)), np.searchsorted(trusted.classes_, true)]
    assert members.mean() > 0.85
    assert trusted.is_ood(new).mean() < 0.12
    assert trusted.is_ood(new + 20.0 * rows.std(axis=0)).all()


@pytest.mark.parametrize("name", MODELS)
def test_a_fitted_model_is_only_calibrated(name):
    rows, labels, new, true = cancer((0, 1))
    model = MODELS[name]().fit(rows[::2], labels[::2])
    trusted = TrustedClassifier(model, prefit=True).fit(rows[1::2], labels[1::2])
    assert trusted.members_[0].model.estimator is model
    assert len(trusted.calibration_.labels) == len(rows[1::2]) // 2
    assert (trusted.predict(new) == true).mean() > 0.9
    assert trusted.is_ood(new).mean() < 0.12


def test_validation_rows_of_ones_own_leave_all_others_for_decisions():
    rows, labels, new, _ = cancer()
    model = scaled_regression().fit(rows[::3], labels[::3])
    trusted = TrustedClassifier(FrozenEstimator(model))
    trusted.fit(rows[1::3], labels[1::3], eval_set=(rows[2::3], labels[2::3]))
    assert len(trusted.calibration_.labels) == len(rows[1::3])
    assert len(trusted.calibration_.reference) == len(rows[2::3])
    assert trusted.decide(new).action.shape == (len(new),)
    with pytest.raises(InputError, match="cal_set is set, but a fitted estimator is calibrated on X"):
        trusted.fit(rows, labels, cal_set=(rows, labels))


def test_a_function_of_rows_is_a_model():
    rows, labels, new, _ = cancer((0, 1))
    model = scaled_regression().fit(rows[::2], labels[::2])
    with pytest.warns(StorageWarning, match="cannot be stored"):
        trusted = TrustedClassifier(model.predict_proba).fit(rows[1::2], labels[1::2])
    same = TrustedClassifier(model, prefit=True).fit(rows[1::2], labels[1::2])
    assert np.array_equal(trusted.predict_proba(new), same.predict_proba(new))


class Logits(NamedTuple):
    logits: torch.Tensor


class Named(torch.nn.Module):
    """A network that answers as those of Hugging Face do."""

    def __init__(self, network):
        super().__init__()
        self.network = network

    def forward(self, rows):
        return Logits(self.network(rows))


@pytest.mark.filterwarnings("ignore::volta.estimators.model_files.StorageWarning")
def test_a_network_is_a_model_and_is_known_again(tmp_path):
    rows, labels, new, true = cancer((0, 1))
    rows, new = rows / rows.max(axis=0), new / rows.max(axis=0)
    generator = torch.Generator().manual_seed(0)
    network = torch.nn.Sequential(torch.nn.Linear(30, 16), torch.nn.Dropout(), torch.nn.ReLU(), torch.nn.Linear(16, 2))
    for weight in network.parameters():
        torch.nn.init.normal_(weight, std=0.3, generator=generator)
    optimiser = torch.optim.Adam(network.parameters(), 0.02)
    for _ in range(100):
        optimiser.zero_grad()
        loss = torch.nn.functional.cross_entropy(network(torch.tensor(rows[::2]).float()), torch.tensor(labels[::2]))
        loss.backward()
        optimiser.step()
    trusted = TrustedClassifier(network).fit(rows[1::2], labels[1::2])
    assert network.training
    assert (trusted.predict(new) == true).mean() > 0.85
    one_by_one = np.concatenate([trusted.predict_proba(row[None]) for row in new[:5]])
    assert np.array_equal(one_by_one, trusted.predict_proba(new)[:5])
    named = TrustedClassifier(Named(network)).fit(rows[1::2], labels[1::2])
    assert np.array_equal(named.predict_proba(new), trusted.predict_proba(new))
    with pytest.raises(InputError, match="estimator is the network Sequential, which no file holds"):
        trusted.save(tmp_path / "model.safetensors")
    trusted.save(tmp_path / "model.safetensors", model=False)
    loaded = TrustedClassifier.load(tmp_path / "model.safetensors", estimator=network)
    assert np.array_equal(loaded.decide(new).action, trusted.decide(new).action)


def scores_of(given):
    return given[:, :2]


def one_column(given):
    return np.ones((len(given), 1))


@pytest.mark.filterwarnings("ignore::volta.estimators.model_files.StorageWarning")
def test_what_is_no_probability_is_refused():
    rows, labels, _, _ = cancer()
    with pytest.raises(InputError, match="row 0, which are no probabilities; return those, of logits their softmax"):
        TrustedClassifier(scores_of).fit(rows, labels)
    with pytest.raises(
        InputError, match=r"function of one_column gave an array of shape \(188, 1\) for 188 rows and 2"
    ):
        TrustedClassifier(one_column).fit(rows[:376], labels[:376])
    with pytest.raises(InputError, match="neither predict_proba nor decision_function"):
        TrustedClassifier(3).fit(rows, labels)
    with pytest.raises(InputError, match="prefit is True, but estimator is not fitted"):
        TrustedClassifier(LogisticRegression(), prefit=True).fit(rows, labels)
    with pytest.raises(InputError, match="there is no calibrator 'temprature'; did you mean temperature"):
        TrustedClassifier(LogisticRegression(), calibrator="temprature").fit(rows, labels)


def test_a_row_is_calibrated_by_the_fit_that_did_not_see_it():
    rows, labels = load_iris(return_X_y=True)
    trusted = TrustedClassifier(RandomForestClassifier(50, random_state=0), calibrator="none").fit(rows, labels)
    kept = trusted.calibration_
    assert kept.n_folds == 5
    assert len(kept.labels) == 150
    # A forest is nearly certain of rows that it was trained on.
    assert (kept.predicted == kept.labels).mean() < (trusted.predict(rows) == labels).mean()


def test_probabilities_of_exactly_0_stay_finite():
    rows, labels = load_iris(return_X_y=True)
    trusted = TrustedClassifier(RandomForestClassifier(5, random_state=0)).fit(rows, labels)
    forest = trusted.members_[0].model
    assert (forest.outputs(rows) == 0.0).any()
    assert np.isfinite(forest.logits(rows)).all()
    assert (trusted.predict_proba(rows) > 0.0).all()


def test_the_calibrator_is_chosen_by_loss_on_rows_it_did_not_see():
    random = np.random.default_rng(0)
    labels = random.integers(3, size=600)
    logits = random.normal(size=(600, 3)) + 2.0 * np.eye(3)[labels]

    def chosen(logits):
        return choose_for_fits([LabelledOutputs(Outputs(logits), labels)], seed=0)

    calibrated = 2.0 * logits
    assert choose_for_fits([LabelledOutputs(Outputs(calibrated[:120]), labels[:120])], seed=0) == "softmax"
    assert chosen(5.0 * calibrated) != "softmax"
    assert choose_for_fits([LabelledOutputs(Outputs(10.0 * logits[:100]), labels[:100])], seed=0) == "temperature"
    assert chosen(np.array([1.0, 4.0, 1.0]) * calibrated + np.array([0.0, 3.0, 0.0])) == "structured_vector_scaling"
    few = LabelledOutputs(Outputs(logits[:8]), labels[:8])
    assert choose_for_fits([few], seed=0) == "softmax"
    assert choose_for_fits([], seed=0) == "softmax"


def test_a_calibrator_lowers_the_loss_of_an_overconfident_model():
    rows, labels, new, true = cancer((0, 1))
    model = lightgbm.LGBMClassifier(n_estimators=400, verbose=-1, n_jobs=1).fit(rows[::2], labels[::2])

    def loss(name):
        trusted = TrustedClassifier(model, prefit=True, calibrator=name).fit(rows[1::2], labels[1::2])
        return -np.log(trusted.predict_proba(new)[np.arange(len(true)), true]).mean()

    assert loss("auto") < loss("none")
    assert loss("temperature") < loss("none")


def mixed(n_rows=240, seed=0):
    """Numbers, a category that decides half of the cases, and a text column that a pipeline leaves out."""
    random = np.random.default_rng(seed)
    labels = random.integers(2, size=n_rows)
    frame = pd.DataFrame(
        {"length": random.normal(size=n_rows) + 2.0 * labels, "width": random.normal(size=n_rows), "count": labels + 1}
    )
    return frame, np.array(["no", "yes"])[labels]


def test_a_pipeline_sees_the_data_frame_as_it_came():
    frame, labels = mixed()
    columns = make_column_transformer((StandardScaler(), ["width", "length"]))
    trusted = TrustedClassifier(make_pipeline(columns, LogisticRegression())).fit(frame, labels)
    assert trusted.feature_names_in_.tolist() == ["length", "width", "count"]
    assert trusted.members_[0].model.estimator[0].n_features_in_ == 3
    new, true = mixed(60, 1)
    assert (trusted.predict(new) == true).mean() > 0.75
    assert "length is 50" in str(trusted.explain(new.assign(length=50.0))[0])


def test_cells_of_a_text_file_reach_the_model_as_the_columns_they_were():
    """Trees of a data frame with a categorical column take numbers and categories, no texts of them."""
    rows, labels = load_iris(return_X_y=True, as_frame=True)
    rows["place"] = pd.Categorical(np.where(np.arange(len(rows)) % 2, "north", "south"))
    trusted = TrustedClassifier(lightgbm.LGBMClassifier(n_estimators=5, verbose=-1), calibration="split")
    trusted.fit(rows, labels)
    texts = [{name: str(value) for name, value in row.items()} for row in rows[:20].to_dict("records")]
    np.testing.assert_array_equal(trusted.predict_proba(texts), trusted.predict_proba(rows[:20]))


def test_sample_weights_reach_the_model():
    rows, labels, new, _ = cancer()
    weights = np.where(labels == "benign", 1.5, 0.5)
    rows, new = (StandardScaler().fit(rows).transform(given) for given in (rows, new))
    for model in (LogisticRegression(), make_pipeline(StandardScaler(), LogisticRegression())):
        plain, weighted = (
            TrustedClassifier(model, calibrator="none").fit(rows, labels, sample_weight=given).predict_proba(new)
            for given in (None, weights)
        )
        assert weighted[:, 0].mean() > plain[:, 0].mean() + 0.001
    nearest = KNeighborsClassifier()
    with pytest.raises(InputError, match="fit of KNeighborsClassifier takes none"):
        TrustedClassifier(nearest).fit(rows, labels, sample_weight=weights)
    twice = np.full(len(rows), 2.0)
    assert TrustedClassifier(nearest).fit(rows, labels, sample_weight=twice).predict_proba(new).shape == (190, 2)


@pytest.mark.slow
def test_a_search_in_processes():
    # Two processes start, and import all that the estimator needs.
    rows, labels, _, _ = cancer()
    grid = {"estimator__logisticregression__C": [0.001, 1.0]}
    search = GridSearchCV(TrustedClassifier(scaled_regression()), grid, cv=2, n_jobs=2).fit(rows, labels)
    assert search.best_params_["estimator__logisticregression__C"] == 1.0
    assert search.best_estimator_.decide(rows[:3]).action.shape == (3,)


def test_it_works_in_searches_copies_and_pickles():
    rows, labels, new, _ = cancer()
    trusted = TrustedClassifier(scaled_regression())
    search = GridSearchCV(trusted, {"estimator__logisticregression__C": [0.001, 1.0]}, cv=2).fit(rows, labels)
    assert search.best_params_["estimator__logisticregression__C"] == 1.0
    assert cross_val_predict(trusted, rows, labels, cv=2).shape == labels.shape
    last = make_pipeline(StandardScaler(), TrustedClassifier(LogisticRegression())).fit(rows, labels)
    assert last[-1].decide(last[0].transform(new)).action.shape == (len(new),)
    fitted = search.best_estimator_
    assert not hasattr(clone(fitted), "calibration_")
    pickled = io.BytesIO()
    joblib.dump(fitted, pickled)
    for other in (copy.deepcopy(fitted), joblib.load(io.BytesIO(pickled.getvalue()))):
        assert np.array_equal(other.decide(new).action, fitted.decide(new).action)


def test_one_row_gets_what_it_gets_among_others():
    _, _, new, _ = cancer()
    for name in ("regression", "forest", "lightgbm"):
        trusted = trusted_on_cancer(name)
        together = trusted.decide(new[:10])
        alone = [trusted.decide(new[[row]])[0] for row in range(10)]
        assert [found.pvalue for found in alone] == together.pvalue.tolist()
        assert [found.uncertainty for found in alone] == together.uncertainty.tolist()


def test_rows_in_another_order_fit_alike():
    rows, labels, new, _ = cancer()
    order = np.random.default_rng(0).permutation(len(rows))
    found = [
        TrustedClassifier(MODELS["regression"]()).fit(rows[index], labels[index]).predict_proba(new)
        for index in (np.arange(len(rows)), order)
    ]
    assert np.array_equal(*found)


def test_a_class_that_a_fit_does_not_see_gets_no_probability():
    rows, labels = load_wine(return_X_y=True)
    model = xgboost.XGBClassifier(n_estimators=5, n_jobs=1).fit(rows[labels != 2], labels[labels != 2])
    trusted = TrustedClassifier(model, prefit=True).fit(rows[labels < 2], labels[labels < 2])
    assert trusted.classes_.tolist() == [0, 1]
    with pytest.raises(InputError, match=r"y row .* has the label 2, which estimator lacks"):
        TrustedClassifier(model, prefit=True).fit(rows, labels)


def test_policy_monitor_and_explanation_are_those_of_every_classifier():
    rows, labels, new, _ = cancer()
    trusted = TrustedClassifier(MODELS["forest"](), keep_rows=True).fit(rows, labels)
    policy = trusted.fit_policy(max_error=0.05, confidence=0.9)
    assert policy.exists
    monitor = trusted.monitor(alpha=0.01)
    assert not monitor.update(np.random.default_rng(0).permutation(new)).alarm
    assert monitor.update(new + 10.0 * rows.std(axis=0)).alarm
    explained = trusted.explain(new[:1])[0]
    assert len(explained.rows) == 3
    assert np.array_equal(explained.rows[0].values, rows[explained.rows[0].index])
    with pytest.warns(TooFewRowsWarning):
        assert trusted.predict_set(new, alpha=0.001).all()
