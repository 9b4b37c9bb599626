from __future__ import annotations

import pytest
import torch
from torch import nn

from volta.features.backbones.resnet18 import FastResNet18, ResNet18, WinogradConv


@pytest.mark.parametrize(("height", "width"), [(28, 28), (14, 7), (7, 14), (1, 5), (4, 2), (9, 3)])
def test_winograd_is_the_convolution(height: int, width: int) -> None:
    random = torch.Generator().manual_seed(0)
    weight = torch.randn(5, 3, 3, 3, generator=random)
    bias = torch.randn(5, generator=random)
    maps = torch.randn(2, 3, height, width, generator=random)
    expected = nn.functional.conv2d(maps.double(), weight.double(), bias.double(), padding=1)
    got = WinogradConv(weight, bias, height, width)(maps.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
    torch.testing.assert_close(got.double(), expected, atol=1e-4, rtol=0.0)


@pytest.fixture(scope="module")
def network() -> ResNet18:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        network = ResNet18().eval()
        for layer in network.modules():
            if isinstance(layer, nn.BatchNorm2d):
                nn.init.uniform_(layer.weight, 0.5, 1.5)
                nn.init.normal_(layer.bias, std=0.1)
                nn.init.normal_(layer.running_mean, std=0.1)
                nn.init.uniform_(layer.running_var, 0.5, 2.0)
    return network


@pytest.mark.parametrize("size", [(224, 224), (97, 130), (64, 33)])
def test_the_fast_network_is_the_same_function(network: ResNet18, size: tuple[int, int]) -> None:
    images = torch.randn(2, 3, *size, generator=torch.Generator().manual_seed(1))
    with torch.inference_mode():
        expected = network(images)
        got = FastResNet18(network, size).eval()(images)
    scale = expected.abs().max().item()
    torch.testing.assert_close(got, expected, atol=1e-5 * scale, rtol=0.0)


def test_only_small_maps_go_through_winograd(network: ResNet18) -> None:
    kinds = [type(layer).__name__ for layer in FastResNet18(network, (224, 224)).modules()]
    assert kinds.count("WinogradConv") == 9
    kinds = [type(layer).__name__ for layer in FastResNet18(network, (512, 512)).modules()]
    assert kinds.count("WinogradConv") == 6
