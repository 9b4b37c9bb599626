"""Our own files, damaged byte by byte, and altered in what they say and then sealed anew as a stranger can."""

from __future__ import annotations

import hashlib
import json
import random
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tests.conftest import blobs
from tests.fuzz.harness import Category
from tests.records import make_manifest, make_record
from volta.bench.cell import NETWORK_FILE, decode_network, encode_network
from volta.bench.cell_metrics import metrics_of
from volta.bench.records import MANIFEST_FILE, RECORD_FILE, Cell, CellRecord
from volta.bench.store import MANIFEST, PREDICTIONS, PROGRESS_FILE, RECORD, RunStore, pack_arrays
from volta.core.cache import META_FILE, ArrayCache, cache_key
from volta.core.checksummed import FileKind, decode_arrays, encode_arrays, encode_object, read_object
from volta.core.errors import StoreError
from volta.data.lookup import TASK_KIND, TaskRecord
from volta.methods import METHODS
from volta.methods.saving import MODEL_FILE, load_methods, save_methods
from volta.networks.recipe import Budget
from volta.networks.trainer import Trainer
from volta.report.statistics import ANALYSES_FILE, read_analyses

CELL = Cell("digits", "fair", "volta", 1, "k" * 64)
_PARTS = {"what": "fuzz"}
_VALUES: tuple[Any, ...] = (
    *(None, True, 0, -1, 1, 2**63, 10**400, 0.5, -1e308, "", "..", "../../x", "a/b", "x" * 300, "\x1b[2J", "\0"),
    *([], {}, [[]], {"a": {}}, [None], {"": 0}, "test", "ood:x", 1 << 40),
)


def change(value: Any, rng: random.Random) -> Any:
    """Return a JSON value with one part of it replaced, taken away or given another name."""
    if isinstance(value, dict) and value and rng.random() < 0.9:
        name = rng.choice(sorted(value))
        rest = {key: part for key, part in value.items() if key != name}
        if (fate := rng.random()) < 0.1:
            return rest
        if fate < 0.15:
            return {**rest, rng.choice(("", "..", "x", "near:")): value[name]}
        return {**value, name: change(value[name], rng)}
    if isinstance(value, list) and value and rng.random() < 0.8:
        at = rng.randrange(len(value))
        return [*value[:at], change(value[at], rng), *value[at + 1 :]]
    return rng.choice(_VALUES)


def resealed(kind: FileKind) -> Callable[[bytes, random.Random], bytes]:
    """Return a mutator that changes what a sealed file says and seals it anew."""

    def mutate(data: bytes, rng: random.Random) -> bytes:
        value = {name: part for name, part in json.loads(data).items() if name != "seal"}
        for _ in range(rng.choice((1, 1, 2))):
            value = change(value, rng)
            value = value if isinstance(value, dict) else {}
        # A change of kind and version is refused by itself; what is meant here lies behind them.
        return encode_object(kind, {name: part for name, part in value.items() if not name.startswith("file_")})

    return mutate


def resealed_header(kind: FileKind) -> Callable[[bytes, random.Random], bytes]:
    """Return a mutator that changes an array or what is said of them, and seals the file anew."""

    def mutate(data: bytes, rng: random.Random) -> bytes:
        header, arrays = decode_arrays(np.frombuffer(bytearray(data), np.uint8), "x", kind, dict[str, Any])
        value = {name: part for name, part in header.items() if not name.startswith("file_")}
        if rng.random() < 0.3 and arrays:
            name = rng.choice(sorted(arrays))
            values = arrays[name]
            arrays[name] = rng.choice((values.ravel()[:1], values.astype(np.int8), np.zeros(3), values * 0))
        else:
            value = change(value, rng)
        return bytes(encode_arrays(kind, arrays, value if isinstance(value, dict) else {}))

    return mutate


def _arrays() -> dict[str, np.ndarray]:
    probs = np.random.default_rng(0).dirichlet(np.ones(3), 12)
    scores = 1 - probs.max(axis=1)
    labels = (np.arange(12) % 3).astype(np.int32)
    return {
        **{"test/labels": labels, "test/probs": probs, "test/uncertainty": scores, "test/ood_score": scores},
        **{"val/probs": probs, "val/labels": labels, "ood:x/ood_score": scores + 0.1},
    }


def _repacked(data: bytes, rng: random.Random) -> bytes:
    """Change the arrays of a cell; the reader below writes the record that fits them."""
    arrays = _arrays()
    for name in rng.sample(sorted(arrays), rng.choice((1, 1, 2))):
        values = arrays.pop(name)
        changed = (
            values[:5],
            values[None],
            values * np.nan,
            values * 1e30,
            values.astype(np.float16),
            values.astype(str),
        )
        if rng.random() < 0.8:
            arrays[rng.choice((name, name, name, "near:/probs", "x", "shift:a-1/probs", "test/x"))] = rng.choice(
                changed
            )
    return pack_arrays(arrays)


def _store(folder: str) -> RunStore:
    store = RunStore(Path(folder) / "run")
    store.create()
    store.write_manifest(make_manifest([CELL]))
    store.write_cell(make_record(CELL), _arrays())
    return store


@cache
def _kept() -> tuple[tempfile.TemporaryDirectory[str], RunStore]:
    """One run folder for all cases, as making one costs more than reading a file of it."""
    place = tempfile.TemporaryDirectory(prefix="volta-fuzz-run-")
    return place, _store(place.name)


def _manifest(path: Path) -> str:
    store = _kept()[1]
    (store.root / MANIFEST).write_bytes(path.read_bytes())
    manifest = store.read_manifest()
    folders = [store.cell_file(cell, RECORD) for cell in manifest.cells]
    if any(not folder.resolve().is_relative_to(store.root.resolve()) for folder in folders):
        raise RuntimeError("a cell lies outside")
    return repr(manifest)


def _record(path: Path) -> str:
    store = _kept()[1]
    store.cell_file(CELL, RECORD).write_bytes(path.read_bytes())
    return repr(store.read_record(CELL))


def _predictions(path: Path) -> bytes:
    store = _kept()[1]
    store.replace_record(make_record(CELL, predictions=hashlib.sha256(pack_arrays(_arrays())).hexdigest()))
    store.cell_file(CELL, PREDICTIONS).write_bytes(path.read_bytes())
    return pack_arrays(store.read_arrays(CELL))


def _other_predictions(path: Path) -> str:
    store = _kept()[1]
    store.replace_record(make_record(CELL, predictions=hashlib.sha256(path.read_bytes()).hexdigest()))
    store.cell_file(CELL, PREDICTIONS).write_bytes(path.read_bytes())
    metrics, _ = metrics_of(store.read_arrays(CELL), ["x"])
    if not all(np.isfinite(value) for values in metrics.values() for value in values.values()):
        raise RuntimeError("a metric is not finite")
    return repr(metrics)


def _progress(path: Path) -> str:
    store = _kept()[1]
    place = store.folder("locks") / f"{CELL.folder}.progress"
    place.write_bytes(path.read_bytes())
    if (found := store.read_progress(CELL)) is None:
        raise StoreError("no progress")
    return repr(found)


def _analyses(path: Path) -> str:
    store = _kept()[1]
    (store.root / "sequential.json").write_bytes(path.read_bytes())
    return repr(read_analyses(store))


def _network(path: Path) -> str:
    network = decode_network(path.read_bytes(), torch.device("cpu"))
    if network is None:
        raise StoreError("damaged")
    return repr({name: value.tolist() for name, value in network.tensors().items()})


def _model(path: Path) -> bytes:
    (method,), _ = load_methods(path, METHODS)
    return method.predict(blobs(n_features=4)[1].inputs[:5]).probs.tobytes()


def _any_model(path: Path) -> str:
    """Load it: what a method that fits its class then predicts is the stranger's affair."""
    return repr(load_methods(path, METHODS)[0])


def _cached(name: str) -> Callable[[Path], str]:
    def read(path: Path) -> str:
        cache_, folder = _kept_cache()
        sound = {file: (folder / file).read_bytes() for file in ("array.npy", "meta.json")}
        try:
            (folder / name).write_bytes(path.read_bytes())
            found = cache_.get(cache_key(_PARTS))
            if found is None:
                raise StoreError("not there")
            return repr((np.array(found.array).tolist(), sorted(found.meta.items())))
        finally:
            for file, data in sound.items():
                (folder / file).write_bytes(data)

    return read


@cache
def _kept_cache() -> tuple[ArrayCache, Path]:
    kept = ArrayCache(_kept()[1].root.parent / "cache")

    def make(path: Path) -> dict[str, Any]:
        with path.open("wb") as file:
            np.save(file, np.arange(24.0).reshape(6, 4))
        return {}

    kept.obtain(_PARTS, make)
    return kept, kept.folder(cache_key(_PARTS))


def _task_record() -> dict[str, Any]:
    array = {"file": "0" * 32 + ".npy", "sha256": "0" * 64, "seal": "0" * 64, "shape": [3, 2], "dtype": "<f4"}
    labels = array | {"shape": [3], "dtype": "<i8"}
    part = {"inputs": array, "labels": labels}
    return {
        **{"name": "fuzzed", "title": "t", "source": "s", "kind": "features", "encoder": "tabular"},
        **{"class_names": ["a", "b"], "parts": dict.fromkeys(("train", "val", "cal", "test"), part)},
        **{"ood": {"far": {"inputs": array, "near": False}}, "shifts": {"fog-1": part}, "notes": []},
    }


def task_file() -> list[bytes]:
    """Return a sound description of a task."""
    return [encode_object(TASK_KIND, _task_record())]


def _task(path: Path) -> str:
    return repr(read_object(path, TASK_KIND, TaskRecord))


@cache
def _trained() -> tuple[bytes, bytes]:
    data, _ = blobs(n_rows=40, n_features=4)
    trainer = Trainer(seed=1, budget=Budget(max_epochs=1))
    method = METHODS["volta"]().fit(data, trainer)
    with tempfile.TemporaryDirectory(prefix="volta-fuzz-") as folder:
        save_methods([method], "volta", Path(folder) / "m")
        return encode_network(trainer.network(data)), (Path(folder) / "m").read_bytes()


def _cache_file(name: str) -> Callable[[], list[bytes]]:
    return lambda: [(_kept_cache()[1] / name).read_bytes()]


def _objects(kind: FileKind, value: Callable[[], object]) -> Callable[[], list[bytes]]:
    return lambda: [encode_object(kind, value())]


def _predictions_file() -> list[bytes]:
    return [pack_arrays(_arrays())]


def _record_value() -> CellRecord:
    return make_record(CELL, predictions="0" * 64)


def _analyses_value() -> dict[str, Any]:
    question = {"key": "a", "methods": ["x"], "verdict": "v", "n_seeds": 3, "seeds_needed": None, "sentence": "s"}
    return {"schedule": [3, 5], "n_seeds": 3, "decided": [question], "n_open": 1}


def _progress_value() -> dict[str, Any]:
    return {"epoch": 1, "max_epochs": 3}


_MANIFESTS = _objects(MANIFEST_FILE, lambda: make_manifest([CELL]))
_RECORDS = _objects(RECORD_FILE, _record_value)
_ANALYSES = _objects(ANALYSES_FILE, _analyses_value)
_PROGRESS = _objects(PROGRESS_FILE, _progress_value)

OWN_FILES: dict[str, Category] = {
    "own-manifest": Category("x", _MANIFESTS, _manifest, sealed=True),
    "own-record": Category("x", _RECORDS, _record, sealed=True),
    "own-predictions": Category("x", _predictions_file, _predictions, sealed=True),
    "own-progress": Category("x", _PROGRESS, _progress, sealed=True),
    "own-analyses": Category("x", _ANALYSES, _analyses, sealed=True),
    "own-task": Category("x", task_file, _task, sealed=True),
    "own-array": Category("x", _cache_file("array.npy"), _cached("array.npy"), sealed=True),
    "own-array-meta": Category("x", _cache_file("meta.json"), _cached("meta.json"), sealed=True),
    "own-network": Category("x", lambda: [_trained()[0]], _network, sealed=True, share=0.3),
    "own-model": Category("x", lambda: [_trained()[1]], _model, sealed=True, share=0.3),
    "stranger-manifest": Category("x", _MANIFESTS, _manifest, mutate=resealed(MANIFEST_FILE)),
    "stranger-record": Category("x", _RECORDS, _record, mutate=resealed(RECORD_FILE)),
    "stranger-predictions": Category("x", _predictions_file, _other_predictions, mutate=_repacked, share=0.5),
    "stranger-progress": Category("x", _PROGRESS, _progress, mutate=resealed(PROGRESS_FILE)),
    "stranger-analyses": Category("x", _ANALYSES, _analyses, mutate=resealed(ANALYSES_FILE)),
    "stranger-task": Category("x", task_file, _task, mutate=resealed(TASK_KIND)),
    "stranger-array-meta": Category("x", _cache_file("meta.json"), _cached("meta.json"), mutate=resealed(META_FILE)),
    "stranger-network": Category(
        "x", lambda: [_trained()[0]], _network, mutate=resealed_header(NETWORK_FILE), share=0.3
    ),
    "stranger-model": Category("x", lambda: [_trained()[1]], _any_model, mutate=resealed_header(MODEL_FILE), share=0.3),
}
"""Files of ours: ``own-`` damaged byte by byte, ``stranger-`` altered in what they say and sealed anew."""
