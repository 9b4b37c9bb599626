"""Backbones: frozen networks from images to feature rows; one file each, one table."""

from volta.features.backbones.backbone import Backbone, BackbonePattern, KnownBackbone, OnnxBackbone, TorchBackbone
from volta.features.backbones.load import BACKBONES, find_weights, is_from_hub, load_backbone, module_backbone

__all__ = [
    "BACKBONES",
    "Backbone",
    "BackbonePattern",
    "KnownBackbone",
    "OnnxBackbone",
    "TorchBackbone",
    "find_weights",
    "is_from_hub",
    "load_backbone",
    "module_backbone",
]
