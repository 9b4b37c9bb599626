"""A backbone by name, by file, as a module, or from Hugging Face or timm, ready for extraction."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from volta.core.errors import InputError, MissingDataError, reason
from volta.core.files import DEFAULT_LIMITS, Limits, hash_text
from volta.core.fingerprints import fingerprint
from volta.core.plugins import Plugin, plugins
from volta.data.task import data_root
from volta.features.backbones.backbone import (
    IMAGENET_MEAN,
    IMAGENET_STD,
    Backbone,
    KnownBackbone,
    OnnxBackbone,
    Preprocessing,
    TorchBackbone,
    checked_file,
    hash_weights,
    load_weights,
    onnx_backbone,
    read_weights,
)
from volta.features.backbones.efficientnet_lite0 import EFFICIENTNET_LITE0
from volta.features.backbones.resnet18 import RESNET18


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


HUGGING_FACE_PREFIX = "hf:"


def hugging_face_backbone(name: str, preprocessing: Preprocessing | None, weights: Path | None) -> TorchBackbone:
    """Return the vision model ``hf:MODEL`` with its processor's size, mean and standard deviation.

    Only safetensors weights are read and no code of the model's repository is run. Images are resized to the model's
    size without cropping, as for every backbone here.
    """
    try:
        from transformers import AutoImageProcessor, AutoModel
    except ImportError as error:
        raise MissingDataError(
            f"backbone {name} needs transformers, which is not installed: pip install transformers"
        ) from error
    model_name = name.removeprefix(HUGGING_FACE_PREFIX)
    try:
        # Left open, transformers would ask at the terminal whether to run the repository's code.
        model = AutoModel.from_pretrained(model_name, use_safetensors=True, trust_remote_code=False).eval()
        processor = AutoImageProcessor.from_pretrained(model_name, trust_remote_code=False)
    except (OSError, ValueError) as error:
        raise MissingDataError(f"backbone {name} cannot be loaded: {error}") from error
    except Exception as error:
        # A model's files are somebody else's: configurations, weights and processors fail in many ways.
        raise InputError(f"backbone {name} cannot be loaded ({reason(error)}); check the model's files") from error
    network = PooledModel(getattr(model, "vision_model", model))
    return TorchBackbone(name, network.eval(), hash_weights(network), preprocessing or _preprocessing(processor))


class PooledModel(nn.Module):
    """A transformers model that gives its pooled output, or the mean of its last hidden states where it has none."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, images: Tensor) -> Tensor:
        """Return (n, d) rows."""
        outputs: Any = self.model(pixel_values=images)
        pooled: Tensor | None = getattr(outputs, "pooler_output", None)
        if pooled is not None:
            return pooled.flatten(start_dim=1)
        hidden: Tensor = outputs.last_hidden_state
        return hidden.mean(dim=1) if hidden.ndim == 3 else hidden


def _preprocessing(processor: Any) -> Preprocessing:
    size = getattr(processor, "crop_size", None) or processor.size
    height = size.get("height") or size.get("shortest_edge")
    width = size.get("width") or size.get("shortest_edge")
    if not height or not width:
        raise InputError(f"the image processor names no size ({size}); pass preprocessing=Preprocessing(size=...)")
    if not getattr(processor, "do_normalize", True):
        return Preprocessing((height, width), (0.0, 0.0, 0.0), (1.0, 1.0, 1.0))
    mean = tuple(getattr(processor, "image_mean", None) or IMAGENET_MEAN)
    std = tuple(getattr(processor, "image_std", None) or IMAGENET_STD)
    return Preprocessing((height, width), mean, std)


TIMM_PREFIX = "timm:"


def timm_backbone(name: str, preprocessing: Preprocessing | None, weights: Path | None) -> TorchBackbone:
    """Return the model ``timm:NAME`` without its last layer, with the size, mean and deviation it was trained with.

    Its weights are those of ``weights``, a file of that model's own names with or without the last layer, or else
    timm's pretrained ones, from timm's cache or through timm. Images are resized to the model's size without cropping,
    as for every backbone here.
    """
    try:
        import timm
    except (ImportError, RuntimeError) as error:  # a torchvision made for another torch fails with the latter
        raise MissingDataError(
            f"backbone {name} needs timm, which cannot be imported ({error}): pip install timm, and a torchvision "
            "that belongs to your torch"
        ) from error
    model_name = name.removeprefix(TIMM_PREFIX)
    try:
        network: nn.Module = timm.create_model(model_name, pretrained=weights is None, num_classes=0)
    except Exception as error:  # timm and the hub behind it raise many kinds: unknown names, no network, no such file
        raise MissingDataError(
            f"backbone {name} cannot be loaded ({error}); check the name with timm.list_models(), or pass the weights "
            "as a file (--weights FILE, in Python weights=)"
        ) from error
    settings: dict[str, Any] = getattr(network, "pretrained_cfg", None) or {}
    if weights is not None:
        # What timm calls the last layer, or layers, of this model; they are left out of the network.
        head = settings.get("classifier") or "fc"
        heads = (head,) if isinstance(head, str) else tuple(head)
        load_weights(network, read_weights(weights), tuple(f"{part}." for part in heads), str(weights))
    network.eval()
    return TorchBackbone(name, network, hash_weights(network), preprocessing or _timm_preprocessing(settings))


def _timm_preprocessing(settings: dict[str, Any]) -> Preprocessing:
    channels, height, width = settings.get("input_size") or (3, 224, 224)
    if channels != 3:
        raise InputError(f"the model takes images of {channels} channels; choose one that takes 3")
    mean = tuple(settings.get("mean") or IMAGENET_MEAN)
    std = tuple(settings.get("std") or IMAGENET_STD)
    return Preprocessing((height, width), mean, std)


HUBS: dict[str, Callable[[str, Preprocessing | None, Path | None], TorchBackbone]] = {
    HUGGING_FACE_PREFIX: hugging_face_backbone,
    TIMM_PREFIX: timm_backbone,
}
"""By how a name begins: what loads backbones that may be fetched over the network."""
BACKBONES: dict[str, KnownBackbone] = {"resnet18": RESNET18, "efficientnet-lite0": EFFICIENTNET_LITE0}


def load_backbone(
    name: str | Path | nn.Module | Backbone,
    *,
    weights: Path | None = None,
    root: Path | None = None,
    preprocessing: Preprocessing | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> Backbone:
    """Return a backbone ready for extraction.

    Parameters
    ----------
    name
        A name in :data:`BACKBONES`; a path that ends in ``.onnx``; ``hf:MODEL`` for a Hugging Face vision model;
        ``timm:NAME`` for a model of timm; or a module, which is switched to evaluation mode.
    weights
        A ``.safetensors`` or ``.pth`` state dict for a named backbone or a model of timm, in place of the usual one.
    root
        Data folder, where ``volta data get`` puts weights; None: ``VOLTA_DATA`` or the platform's cache folder.
    preprocessing
        In place of the backbone's. For modules and ONNX files the default is 224×224 (or the file's fixed size)
        with ImageNet's mean and standard deviation.
    limits
        What trying out an ONNX file may cost.
    """
    if isinstance(name, TorchBackbone | OnnxBackbone):
        return name
    if weights is not None and not (name in BACKBONES or str(name).startswith(TIMM_PREFIX)):
        raise InputError(f"weights goes with a named backbone ({', '.join(BACKBONES)}); {name} has its weights already")
    if isinstance(name, nn.Module):
        return module_backbone(name, preprocessing=preprocessing)
    text = str(name)
    if text in BACKBONES:
        return _load_known(text, weights or find_weights(text, data_root(root)), preprocessing)
    if text in plugins("volta.backbones"):
        return _load_plugin(plugins("volta.backbones")[text], preprocessing)
    if text.lower().endswith(".onnx"):
        return onnx_backbone(Path(text), preprocessing, limits)
    for prefix, load in HUBS.items():
        if text.startswith(prefix):
            return load(text, preprocessing, weights)
    known = ", ".join([*BACKBONES, *plugins("volta.backbones")])
    raise InputError(
        f"there is no backbone {text!r}; pass one of {known}, a file ending in .onnx, or hf:MODEL, or timm:NAME"
    )


def is_from_hub(name: str) -> bool:
    """Whether a backbone of this name may be fetched over the network."""
    return name.startswith(tuple(HUBS))


def find_weights(name: str, root: Path) -> Path:
    """Return the weights file of a named backbone: from the data folder, else from where else they may be."""
    known = BACKBONES[name]
    path = root / known.weights_file
    return checked_file(path if path.is_file() else known.find_elsewhere(root))


def _load_plugin(plugin: Plugin, preprocessing: Preprocessing | None) -> Backbone:
    """Return what an entry point ``volta.backbones`` gives: a function without arguments that makes the network.

    The package's version and the code that makes the network are part of what tells its features from others'.
    """
    make = plugin.load()
    made = make() if callable(make) else make
    if isinstance(made, nn.Module):
        made = module_backbone(made, preprocessing=preprocessing)
    if not isinstance(made, TorchBackbone | OnnxBackbone):
        raise InputError(
            f"the plug-in {plugin.name!r} of {plugin.package} gave a {type(made).__name__}; "
            "expected a function that returns a torch.nn.Module"
        )
    code = fingerprint([make]) if callable(make) else ""
    return replace(made, name=plugin.name, weights=hash_text(f"{made.weights} {plugin.package} {code}"))


def _load_known(name: str, weights: Path, preprocessing: Preprocessing | None) -> TorchBackbone:
    known = BACKBONES[name]
    network = known.build()
    load_weights(network, read_weights(weights), known.head, str(weights))
    network.eval()
    preprocessing = preprocessing or known.preprocessing
    fast = None if known.rewrite is None else partial(known.rewrite, network, preprocessing.size)
    return TorchBackbone(name, network, hash_weights(network), preprocessing, fast)
