"""Saved classifiers, arrays that are being written, and notes of unpacked archives."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np

from tests.fuzz.harness import Category
from tests.fuzz.own_files import resealed_header
from volta import PostHocClassifier, VoltaClassifier
from volta.cli.model import load_model
from volta.core.cache import ARRAY, JOURNAL, PART, ShardWriter
from volta.core.errors import StoreError
from volta.core.files import write_json
from volta.data.download import RECORD
from volta.data.inventory import verify_data
from volta.methods.saving import MODEL_FILE
from volta.networks.outputs import LabelledOutputs, Outputs

_RNG = np.random.default_rng(0)
_LABELS = np.arange(90) % 3
_X = _RNG.normal(size=(90, 4)) + 3 * np.eye(4)[_LABELS]
_SHARDS = np.arange(24, dtype=np.float32).reshape(6, 4)


@cache
def _classifier() -> bytes:
    with tempfile.TemporaryDirectory(prefix="volta-fuzz-") as folder:
        VoltaClassifier(max_epochs=1).fit(_X, _LABELS).save(Path(folder) / "m")
        return (Path(folder) / "m").read_bytes()


@cache
def _post_hoc() -> bytes:
    with tempfile.TemporaryDirectory(prefix="volta-fuzz-") as folder:
        PostHocClassifier().fit(cal=LabelledOutputs(Outputs(_X[:, :3]), _LABELS)).save(Path(folder) / "m")
        return (Path(folder) / "m").read_bytes()


def _predict(path: Path) -> bytes:
    return load_model(path).predict_proba(_X[:3]).tobytes()


def _load(path: Path) -> str:
    return repr(load_model(path).classes_)


def _post_hoc_classes(path: Path) -> str:
    return repr(PostHocClassifier.load(path).classes_)


@cache
def _begun() -> dict[str, bytes]:
    """Return the files of an array of which two shards of three are written."""
    with tempfile.TemporaryDirectory(prefix="volta-fuzz-") as folder:
        writer = ShardWriter(Path(folder), 6, np.dtype(np.float32))
        writer.write(0, _SHARDS[:2])
        writer.write(4, _SHARDS[4:])
        return {path.name: path.read_bytes() for path in Path(folder).iterdir()}


def _go_on(name: str) -> Callable[[Path], bytes]:
    def read(path: Path) -> bytes:
        with tempfile.TemporaryDirectory(prefix="volta-fuzz-") as place:
            folder = Path(place)
            for file, data in _begun().items():
                (folder / file).write_bytes(path.read_bytes() if file == name else data)
            writer = ShardWriter(folder, 6, np.dtype(np.float32))
            done = {row for start, stop in writer.done() for row in range(start, stop)}
            for row in range(6):
                if row not in done:
                    writer.write(row, _SHARDS[row : row + 1])
            writer.finish("0" * 64, {}, (4,))
            return np.load(folder / ARRAY, allow_pickle=False).tobytes()

    return read


def _notes() -> list[bytes]:
    with tempfile.TemporaryDirectory(prefix="volta-fuzz-") as folder:
        noted = {"size": 3, "sha256": "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"}
        write_json(Path(folder) / RECORD, {"url": "x", "archive": "x.tar.gz", "files": {"a/b.bin": noted}})
        return [(Path(folder) / RECORD).read_bytes()]


def _verify(path: Path) -> str:
    with tempfile.TemporaryDirectory(prefix="volta-fuzz-") as root:
        folder = Path(root) / "cifar-10-batches-bin"
        (folder / "a").mkdir(parents=True)
        (folder / "a" / "b.bin").write_bytes(b"abc")
        (folder / RECORD).write_bytes(path.read_bytes())
        (verdict,) = verify_data(Path(root))
        if verdict.problems:
            raise StoreError(verdict.problems[0])
        return verdict.checked


OWN_MODELS: dict[str, Category] = {
    "own-classifier": Category("x", lambda: [_classifier()], _predict, sealed=True, share=0.3),
    "own-post-hoc": Category("x", lambda: [_post_hoc()], _post_hoc_classes, sealed=True, share=0.3),
    "stranger-classifier": Category("x", lambda: [_classifier()], _load, mutate=resealed_header(MODEL_FILE), share=0.3),
    "stranger-post-hoc": Category(
        "x", lambda: [_post_hoc()], _post_hoc_classes, mutate=resealed_header(MODEL_FILE), share=0.3
    ),
    "own-shards": Category("x", lambda: [_begun()[PART]], _go_on(PART), sealed=True, mends=True, share=0.1),
    "own-journal": Category("x", lambda: [_begun()[JOURNAL]], _go_on(JOURNAL), sealed=True, mends=True, share=0.1),
    "unpacked-note": Category("x", _notes, _verify),
}
"""Every category by name."""
