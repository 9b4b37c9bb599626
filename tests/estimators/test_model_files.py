"""Other libraries' models in files of ours: nothing is pickled, and a file without a model knows its own again."""

from __future__ import annotations

import lightgbm
import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_wine
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from tests.bench.running import volta as run
from tests.estimators.test_trusted import MODELS, cancer
from volta import TrustedClassifier, load
from volta.core.errors import InputError, StoreError
from volta.estimators.model_files import StorageWarning

PIPED = {"piped": lambda: make_pipeline(StandardScaler(), MODELS["lightgbm"]())}


@pytest.mark.parametrize("name", [*MODELS, *PIPED])
@pytest.mark.parametrize("frame", [False, True], ids=["array", "frame"])
def test_a_saved_model_decides_as_before(tmp_path, name, frame):
    rows, labels, new, _ = cancer()
    if frame:
        rows, new = (pd.DataFrame(given, columns=[f"column {j}" for j in range(30)]) for given in (rows, new))
    trusted = TrustedClassifier((MODELS | PIPED)[name](), calibration="split").fit(rows, labels)
    path = tmp_path / "model.safetensors"
    trusted.save(path)
    loaded = load(path)
    assert isinstance(loaded, TrustedClassifier)
    before, after = trusted.decide(new), loaded.decide(new)
    assert np.array_equal(before.probability, after.probability)
    assert np.array_equal(before.action, after.action)
    assert np.array_equal(before.sets, after.sets)
    assert str(loaded.explain(new[:1])[0]) == str(trusted.explain(new[:1])[0])
    loaded.save(tmp_path / "again.safetensors")
    assert np.array_equal(load(tmp_path / "again.safetensors").predict_proba(new), trusted.predict_proba(new))


def test_all_fits_of_a_cross_fitted_model_are_stored(tmp_path):
    rows, labels = load_wine(return_X_y=True)
    trusted = TrustedClassifier(MODELS["lightgbm"](), keep_rows=True).fit(rows, labels)
    trusted.fit_policy(coverage=0.8)
    trusted.save(tmp_path / "model.safetensors")
    loaded = TrustedClassifier.load(tmp_path / "model.safetensors")
    assert len(loaded.members_) == 5
    assert loaded.policy_ == trusted.policy_
    assert np.array_equal(loaded.decide(rows).action, trusted.decide(rows).action)
    assert loaded.explain(rows[:1])[0].rows[0].index == 0


def test_the_trust_layer_alone_takes_no_other_model(tmp_path):
    rows, labels, new, _ = cancer((0, 1))
    model, other = (MODELS["forest"]().fit(rows[start::3], labels[start::3]) for start in (0, 1))
    trusted = TrustedClassifier(model, prefit=True).fit(rows[2::3], labels[2::3])
    path = tmp_path / "model.safetensors"
    trusted.save(path, model=False)
    assert path.stat().st_size < 200_000
    again = TrustedClassifier.load(path, estimator=model)
    assert np.array_equal(again.decide(new).action, trusted.decide(new).action)
    with pytest.raises(StoreError, match="was fitted for another model than estimator: outputs for the 63 samples"):
        TrustedClassifier.load(path, estimator=other)
    with pytest.raises(InputError, match=r"holds no model .*; pass the fitted one: load\(path, estimator=model\)"):
        load(path)
    trusted.save(path)
    with pytest.raises(InputError, match=r"estimator is set, but .* holds its model"):
        TrustedClassifier.load(path, estimator=model)


class Doubled(TransformerMixin, BaseEstimator):
    """A transformer of the user's own."""

    def fit(self, rows, labels=None):
        return self

    def transform(self, rows):
        return 2.0 * rows


def test_types_of_other_packages_are_named_and_have_to_be_trusted(tmp_path):
    rows, labels, new, _ = cancer()
    with pytest.warns(StorageWarning, match=r"holds tests\.estimators\.test_model_files\.Doubled"):
        trusted = TrustedClassifier(make_pipeline(StandardScaler(), Doubled(), LogisticRegression())).fit(rows, labels)
    path = tmp_path / "model.safetensors"
    trusted.save(path)
    name = "tests.estimators.test_model_files.Doubled"
    with pytest.raises(StoreError, match=rf"asks for code of the types {name}; if you trust it"):
        load(path)
    loaded = TrustedClassifier.load(path, trusted=[name])
    assert np.array_equal(loaded.predict_proba(new), trusted.predict_proba(new))


def test_a_function_is_stored_by_nobody(tmp_path):
    rows, labels, new, _ = cancer()
    model = lightgbm.LGBMClassifier(n_estimators=5, verbose=-1).fit(rows[::2], labels[::2])
    with pytest.warns(StorageWarning, match=r"save\(path, model=False\) will store the trust layer alone"):
        trusted = TrustedClassifier(model.predict_proba).fit(rows[1::2], labels[1::2])
    with pytest.raises(InputError, match=r"is the function predict_proba, which no file holds; pass save"):
        trusted.save(tmp_path / "model.safetensors")
    trusted.save(tmp_path / "model.safetensors", model=False)
    loaded = TrustedClassifier.load(tmp_path / "model.safetensors", estimator=model.predict_proba)
    assert np.array_equal(loaded.decide(new).action, trusted.decide(new).action)


def test_a_file_that_was_altered_is_refused(tmp_path):
    rows, labels = load_wine(return_X_y=True)
    path = tmp_path / "model.safetensors"
    TrustedClassifier(MODELS["lightgbm"]()).fit(rows, labels).save(path)
    data = bytearray(path.read_bytes())
    data[-100] ^= 1
    path.write_bytes(data)
    with pytest.raises(StoreError, match="was altered or damaged"):
        load(path)


def islands(n_rows=120, seed=0):
    random = np.random.default_rng(seed)
    labels = random.integers(2, size=n_rows)
    mass = random.normal(size=n_rows) + 2.0 * labels
    mass[::17] = np.nan
    frame = pd.DataFrame({"mass": mass, "island": np.where(random.random(n_rows) < 0.8, labels, 1 - labels)})
    frame["island"] = np.array(["Biscoe", "Dream"])[frame["island"]]
    return frame, np.array(["no", "yes"])[labels]


def test_the_shell_decides_by_a_model_of_a_mixed_table(tmp_path):
    frame, labels = islands()
    columns = make_column_transformer((OneHotEncoder(handle_unknown="ignore"), ["island"]), remainder="passthrough")
    trusted = TrustedClassifier(make_pipeline(columns, MODELS["lightgbm"]())).fit(frame, labels)
    trusted.save(tmp_path / "model.safetensors")
    new = islands(30, 1)[0]
    new.to_csv(tmp_path / "new.csv", index=False)
    assert (
        run("decide", tmp_path / "model.safetensors", tmp_path / "new.csv", "--out", tmp_path / "d.csv").returncode == 0
    )
    expected = trusted.decide(new)
    assert pd.read_csv(tmp_path / "d.csv")["pvalue"].tolist() == pytest.approx(expected.pvalue.tolist())
    assert run("card", tmp_path / "model.safetensors").returncode == 0
    page = (tmp_path / "model-card.md").read_text(encoding="utf-8")
    assert "**model**: Pipeline" in page or "**model**: ColumnTransformer" in page
    atlantis = trusted.decide([{"mass": 1.0, "island": "Atlantis"}])[0]
    assert atlantis.action == "ood"
    assert "column 'island' is 'Atlantis'" in atlantis.reason
