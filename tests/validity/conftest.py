from __future__ import annotations

import os
from pathlib import Path

import pytest

LOGITS = "cifar10-resnet110.npz"


@pytest.fixture(scope="session")
def published_logits() -> Path:
    """CIFAR-10, ResNet-110, in the folder that VOLTA_LOGITS names, or in `logits` of the one that VOLTA_DATA names."""
    folders = [os.environ.get("VOLTA_LOGITS"), os.environ.get("VOLTA_DATA")]
    if not any(folders):
        pytest.skip("neither VOLTA_LOGITS nor VOLTA_DATA names a folder")
    places = [Path(folder) / part for folder in folders if folder for part in (LOGITS, f"logits/{LOGITS}")]
    found = [path for path in places if path.is_file()]
    if not found:
        pytest.skip(f"no published logits: none of {', '.join(map(str, places))} is there")
    return found[0]
