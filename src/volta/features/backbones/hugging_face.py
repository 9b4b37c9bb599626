"""Vision models of Hugging Face as backbones, where ``transformers`` is installed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torch import Tensor, nn

from volta.core.errors import InputError, MissingDataError
from volta.core.foreign import reason
from volta.core.limits import DEFAULT_LIMITS, Limits
from volta.features.backbones.backbone import BackbonePattern, TorchBackbone
from volta.features.preprocessing import IMAGENET_MEAN, IMAGENET_STD, Preprocessing
from volta.features.weights import hash_weights

PREFIX = "hf:"


def hugging_face_backbone(
    name: str,
    preprocessing: Preprocessing | None = None,
    weights: Path | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> TorchBackbone:
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
    model_name = name.removeprefix(PREFIX)
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


HUGGING_FACE = BackbonePattern("hf:MODEL", lambda name: name.startswith(PREFIX), hugging_face_backbone, from_hub=True)
