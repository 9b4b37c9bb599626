"""Frozen backbones: from images to feature arrays that are computed once and kept on disk."""

from volta.features.backbones.backbone import Preprocessing
from volta.features.backbones.load import load_backbone, module_backbone
from volta.features.extract import extract

__all__ = ["Preprocessing", "extract", "load_backbone", "module_backbone"]
