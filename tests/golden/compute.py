"""Compute what is frozen, through public interfaces alone; run by `make.py` in a process of its own.

python -m tests.golden.compute FOLDER

"""

from __future__ import annotations

import importlib.metadata
import json
import lzma
import os
import platform
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import onnxruntime
import threadpoolctl
import torch
from sklearn.datasets import load_breast_cancer, load_wine

import volta
from tests.golden.values import HERE, Values, array_values, csv_values, path_of, table_values, write_values
from volta.cli.main import app

# Written out, so that a method that is added later leaves the frozen run as it is.
METHODS = (
    *("volta", "softmax", "mc_dropout", "swag", "gmm", "temperature", "energy", "mahalanobis", "hyperbolic", "enn"),
    *("taylor_sensus", "conformal", "linear", "ensemble", "knn", "vim", "max_logit", "laplace", "rmds"),
    *("vector_scaling", "aps", "volta_plus", "gen", "maxlogit_pnorm", "fdbd", "nci", "neco", "nnguide", "react"),
    *("weiper", "mds_plus", "rmds_plus", "sirc", "structured_vector_scaling"),
    *("structured_matrix_scaling", "ensemble_temperature", "isotonic"),
)
PAPER_METHODS = ("volta", "softmax", "scale")  # `scale` asks for the networks of this protocol
# All severities are computed, and one is kept: it is the same code for each.
KEPT_SEVERITY = "-3"
TABLES = ("results", "summary", "tests", "pairs", "leaderboard", "ranks", "corruptions")
MODELS = HERE / "models"


def command(*arguments: object) -> None:
    """Run the `volta` command, in this process: another would import everything again."""
    app(list(map(str, arguments)), standalone_mode=False)


def scattered(salt: int, *shape: int) -> np.ndarray:
    """Return numbers in [0, 1) by integer arithmetic: no library's random generator has a say in them."""
    state = np.arange(1, int(np.prod(shape)) + 1, dtype=np.uint64) + np.uint64(salt * 1_000_003)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (31, 1)):
        state = (state ^ (state >> np.uint64(shift))) * np.uint64(factor)
    return (state >> np.uint64(40)).astype(np.float64).reshape(shape) / 2.0**24


def tables_of(run: Path) -> Values:
    """Return the numbers of the tables in a run folder."""
    found: Values = {}
    for name in TABLES:
        if (run / f"{name}.csv").is_file():
            found |= csv_values(run / f"{name}.csv")
    return found


def rows_of(table: volta.Table) -> list[dict[str, object]]:
    """Return the rows of a table by column."""
    return [dict(zip(table.columns, row, strict=True)) for row in table.rows]


def kept(values: Values) -> Values:
    """Return values without those of the severities that are left out."""
    sets = {key: next((word for word in key[1].split() if word.startswith("shift:")), "") for key in values}
    return {key: value for key, value in values.items() if not sets[key] or sets[key].endswith(KEPT_SEVERITY)}


def digits_methods(work: Path) -> Values:
    """Run every method and every row of the ablation on `digits`, with one seed and two epochs."""
    found: Values = {}
    for protocol, methods in (("fair", METHODS), ("paper", PAPER_METHODS)):
        run = volta.benchmark(
            *("digits", methods, 1),
            protocol=protocol,
            ablation=protocol == "fair",
            max_epochs=2,
            executor="local",
            out=work / protocol,
            progress=False,
        )
        assert not run.failures, run.failures
        found |= table_values("results", rows_of(run.results()))
    return kept(found)


def digits_tables(work: Path) -> Values:
    """Run a few methods with three seeds and return the tables about them; `evaluate` has those that a report writes."""
    methods = ["volta", "linear", "knn", "temperature"]
    run = volta.benchmark(*("digits", methods, 3), max_epochs=2, executor="local", out=work / "run", progress=False)
    tables = {
        "summary": run.summary(),
        "tests": run.tests(),
        "pairs": run.tests("all"),
        "leaderboard": run.leaderboard(),
    }
    found: Values = {}
    for name, table in tables.items():
        found |= table_values(name, rows_of(table))
    return kept(found)


def evaluate(work: Path) -> Values:
    """Evaluate a CSV of three methods' predictions, with val rows, a near and a far OOD set; nothing is trained."""
    lines = ["method,seed,set,id,label,p_0,p_1,p_2"]
    sizes = {"test": 120, "val": 60, "shift:blur-1": 60, "ood:close": 40, "ood:far": 40}
    for strength, method in enumerate(("blunt", "sharp", "sharper"), start=1):
        for seed in (1, 2, 3):
            for salt, (name, size) in enumerate(sizes.items()):
                labels = (3 * scattered(salt, size)).astype(int)
                known = not name.startswith("ood:")
                weights = scattered(1000 * strength + 10 * seed + salt, size, 3) + 0.01
                weights[np.arange(size), labels] += strength * (0.2 if known else 0.1 if name == "ood:close" else 0.0)
                for row, cells in enumerate(weights / weights.sum(1, keepdims=True)):
                    probs = ",".join(f"{cell:.5f}" for cell in cells)
                    lines.append(f"{method},{seed},{name},r{row},{labels[row] if known else ''},{probs}")
    (work / "mine.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    options = ("--near", "close", "--resamples", 200, "--reference", "blunt")
    command("evaluate", work / "mine.csv", "--out", work / "evaluated", *options)
    return tables_of(work / "evaluated")


def imported(work: Path) -> Values:
    """Import a CSV as a task, and return its splits and the results of two methods on it."""
    rows, labels = load_wine(return_X_y=True)
    names = ",".join(f"c{column}" for column in range(rows.shape[1]))
    for name, inputs, marks in (("wine", rows, labels), ("far", rows[::4, ::-1], None)):
        ending = [""] * len(inputs) if marks is None else [f",kind{mark}" for mark in marks]
        cells = (",".join(map(repr, values)) for values in inputs.tolist())
        header = names if marks is None else f"{names},kind"
        text = "\n".join([header, *(f"{row}{end}" for row, end in zip(cells, ending, strict=True))])
        (work / f"{name}.csv").write_text(text + "\n", encoding="utf-8")
    data = work / "data"
    far = f"far={work / 'far.csv'}"
    command("data", "import", work / "wine.csv", "--name", "wine", "--label", "kind", "--ood", far, "--data", data)
    task = volta.find_task("wine", data).load("features")
    parts = {"train": task.fit.train, "val": task.fit.val, "cal": task.fit.cal, "test": task.test}
    found: Values = {}
    for name, part in parts.items():
        # The columns c12 and c0 together tell every row from every other.
        arrays = {"label": part.labels, "first": part.inputs[:, 0], "last": part.inputs[:, -1]}
        found |= array_values(f"split {name}", {kind: values.tolist() for kind, values in arrays.items()})
    found |= array_values("split ood:far", {"sum": task.ood["far"].inputs.astype(np.float64).sum(1).tolist()})
    run = volta.benchmark("wine", ["linear", "knn(k=10)"], seeds=1, max_epochs=3, executor="local", data=data,
                          out=work / "wine-run", progress=False)  # fmt: skip
    return found | table_values("results", rows_of(run.results()))


def cancer() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return rows to fit, their labels, and rows to judge, of which the last four are far out."""
    rows, labels = load_breast_cancer(return_X_y=True)
    rows = rows[:, :8]  # few columns keep the saved models small
    new = np.concatenate([rows[450:474], rows[450:454] * [[1.5], [3.0], [10.0], [-1e3]]])
    return rows[:450], labels[:450], new


def posthoc_rows(salt: int, size: int) -> volta.LabelledOutputs:
    """Return logits and features of a network that was never there."""
    labels = (3 * scattered(salt, size)).astype(np.int64)
    features = scattered(salt + 1, size, 6) - 0.5
    features[np.arange(size), labels] += 1.0
    return volta.LabelledOutputs(volta.Outputs(4 * features[:, :3], features), labels)


def judged(table: str, model: Any, new: Any) -> Values:
    """Return all that a model says of new rows."""
    decided = model.decide(new)
    arrays = {
        "proba": model.predict_proba(new),
        "uncertainty": model.uncertainty(new),
        "ood_pvalue": model.ood_pvalues(new),
        "is_ood": model.is_ood(new, fpr=0.05),
        "set": model.predict_set(new, alpha=0.1),
        "class_set": model.predict_set(new, alpha=0.2, conditional="class"),
        "action": [("answer", "abstain", "ood").index(row.action) for row in decided],
        "label": [row.label for row in decided],
        "decided_probability": [row.probability for row in decided],
        "decided_pvalue": [row.pvalue for row in decided],
        "decided_size": [len(row.classes) for row in decided],
    }
    return array_values(table, {name: np.asarray(values).tolist() for name, values in arrays.items()})


def fitted(method: str, calibration: Any = "auto") -> volta.VoltaClassifier:
    """Return a classifier fitted to the fixed rows, with a policy."""
    rows, labels, _ = cancer()
    model = volta.VoltaClassifier(method, max_epochs=5, calibration=calibration).fit(rows, labels)
    model.fit_policy(coverage=0.9)
    return model


def fits(_work: Path) -> Values:
    """Fit classifiers and return what they say."""
    new = cancer()[-1]
    found: Values = {}
    for method in ("volta", "knn", "linear", "volta_plus"):
        found |= judged(f"fit {method}", fitted(method), new)
    posthoc = volta.PostHocClassifier("knn(k=10)").fit(posthoc_rows(1, 90), cal=posthoc_rows(2, 80))
    posthoc.fit_policy(coverage=0.9)
    return found | judged("fit posthoc", posthoc, posthoc_rows(3, 24).outputs)


def make_models() -> None:
    """Save the models that `saved` and `onnx` load; those that exist stay, as the version that wrote them is the point."""
    MODELS.mkdir(exist_ok=True)
    posthoc = volta.PostHocClassifier("knn(k=10)").fit(posthoc_rows(1, 90), cal=posthoc_rows(2, 80))
    posthoc.fit_policy(coverage=0.9)
    # One fit of a network is a large file already.
    models = {"volta": lambda: fitted("volta", "split"), "linear": lambda: fitted("linear"), "posthoc": lambda: posthoc}
    for name, make in models.items():
        packed = MODELS / f"{name}.safetensors.xz"
        if not packed.exists():
            with tempfile.TemporaryDirectory() as folder:
                make().save(Path(folder) / "model.safetensors")
                data = (Path(folder) / "model.safetensors").read_bytes()
            packed.write_bytes(lzma.compress(data, preset=9 | lzma.PRESET_EXTREME))


def unpacked(name: str, work: Path) -> Path:
    """Return a saved model's file, byte for byte as it was written."""
    path = work / f"{name}.safetensors"
    path.write_bytes(lzma.decompress((MODELS / f"{name}.safetensors.xz").read_bytes()))
    return path


def saved(work: Path) -> Values:
    """Load the saved models and return what they say."""
    new = cancer()[-1]
    found: Values = {}
    for name in ("volta", "linear"):
        found |= judged(f"saved {name}", volta.VoltaClassifier.load(unpacked(name, work)), new)
    posthoc = volta.PostHocClassifier.load(unpacked("posthoc", work))
    return found | judged("saved posthoc", posthoc, posthoc_rows(3, 24).outputs)


def onnx(work: Path) -> Values:
    """Export the saved models as graphs and return what ONNX Runtime says."""
    found: Values = {}
    others = posthoc_rows(3, 24).outputs
    features = {"logits": others.logits.astype(np.float32), "features": others.features.astype(np.float32)}
    for name, inputs in {
        "volta": {"inputs": cancer()[-1]},
        "linear": {"inputs": cancer()[-1]},
        "posthoc": features,
    }.items():
        kind = volta.PostHocClassifier if name == "posthoc" else volta.VoltaClassifier
        kind.load(unpacked(name, work)).to_onnx(work / f"{name}.onnx", alpha=0.1, fpr=0.05)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        session = onnxruntime.InferenceSession(work / f"{name}.onnx", options)
        names = [output.name for output in session.get_outputs()]
        outputs = zip(names, session.run(names, inputs), strict=True)
        found |= array_values(f"onnx {name}", {output: np.asarray(values).tolist() for output, values in outputs})
    return found


PARTS: dict[str, Callable[[Path], Values]] = {
    "digits_methods": digits_methods,
    "digits_tables": digits_tables,
    "evaluate": evaluate,
    "imported": imported,
    "fits": fits,
    "saved": saved,
    "onnx": onnx,
}


def made_with() -> dict[str, object]:
    """Return what decides whether values can be equal to the last bit."""
    libraries = threadpoolctl.threadpool_info()
    blas = sorted(
        f"{x['internal_api']} {x['version']} {x.get('architecture')}" for x in libraries if x["user_api"] == "blas"
    )
    packages = ("numpy", "scipy", "scikit-learn", "torch", "onnxruntime")
    return {
        "capability": torch.backends.cpu.get_cpu_capability(),
        "blas": blas,
        "numpy_simd": np.show_config(mode="dicts")["SIMD Extensions"].get("found", []),
        "machine": f"{platform.system()} {platform.machine()}",
        "versions": {name: importlib.metadata.version(name) for name in packages},
    }


def main(folder: Path) -> None:
    """Compute every part and write it to a folder."""
    # Few calibration rows and few epochs are meant here.
    warnings.simplefilter("ignore", volta.VoltaWarning)
    folder.mkdir(parents=True, exist_ok=True)
    make_models()
    # No figure is frozen: with one core to see, no process draws.
    with tempfile.TemporaryDirectory() as work, mock.patch("volta.report.build.n_cores", return_value=1):
        os.environ["VOLTA_DATA"] = f"{work}/none"  # what was downloaded or extracted on this machine has no say
        for part, compute in PARTS.items():
            place = Path(work, part)
            place.mkdir()
            write_values(path_of(folder, part), compute(place))
    (folder / "made_with.json").write_text(json.dumps(made_with(), indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
