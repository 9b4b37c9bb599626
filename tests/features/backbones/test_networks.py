from __future__ import annotations

import pytest
import torch
from torch import nn

from volta.features.backbones.efficientnet_lite0 import EfficientNetLite0, _SameConv
from volta.features.backbones.load import BACKBONES
from volta.features.backbones.resnet18 import ResNet18


def test_resnet18_has_torchvisions_names_and_size() -> None:
    network = ResNet18()
    names = set(network.state_dict())
    assert {"conv1.weight", "bn1.running_var", "layer1.0.conv1.weight", "layer4.1.bn2.bias"} <= names
    assert {"layer2.0.downsample.0.weight", "layer2.0.downsample.1.weight"} <= names
    assert "layer1.0.downsample.0.weight" not in names
    # torchvision's ResNet-18 has 11,689,512 parameters, 513,000 of them in fc.
    assert sum(parameter.numel() for parameter in network.parameters()) == 11_689_512 - 513_000


def test_efficientnet_lite0_has_the_published_size() -> None:
    # 4,652,008 parameters with the 1280×1000 head and its bias.
    n_values = sum(parameter.numel() for parameter in EfficientNetLite0().parameters())
    assert n_values == 4_652_008 - 1_281_000


def test_efficientnet_lite0_equals_the_package_of_its_weights() -> None:
    package = pytest.importorskip("efficientnet_lite_pytorch")
    reference = package.EfficientNet.from_name("efficientnet-lite0").eval()
    network = EfficientNetLite0().eval()
    state = {name: value for name, value in reference.state_dict().items() if not name.startswith("_fc.")}
    network.load_state_dict(state)
    images = torch.randn(1, 3, 224, 224, generator=torch.Generator().manual_seed(0))
    with torch.inference_mode():
        expected = reference.extract_features(images).mean(dim=(2, 3))
        torch.testing.assert_close(network(images), expected)


@pytest.mark.parametrize(("size", "kernel", "stride"), [(7, 3, 2), (8, 3, 2), (8, 5, 2), (8, 5, 1), (5, 1, 2)])
def test_same_padding(size: int, kernel: int, stride: int) -> None:
    conv = _SameConv(1, 1, kernel, stride, bias=False)
    nn.init.ones_(conv.weight)
    with torch.inference_mode():
        got = conv(torch.ones(1, 1, size, size))[0, 0, 0]
    n_out = -(-size // stride)
    assert len(got) == n_out
    # TensorFlow's rule by hand: window i starts at i·stride − total // 2.
    before = max(0, (n_out - 1) * stride + kernel - size) // 2
    spans = [(max(0, i * stride - before), min(size, i * stride - before + kernel)) for i in range(n_out)]
    heights = spans[0][1] - spans[0][0]
    assert got.tolist() == [float(heights * (stop - start)) for start, stop in spans]


@pytest.mark.parametrize("name", BACKBONES)
def test_widths_and_batch_independence(name: str) -> None:
    known = BACKBONES[name]
    network = known.build().eval()
    images = torch.randn(2, 3, 64, 64, generator=torch.Generator().manual_seed(0))
    with torch.inference_mode():
        both, second = network(images), network(images[1:])
    assert both.shape == (2, known.width)
    torch.testing.assert_close(both[1:], second, atol=1e-5, rtol=1e-4)
