"""An ONNX file as a backbone."""

from __future__ import annotations

from pathlib import Path

from volta.core.errors import MissingDataError
from volta.core.files import hash_file
from volta.features.backbones.backbone import BackbonePattern, OnnxBackbone
from volta.features.preprocessing import Preprocessing


def onnx_backbone(name: str, preprocessing: Preprocessing | None = None) -> OnnxBackbone:
    """Return an ONNX file as a backbone; a fixed input size in the file decides the size images are resized to."""
    path = Path(name)
    if not path.is_file():
        raise MissingDataError(f"backbone file {path} does not exist")
    if preprocessing is None:
        from volta.features.engines import onnx_input_size

        preprocessing = Preprocessing(size=onnx_input_size(path) or Preprocessing().size)
    return OnnxBackbone(path.name, path, hash_file(path), preprocessing)


ONNX_FILE = BackbonePattern("a file ending in .onnx", lambda name: name.lower().endswith(".onnx"), onnx_backbone)
