"""Frozen backbones: from images to feature arrays that are computed once and kept on disk."""

from volta.features.backbones import (
    BACKBONES,
    Backbone,
    KnownBackbone,
    OnnxBackbone,
    TorchBackbone,
    load_backbone,
    module_backbone,
)
from volta.features.backbones.backbone import Preprocessing
from volta.features.engines import Engine, EngineWarning, ExportError, make_engine, run_batches
from volta.features.extract import (
    ExtractionProgress,
    Images,
    PixelArray,
    Shard,
    ShardJob,
    extract,
    extract_sets,
    extract_shard,
)

__all__ = [
    "BACKBONES",
    "Backbone",
    "Engine",
    "EngineWarning",
    "ExportError",
    "ExtractionProgress",
    "Images",
    "KnownBackbone",
    "OnnxBackbone",
    "PixelArray",
    "Preprocessing",
    "Shard",
    "ShardJob",
    "TorchBackbone",
    "extract",
    "extract_sets",
    "extract_shard",
    "load_backbone",
    "make_engine",
    "module_backbone",
    "run_batches",
]
