"""An ONNX file as a backbone."""

from __future__ import annotations

from pathlib import Path

from volta.core.errors import MissingDataError
from volta.core.files import hash_file, hash_text
from volta.core.limits import DEFAULT_LIMITS, Limits
from volta.features.backbones.backbone import BackbonePattern, OnnxBackbone
from volta.features.preprocessing import Preprocessing


def onnx_backbone(
    name: str,
    preprocessing: Preprocessing | None = None,
    weights: Path | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> OnnxBackbone:
    """Return an ONNX file as a backbone; a fixed input size in the file decides the size images are resized to.

    The file is tried out in a process of its own first.
    """
    path = Path(name)
    if not path.is_file():
        raise MissingDataError(f"backbone file {path} does not exist")
    from volta.features.engines import tried_out

    found = tried_out(path, limits)
    if preprocessing is None:
        preprocessing = Preprocessing(size=found.size or Preprocessing().size)
    digests = [hash_file(file) for file in (path, *found.weight_files)]
    return OnnxBackbone(
        path.name, path, digests[0] if len(digests) == 1 else hash_text(" ".join(digests)), preprocessing
    )


ONNX_FILE = BackbonePattern("a file ending in .onnx", lambda name: name.lower().endswith(".onnx"), onnx_backbone)
