"""The weights that ``volta data get`` brings; backbones look for them in the data folder, their one home."""

from __future__ import annotations

from volta.data.download.archive import Archive
from volta.data.download.transfer import Checksum

RESNET18_WEIGHTS = Archive(
    "resnet18",
    "torchvision's ResNet-18 weights, ImageNet-1k",
    "resnet18-f37072fd.pth",
    ("https://download.pytorch.org/models/resnet18-f37072fd.pth",),
    46_830_571,
    Checksum("sha256", "f37072fd47e89c5e827621c5baffa7500819f7896bbacec160b1a16c560e07ec"),
    "BSD-3-Clause; trained on ImageNet",
    "https://pytorch.org/vision/stable/models.html",
)

WEIGHTS: tuple[Archive, ...] = (RESNET18_WEIGHTS,)
