"""Models of timm as backbones, where ``timm`` is installed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torch import nn

from volta.core.errors import InputError, MissingDataError
from volta.core.limits import DEFAULT_LIMITS, Limits
from volta.features.backbones.backbone import BackbonePattern, TorchBackbone
from volta.features.preprocessing import IMAGENET_MEAN, IMAGENET_STD, Preprocessing
from volta.features.weights import hash_weights, load_weights, read_weights

PREFIX = "timm:"


def timm_backbone(
    name: str,
    preprocessing: Preprocessing | None = None,
    weights: Path | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> TorchBackbone:
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
    model_name = name.removeprefix(PREFIX)
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
    return TorchBackbone(name, network, hash_weights(network), preprocessing or _preprocessing(settings))


def _preprocessing(settings: dict[str, Any]) -> Preprocessing:
    channels, height, width = settings.get("input_size") or (3, 224, 224)
    if channels != 3:
        raise InputError(f"the model takes images of {channels} channels; choose one that takes 3")
    mean = tuple(settings.get("mean") or IMAGENET_MEAN)
    std = tuple(settings.get("std") or IMAGENET_STD)
    return Preprocessing((height, width), mean, std)


TIMM = BackbonePattern(
    "timm:NAME", lambda name: name.startswith(PREFIX), timm_backbone, takes_weights=True, from_hub=True
)
