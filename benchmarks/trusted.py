"""``python benchmarks/trusted.py [FOLDER]``: what TrustedClassifier costs; with FOLDER, parity on mixed tables too.

FOLDER holds CSV files of mixed tables, the last column being the class. Each is fitted by five kinds of model behind a
ColumnTransformer; decisions of Python, of the saved file and of the ONNX graph are compared on samples held out.
"""

from __future__ import annotations

import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
import pandas as pd
import xgboost
from sklearn.compose import make_column_transformer
from sklearn.datasets import make_classification
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from volta import TrustedClassifier, load
from volta.core.errors import VoltaError

MODELS: dict[str, Callable[[], Any]] = {
    "histogram": lambda: HistGradientBoostingClassifier(max_iter=100),
    "lightgbm": lambda: lightgbm.LGBMClassifier(verbose=-1, n_jobs=1),
    "xgboost": lambda: xgboost.XGBClassifier(n_jobs=1),
    "forest": lambda: RandomForestClassifier(100, random_state=0),
    "regression": lambda: LogisticRegression(max_iter=1000),
}
ROUNDS = 5


def seconds(call: Callable[[], Any], rounds: int = ROUNDS) -> float:
    """Return the shortest time of a few calls."""
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)


def cost() -> None:
    """Print the time of wrapped predictions in units of the model's own, and what one row costs more."""
    rows, labels = make_classification(103_000, 20, n_informative=10, random_state=0)
    new, one = rows[3000:], rows[:1]
    print("model,own_100000_s,wrapped_ratio,decide_ratio,own_row_ms,extra_row_ms")
    for name, make in MODELS.items():
        model = make().fit(rows[:2000], labels[:2000])
        trusted = TrustedClassifier(model, prefit=True).fit(rows[2000:3000], labels[2000:3000])
        own = seconds(lambda model=model: model.predict_proba(new))
        wrapped = seconds(lambda trusted=trusted: trusted.predict_proba(new))
        decided = seconds(lambda trusted=trusted: trusted.decide(new), 1)
        single = seconds(lambda model=model: model.predict_proba(one), 100)
        extra = seconds(lambda trusted=trusted: trusted.predict_proba(one), 100) - single
        print(f"{name},{own:.3f},{wrapped / own:.2f},{decided / own:.2f},{1000 * single:.3f},{1000 * extra:.3f}")


def parity(folder: Path) -> None:
    """Print for each table and model whether file and graph decide as Python does."""
    import onnxruntime

    print("table,model,rows,file_differs,graph_differs,note")
    for path in sorted(folder.glob("*.csv")):
        table = pd.read_csv(path)
        labels, table = table.iloc[:, -1].astype(str).to_numpy(), table.iloc[:, :-1]
        text = [name for name in table.columns if table[name].dtype.kind not in "ifb"]
        # skl2onnx imputes no text: its missing cells are a level of their own.
        table[text] = table[text].fillna("missing")
        numbers = [name for name in table.columns if name not in text]
        held = np.random.default_rng(0).random(len(table)) < 0.3
        for name, make in MODELS.items():
            first = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
            columns = make_column_transformer(
                (first, text), (make_pipeline(SimpleImputer(strategy="median"), StandardScaler()), numbers)
            )
            trusted = TrustedClassifier(make_pipeline(columns, make()), calibration="split")
            trusted.fit(table[~held], labels[~held])
            new = table[held]
            expected = trusted.decide(new).action
            with tempfile.TemporaryDirectory() as scratch:
                trusted.save(f"{scratch}/model.safetensors")
                differs = int((load(f"{scratch}/model.safetensors").decide(new).action != expected).sum())
                graph, note = "", ""
                try:
                    trusted.to_onnx(f"{scratch}/model.onnx")
                    session = onnxruntime.InferenceSession(f"{scratch}/model.onnx")
                    given = {
                        each.name: new[[each.name]].to_numpy().astype(object)
                        if each.type == "tensor(string)"
                        else new[[each.name]].to_numpy(dtype=np.float64)
                        for each in session.get_inputs()
                    }
                    graph = int((session.run(["decision"], given)[0] != expected).sum())
                except VoltaError as error:
                    note = f"refused: {error}"[:160].replace(",", ";")
            print(f"{path.stem},{name},{held.sum()},{differs},{graph},{note}", flush=True)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    if len(sys.argv) > 1:
        parity(Path(sys.argv[1]))
    else:
        cost()
