"""ResNet-18 rewritten for speed on a CPU: batch norm folded into convolutions, Winograd where the maps are small."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from volta.features.backbones.resnet18 import Block, ResNet18
from volta.features.winograd import WinogradConv

_LARGEST_SIDE = 32


class FastResNet18(nn.Module):
    """The same function of (n, 3, height, width) images as the :class:`ResNet18` it is made from, up to rounding."""

    def __init__(self, network: ResNet18, size: tuple[int, int]) -> None:
        super().__init__()
        self.stem = _folded(network.conv1, network.bn1)
        height, width = (_halved(_halved(side)) for side in size)
        blocks: list[nn.Module] = []
        for index, stage in enumerate((network.layer1, network.layer2, network.layer3, network.layer4)):
            if index > 0:
                height, width = _halved(height), _halved(width)
            make = _FastBlock if index > 0 and max(height, width) <= _LARGEST_SIDE else _FoldedBlock
            blocks += [make(cast(Block, block), height, width) for block in stage]
        self.blocks = nn.Sequential(*blocks)

    def forward(self, images: Tensor) -> Tensor:
        """Return one feature row an image."""
        maps = functional.max_pool2d(functional.relu(self.stem(images)), kernel_size=3, stride=2, padding=1)
        pooled: Tensor = self.blocks(maps).mean(dim=(2, 3))
        return pooled


class _FoldedBlock(nn.Module):
    """A block of plain convolutions with batch norm folded in."""

    def __init__(self, block: Block, height: int, width: int) -> None:
        super().__init__()
        self.conv1 = _folded(block.conv1, block.bn1)
        self.conv2 = _folded(block.conv2, block.bn2)
        self.shortcut = nn.Identity() if block.downsample is None else _folded(*block.downsample)

    def forward(self, maps: Tensor) -> Tensor:
        inner = self.conv2(functional.relu(self.conv1(maps)))
        return functional.relu(inner + self.shortcut(maps))


class _FastBlock(nn.Module):
    """A block whose stride-1 convolutions work on channels-last maps; its ends are channels-first like any other's."""

    def __init__(self, block: Block, height: int, width: int) -> None:
        super().__init__()
        first = _folded(block.conv1, block.bn1)
        second = _folded(block.conv2, block.bn2)
        self.shortcut = None if block.downsample is None else _folded(*block.downsample)
        self.conv1 = _winograd(first, height, width) if self.shortcut is None else first
        self.conv2 = _winograd(second, height, width)

    def forward(self, maps: Tensor) -> Tensor:
        if self.shortcut is not None:
            inner = functional.relu(self.conv1(maps)).permute(0, 2, 3, 1)
            shortcut = self.shortcut(maps).permute(0, 2, 3, 1)
        else:
            # After another fast block the exporter cancels this permutation against that block's last one.
            shortcut = maps.permute(0, 2, 3, 1)
            inner = functional.relu(self.conv1(shortcut))
        return functional.relu(self.conv2(inner) + shortcut).permute(0, 3, 1, 2)


def _folded(conv: nn.Conv2d, norm: nn.BatchNorm2d) -> nn.Conv2d:
    """Return one convolution equal to ``norm(conv(x))`` in evaluation: w γ/√(σ²+ε), β − μ γ/√(σ²+ε)."""
    gain = norm.weight.double() / torch.sqrt(norm.running_var.double() + norm.eps)  # type: ignore[union-attr]
    folded = nn.Conv2d(
        conv.in_channels,
        conv.out_channels,
        conv.kernel_size,  # type: ignore[arg-type]
        conv.stride,  # type: ignore[arg-type]
        conv.padding,  # type: ignore[arg-type]
    )
    with torch.no_grad():
        folded.weight.copy_(conv.weight.double() * gain.view(-1, 1, 1, 1))
        folded.bias.copy_(norm.bias - norm.running_mean * gain)  # type: ignore[union-attr,operator]
    return folded


def _winograd(conv: nn.Conv2d, height: int, width: int) -> WinogradConv:
    return WinogradConv(conv.weight, conv.bias, height, width)  # type: ignore[arg-type]


def _halved(side: int) -> int:
    """Return the side of a map after a stride of 2 with the padding used here."""
    return -(-side // 2)
