"""Trees and linear models as graphs give what their libraries do, to the last digits."""

from __future__ import annotations

import catboost
import lightgbm
import numpy as np
import pandas as pd
import pytest
import xgboost
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_wine
from sklearn.ensemble import (
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier

from volta.core.errors import InputError
from volta.data.column_encoding import fit_schema
from volta.estimators.base_models import BaseModel, fit_base, response_of

pytest.importorskip("onnxmltools", reason="needs the onnx extra: pip install 'volta-uq[onnx]'")
base_graphs = pytest.importorskip("volta.estimators.base_graphs", reason="needs the onnx extra")
model_graphs = pytest.importorskip("volta.estimators.model_graphs", reason="needs the onnx extra")

TREES = {
    "lightgbm": lambda: lightgbm.LGBMClassifier(n_estimators=10, verbose=-1, n_jobs=1),
    "xgboost": lambda: xgboost.XGBClassifier(n_estimators=10, n_jobs=1),
    "catboost": lambda: catboost.CatBoostClassifier(
        iterations=10, verbose=0, allow_writing_files=False, thread_count=1
    ),
    "histogram": lambda: HistGradientBoostingClassifier(max_iter=10),
    "forest": lambda: RandomForestClassifier(10, random_state=0),
    "extra": lambda: ExtraTreesClassifier(10, random_state=0),
    "tree": lambda: DecisionTreeClassifier(random_state=0),
    "boosting": lambda: GradientBoostingClassifier(n_estimators=5, random_state=0),
}
LINEAR = {
    "regression": lambda: make_pipeline(StandardScaler(), LogisticRegression()),
    "margins": lambda: make_pipeline(StandardScaler(), LinearSVC()),
}


def fitted(model, rows, labels):
    classes, numbers = np.unique(labels, return_inverse=True)
    return fit_base(model, rows, numbers, classes, None, 1e-9)


def in_graph(model, rows):
    return base_graphs.outputs_of_graph(base_graphs.base_graph(model, rows, None), {"inputs": rows})


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("name", [*TREES, *LINEAR])
def test_a_graph_computes_as_the_library_does(name, n_classes):
    rows, labels = load_wine(return_X_y=True)
    rows = rows[labels < n_classes].copy()
    if name not in ("boosting", *LINEAR):
        rows[::7, 3] = np.nan
    model = fitted((TREES | LINEAR)[name](), rows, labels[labels < n_classes])
    expected = model.outputs(rows)
    found = in_graph(model, rows)
    if found.shape[1] == 1:
        expected = expected[:, 1:]
    np.testing.assert_allclose(found, expected, rtol=1e-13, atol=1e-13)
    if name == "xgboost":
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("name", ["lightgbm", "xgboost", "catboost", "histogram", "forest", "regression"])
def test_a_mixed_table_computes_as_the_library_does(name):
    random = np.random.default_rng(0)
    labels = random.integers(3, size=300)
    table = pd.DataFrame(
        {
            "bill length (mm)": labels + random.normal(size=300),
            "mass": 0.1 * labels + random.random(300),
            "island": np.array(["Biscoe", "Dream", "Torgersen"])[np.where(random.random(300) < 0.7, labels, 1)],
            "sex": np.array(["male", "female", None], dtype=object)[random.integers(3, size=300)],
        }
    )
    table.loc[::11, "mass"] = np.nan
    encoder = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    numbers = make_pipeline(SimpleImputer(strategy="median"), StandardScaler())
    columns = make_column_transformer((encoder, ["island", "sex"]), (numbers, ["bill length (mm)", "mass"]))
    last = LogisticRegression() if name == "regression" else TREES[name]()
    model = fitted(make_pipeline(columns, last), table, labels)
    schema = fit_schema(table)
    new = table.copy()
    new.loc[:9, "island"] = "Atlantis"
    graph = base_graphs.base_graph(model, new, schema)
    found = base_graphs.outputs_of_graph(graph, model_graphs.column_feeds(schema, new))
    np.testing.assert_allclose(found, model.outputs(new), rtol=1e-12, atol=1e-12)


def test_xgboost_is_asked_for_margins_and_lacks_no_class():
    rows, labels = load_wine(return_X_y=True)
    model = fitted(TREES["xgboost"](), rows, labels)
    assert model.response == response_of(model.estimator) == "output_margin"
    np.testing.assert_allclose(np.exp(model.logits(rows)), np.exp(model.outputs(rows)))
    shares = np.exp(model.logits(rows)) / np.exp(model.logits(rows)).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(shares, model.estimator.predict_proba(rows), atol=1e-6)
    seen = fitted(TREES["xgboost"](), rows[labels < 2], labels[labels < 2])
    two_of_three = BaseModel(seen.estimator, seen.response, np.array([0, 2]), 3, 1e-9)
    np.testing.assert_allclose(np.exp(two_of_three.logits(rows))[:, [0, 2]], seen.estimator.predict_proba(rows), 1e-5)


@pytest.mark.parametrize(
    ("model", "said"),
    [
        (lightgbm.LGBMClassifier(n_estimators=2, verbose=-1, linear_tree=True), "linear_tree has no graph"),
        (
            GradientBoostingClassifier(loss="exponential", n_estimators=2),
            "loss 'exponential' or init None has no graph",
        ),
    ],
)
def test_what_has_no_exact_graph_is_named(model, said):
    rows, labels = load_wine(return_X_y=True)
    rows, labels = rows[labels < 2], labels[labels < 2]
    with pytest.raises(InputError, match=said):
        in_graph(fitted(model, rows, labels), rows)
