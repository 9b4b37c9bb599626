"""Models of timm, real ones with random weights, where timm can be imported."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from volta.core.errors import InputError, MissingDataError
from volta.features.backbones.backbone import Preprocessing
from volta.features.backbones.load import load_backbone
from volta.features.extract import extract

NAME = "resnet10t"


@pytest.fixture
def timm():
    try:
        import timm
    except (ImportError, RuntimeError) as error:
        pytest.skip(f"timm cannot be imported: {error}")
    return timm


@pytest.fixture
def weights(timm, tmp_path: Path) -> Path:
    torch.manual_seed(0)
    torch.save(timm.create_model(NAME, pretrained=False).state_dict(), tmp_path / "weights.pth")
    return tmp_path / "weights.pth"


def test_without_timm_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "timm", None)
    with pytest.raises(
        MissingDataError, match=r"timm:resnet10t needs timm, which cannot be imported .*pip install timm"
    ):
        load_backbone("timm:resnet10t")


def test_weights_from_a_file_give_the_models_own_features(timm, weights: Path) -> None:
    backbone = load_backbone(f"timm:{NAME}", weights=weights)
    whole = timm.create_model(NAME, pretrained=False)
    whole.load_state_dict(torch.load(weights, weights_only=True))
    images = torch.rand(2, 3, 64, 64)
    with torch.inference_mode():
        expected = whole.eval().forward_head(whole.forward_features(images), pre_logits=True)
        torch.testing.assert_close(backbone.network(images), expected)
    assert backbone.preprocessing.size == tuple(whole.pretrained_cfg["input_size"][1:])
    assert load_backbone(f"timm:{NAME}", weights=weights).weights == backbone.weights


def test_features_are_extracted(timm, weights: Path, tmp_path: Path) -> None:
    backbone = load_backbone(f"timm:{NAME}", weights=weights, preprocessing=Preprocessing(size=(32, 32)))
    pixels = np.random.default_rng(0).integers(0, 256, (3, 3, 20, 24), dtype=np.uint8)
    assert extract(pixels, backbone, cache=tmp_path, runtime="torch").array.shape == (3, 512)


def test_an_unknown_model_and_unfitting_weights_are_refused(timm, weights: Path) -> None:
    with pytest.raises(MissingDataError, match=r"timm:no-such-model cannot be loaded"):
        load_backbone("timm:no-such-model")
    with pytest.raises(InputError, match="does not fit"):
        load_backbone("timm:resnet18", weights=weights)
