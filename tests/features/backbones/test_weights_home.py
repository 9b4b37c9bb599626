"""Weights have one home, the data folder: what ``volta data get`` puts there, extraction finds."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.data.file_server import FileServer, serve
from volta.core.errors import MissingDataError
from volta.data import inventory
from volta.data.download import Checksum
from volta.data.inventory import ARCHIVES, get_data
from volta.features.backbones.backbone import Preprocessing
from volta.features.backbones.load import BACKBONES, find_weights, load_backbone
from volta.features.backbones.resnet18 import ResNet18
from volta.features.extract import extract


@pytest.fixture
def server() -> Iterator[FileServer]:
    with serve() as files:
        yield files


@pytest.fixture
def published(server: FileServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """Serve other ResNet-18 weights in place of torchvision's and return their file name; torch's cache is empty."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        state = ResNet18().state_dict()
    buffer = io.BytesIO()
    torch.save(state, buffer)
    content = buffer.getvalue()
    digest = hashlib.sha256(content).hexdigest()
    name = f"resnet18-{digest[:8]}.pth"
    url = server.add(f"/{name}", content)
    small = replace(
        ARCHIVES["resnet18"], file=name, urls=(url,), size=len(content), checksum=Checksum("sha256", digest)
    )
    monkeypatch.setitem(inventory.ARCHIVES, "resnet18", small)
    fast_to_test = replace(
        BACKBONES["resnet18"], weights_file=name, preprocessing=Preprocessing(size=(32, 32)), rewrite=None
    )
    monkeypatch.setitem(BACKBONES, "resnet18", fast_to_test)
    monkeypatch.setattr(torch.hub, "get_dir", lambda: str(tmp_path / "hub"))
    monkeypatch.setitem(__import__("sys").modules, "torchvision.models", None)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    return name


def test_fetched_weights_are_found_by_extraction(published: str, tmp_path: Path) -> None:
    root = tmp_path / "data"
    pixels = np.random.default_rng(0).integers(0, 256, (3, 3, 8, 8), dtype=np.uint8)
    with pytest.raises(MissingDataError, match=rf"volta data get resnet18 --data {root}"):
        extract(pixels, "resnet18", root=root, cache=tmp_path / "cache", runtime="torch")
    assert get_data("resnet18", root) == [root / published]
    assert find_weights("resnet18", root) == root / published
    found = extract(pixels, "resnet18", root=root, cache=tmp_path / "cache", runtime="torch")
    assert found.array.shape == (3, 512)


def test_the_usual_data_folder_is_looked_into(published: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VOLTA_DATA", str(tmp_path / "usual"))
    get_data("resnet18")
    assert load_backbone("resnet18").weights == load_backbone("resnet18", root=tmp_path / "usual").weights
    with pytest.raises(MissingDataError, match="neither in"):
        load_backbone("resnet18", root=tmp_path / "other")


def test_the_catalog_and_the_backbone_mean_one_file() -> None:
    assert ARCHIVES["resnet18"].file == BACKBONES["resnet18"].weights_file
