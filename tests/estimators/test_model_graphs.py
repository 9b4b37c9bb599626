"""A wrapped model's graph gives Python's probabilities and decisions, next to the splits of its trees too.

Tests that export take over two seconds each: the exporter of PyTorch takes as long for a small graph.
"""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_breast_cancer, load_wine
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from tests.estimators.test_model_files import islands
from tests.estimators.test_trusted import MODELS, cancer
from volta import TrustedClassifier, load
from volta.core.errors import InputError
from volta.estimators import base_graphs, model_graphs
from volta.estimators.exact_graphs import lightgbm_trees
from volta.estimators.model_files import StorageWarning

onnx = pytest.importorskip("onnx", reason="needs the onnx extra: pip install 'volta-uq[onnx]'")
onnxruntime = pytest.importorskip("onnxruntime", reason="needs the onnx extra: pip install 'volta-uq[onnx]'")
pytest.importorskip("onnxmltools", reason="needs the onnx extra: pip install 'volta-uq[onnx]'")

PIPED = {"piped": lambda: make_pipeline(StandardScaler(), MODELS["lightgbm"]())}


def assert_decides_alike(path, trusted, rows, dtype):
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    got = dict(zip(names, session.run(None, {"inputs": rows.astype(dtype)}), strict=True))
    rows = rows.astype(dtype).astype(np.float64)
    expected = trusted.decide(rows)
    np.testing.assert_allclose(got["probs"], trusted.predict_proba(rows), atol=1e-5)
    np.testing.assert_array_equal(got["decision"], expected.action)
    np.testing.assert_array_equal(got["set"], expected.sets)
    np.testing.assert_array_equal(trusted.classes_[got["label"]], expected.label)
    return session


@pytest.mark.parametrize(
    "name", ["lightgbm", *(pytest.param(name, marks=pytest.mark.slow) for name in [*MODELS, *PIPED])]
)
@pytest.mark.parametrize("dtype", ["float32", pytest.param("float64", marks=pytest.mark.slow)])
def test_every_kind_of_model_decides_in_a_graph(tmp_path, name, dtype):
    # Slow but for one kind: each is an export.
    rows, labels, new, _ = cancer()
    trusted = TrustedClassifier((MODELS | PIPED)[name](), calibration="split").fit(rows, labels)
    trusted.to_onnx(tmp_path / "model.onnx", dtype=dtype)
    session = assert_decides_alike(tmp_path / "model.onnx", trusted, new, dtype)
    notes = session.get_modelmeta().custom_metadata_map
    assert json.loads(notes["classes"]) == ["benign", "malignant"]
    assert "Classifier" in notes["model"] or "SVC" in notes["model"] or "Regression" in notes["model"]


@pytest.mark.slow
def test_cross_fitted_models_are_one_graph_and_a_loaded_one_exports_too(tmp_path):
    # Five fits' evidence is exported.
    rows, labels = load_wine(return_X_y=True)
    trusted = TrustedClassifier(MODELS["lightgbm"]()).fit(rows, labels)
    trusted.save(tmp_path / "model.safetensors")
    load(tmp_path / "model.safetensors").to_onnx(tmp_path / "model.onnx")
    assert_decides_alike(tmp_path / "model.onnx", trusted, rows, "float32")


def test_a_graph_that_would_decide_otherwise_is_refused_with_the_cause(tmp_path, monkeypatch):
    rows, labels, _, _ = cancer()
    trusted = TrustedClassifier(MODELS["lightgbm"](), calibration="split").fit(rows, labels)

    def rounded(model):
        # What LightGBM's converter writes: thresholds rounded to the nearest float32.
        found = lightgbm_trees(model)
        trees = [replace(tree, thresholds=np.float64(np.float32(tree.thresholds))) for tree in found.trees]
        return replace(found, trees=trees)

    monkeypatch.setitem(base_graphs.READERS, "lightgbm", rounded)
    with pytest.raises(
        InputError, match=r"differs from Python for \d+ of \d+ rows tried, first for a row next to a split"
    ):
        trusted.to_onnx(tmp_path / "model.onnx")
    assert not (tmp_path / "model.onnx").exists()


def test_thresholds_of_lightgbm_keep_their_digits():
    rows, labels, _, _ = cancer((0, 1))
    model = MODELS["lightgbm"]().fit(rows, labels)
    values = {value for _, value in model_graphs.tree_thresholds(base_graphs._converted(model, 30))}
    exact = set(model.booster_.trees_to_dataframe().threshold.dropna())
    assert values == exact
    assert any(float(np.float32(value)) != value for value in exact)


def test_what_has_no_graph_is_named(tmp_path):
    rows, labels, _, _ = cancer()
    model = MODELS["lightgbm"]().fit(rows[::2], labels[::2])
    with pytest.warns(StorageWarning):
        trusted = TrustedClassifier(model.predict_proba).fit(rows[1::2], labels[1::2])
    with pytest.raises(InputError, match="estimator is the function predict_proba, which has no graph"):
        trusted.to_onnx(tmp_path / "model.onnx")
    nearest = TrustedClassifier(KNeighborsClassifier(), calibration="split").fit(rows, labels)
    with pytest.raises(InputError, match="dtype is 'float16'; pass float32 or float64"):
        nearest.to_onnx(tmp_path / "model.onnx", dtype="float16")
    isotonic = TrustedClassifier(MODELS["lightgbm"](), calibration="split", calibrator="isotonic").fit(rows, labels)
    with pytest.raises(InputError, match="Isotonic regression cannot be exported to ONNX"):
        isotonic.to_onnx(tmp_path / "model.onnx")


@pytest.mark.slow
def test_columns_of_numbers_that_a_model_picks_by_name_are_inputs(tmp_path):
    # An export.
    table, labels = load_breast_cancer(return_X_y=True, as_frame=True)
    columns = make_column_transformer((StandardScaler(), ["mean radius", "worst area"]), remainder="passthrough")
    trusted = TrustedClassifier(make_pipeline(columns, MODELS["lightgbm"]()), calibration="split").fit(table, labels)
    trusted.to_onnx(tmp_path / "model.onnx")
    session = onnxruntime.InferenceSession(str(tmp_path / "model.onnx"), providers=["CPUExecutionProvider"])
    names = [given.name for given in session.get_inputs()]
    assert names == list(table.columns)
    decision, probs = session.run(["decision", "probs"], {name: table[[name]].to_numpy() for name in names})
    np.testing.assert_array_equal(decision, trusted.decide(table).action)
    np.testing.assert_allclose(probs, trusted.predict_proba(table), atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["lightgbm", "xgboost", "catboost", "histogram", "forest", "regression"])
def test_a_mixed_table_has_an_input_for_each_column(tmp_path, name):
    # Exports.
    frame, labels = islands(400)
    first = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    columns = make_column_transformer((first, ["island"]), remainder="passthrough")
    trusted = TrustedClassifier(make_pipeline(columns, MODELS[name]()), calibration="split").fit(frame, labels)
    trusted.to_onnx(tmp_path / "model.onnx")
    session = onnxruntime.InferenceSession(str(tmp_path / "model.onnx"), providers=["CPUExecutionProvider"])
    new = islands(60, 1)[0]
    new.loc[0, "island"] = "Atlantis"
    given = {"mass": new[["mass"]].to_numpy(), "island": new[["island"]].to_numpy().astype(object)}
    decision, probs = session.run(["decision", "probs"], given)
    np.testing.assert_array_equal(decision, trusted.decide(new).action)
    np.testing.assert_allclose(probs, trusted.predict_proba(new), atol=1e-9)
    assert decision[0] == 2


def test_a_model_that_takes_text_by_itself_has_no_graph(tmp_path):
    frame, labels = islands(300)
    frame["island"] = frame["island"].astype("category")
    trusted = TrustedClassifier(MODELS["lightgbm"](), calibration="split").fit(frame, labels)
    with pytest.raises(InputError, match="put a ColumnTransformer that makes numbers of it before the model"):
        trusted.to_onnx(tmp_path / "model.onnx")
