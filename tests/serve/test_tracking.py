"""What MLflow gets, where it is installed."""

from __future__ import annotations

import sys

import numpy as np
import pandas as pd
import pytest

from volta import VoltaClassifier, evaluate, log_to_mlflow
from volta.core.errors import InputError, MissingDataError
from volta.serve.tracking import PyfuncModel

from .conftest import COLUMNS, make_rows


def test_the_pyfunc_model_decides_frames(model, model_path):
    rows, _ = make_rows(20, 1)
    table = pd.DataFrame(rows, columns=COLUMNS, index=range(100, 120))
    found = PyfuncModel(model).predict(table[COLUMNS[::-1]])
    expected = VoltaClassifier.load(model_path).decide(table)
    assert found.index.tolist() == table.index.tolist()
    assert found["pvalue"].tolist() == expected.pvalue.tolist()
    table.loc[103, "width"] = np.nan
    found = PyfuncModel(model).predict(table)
    assert found.loc[103, "reason"] == "column 'width' is missing"
    assert found.loc[103, "action"] == "abstain"
    assert found["pvalue"].drop(index=103).tolist() == np.delete(expected.pvalue, 3).tolist()


def test_without_mlflow_it_says_what_to_install(model, monkeypatch):
    monkeypatch.setitem(sys.modules, "mlflow", None)
    with pytest.raises(MissingDataError, match="pip install mlflow"):
        log_to_mlflow(model.classifier)


@pytest.mark.slow  # imports MLflow and writes a run
@pytest.mark.filterwarnings("ignore")
def test_a_run_holds_parameters_card_model_and_metrics(model, tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    mlflow = pytest.importorskip("mlflow")
    mlflow.set_tracking_uri((tmp_path / "runs").as_uri())
    mlflow.set_experiment("trees")
    with mlflow.start_run() as run:
        log_to_mlflow(model.classifier)
        draw = np.random.default_rng(0)
        log_to_mlflow(evaluate(draw.dirichlet(np.ones(3), size=60), draw.integers(3, size=60)))
        with pytest.raises(InputError, match="subject is a int"):
            log_to_mlflow(5)
    stored = mlflow.get_run(run.info.run_id).data
    assert stored.params["method"] == "linear"
    assert stored.metrics["calibration/rows"] == 400
    assert "test/accuracy" in stored.metrics
    (logged,) = mlflow.search_logged_models(output_format="list")
    loaded = mlflow.pyfunc.load_model(logged.model_uri)
    rows, _ = make_rows(5, 2)
    assert loaded.predict(pd.DataFrame(rows, columns=COLUMNS))["action"].tolist()
