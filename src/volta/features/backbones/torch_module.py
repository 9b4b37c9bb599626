"""Any PyTorch module as a backbone."""

from __future__ import annotations

from torch import nn

from volta.core.files import hash_text
from volta.features.backbones.backbone import TorchBackbone
from volta.features.preprocessing import Preprocessing
from volta.features.weights import hash_weights


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
