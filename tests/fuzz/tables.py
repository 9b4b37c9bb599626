"""Files of predictions for ``volta evaluate``, rows of CIFAR's binary version, and saved Hugging Face data sets."""

from __future__ import annotations

import io
import shutil
import tempfile
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from tests.fuzz.harness import Category
from volta.data.labelled_arrays import read_labelled_arrays
from volta.data.tasks.cifar import class_names, read_records
from volta.predictions.prediction_files import read_models

_RNG = np.random.default_rng(0)
_PROBS, _LABELS = _RNG.dirichlet(np.ones(3), 12), np.arange(12) % 3


def _npz() -> list[bytes]:
    out = io.BytesIO()
    arrays = {"test/probs": _PROBS, "test/labels": _LABELS, "ood:far/ood_score": 1 - _PROBS.max(axis=1)}
    np.savez_compressed(out, **arrays, **{"test/ood_score": 1 - _PROBS.max(axis=1), "id": np.arange(12)})
    return [out.getvalue()]


def _csv() -> list[bytes]:
    rows = ["method,seed,set,id,label,p_0,p_1,p_2,ood_score"]
    for row, (probs, label) in enumerate(zip(_PROBS, _LABELS, strict=True)):
        values = ",".join(repr(float(value)) for value in probs)
        rows += [f"mine,1,test,{row},{label},{values},{1 - probs.max()}", f"mine,1,ood:far,{row},,{values},0.5"]
    return ["\n".join(rows).encode()]


def _parquet() -> list[bytes]:
    import pyarrow
    from pyarrow import parquet

    out = io.BytesIO()
    columns = {f"p_{number}": _PROBS[:, number] for number in range(3)}
    parquet.write_table(pyarrow.table({"method": ["m"] * 12, "seed": [1] * 12, "label": _LABELS, **columns}), out)
    return [out.getvalue()]


def _models(path: Path) -> str:
    models = read_models([path])
    for model in models:
        for rows in model.sets.values():
            if rows.probs is not None and not np.isfinite(rows.probs).all():
                raise RuntimeError("a probability is not finite")
    return repr([(model.method, model.seed, sorted(model.sets)) for model in models])


def _cifar() -> list[bytes]:
    pixels = _RNG.integers(0, 256, (2, 3073), dtype=np.uint8)
    pixels[:, 0] = (3, 9)
    return [pixels.tobytes()]


def _records(path: Path) -> bytes:
    rows = read_records(path, 1, 2, n_classes=10)
    return rows.inputs.tobytes() + rows.labels.tobytes()


def _names(path: Path) -> str:
    return repr(class_names(path, 3))


@cache
def _saved() -> dict[str, bytes]:
    import datasets

    with tempfile.TemporaryDirectory(prefix="volta-fuzz-") as folder:
        features = datasets.Features({"a": datasets.Value("float32"), "label": datasets.ClassLabel(names=["x", "y"])})
        made = datasets.Dataset.from_dict({"a": _PROBS[:, 0].tolist(), "label": [0, 1] * 6}, features=features)
        made.save_to_disk(folder)
        return {path.name: path.read_bytes() for path in Path(folder).iterdir()}


def _saved_with(name: str) -> Callable[[Path], bytes]:
    def read(path: Path) -> bytes:
        folder = Path(tempfile.mkdtemp(prefix="volta-fuzz-"))
        try:
            for file, data in _saved().items():
                (folder / file).write_bytes(path.read_bytes() if file == name else data)
            splits = read_labelled_arrays(folder)
            return b"".join(rows.inputs.tobytes() for rows in splits.values())
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    return read


def _hugging_face() -> dict[str, Category]:
    """Return a category a file of a saved data set, where the library is there."""
    if find_spec("datasets") is None:
        return {}
    files = {"info": "dataset_info.json", "state": "state.json", "arrow": "data-00000-of-00001.arrow"}

    def category(file: str) -> Category:
        return Category("x", lambda: [_saved()[file]], _saved_with(file), share=0.3)

    return {f"hugging-face-{name}": category(file) for name, file in files.items()}


TABLES: dict[str, Category] = {
    "evaluate-npz": Category("mine-1.npz", _npz, _models),
    "evaluate-csv": Category("mine.csv", _csv, _models),
    "evaluate-parquet": Category("mine.parquet", _parquet, _models),
    "cifar-binary": Category("x.bin", _cifar, _records),
    "cifar-names": Category("x.txt", lambda: [b"cat\ndog\nfrog\n"], _names),
    **_hugging_face(),
}
"""Every category by name."""
