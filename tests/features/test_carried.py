"""A graph carried to a machine that lacks its file runs there as here."""

from __future__ import annotations

import pickle
import shutil
from pathlib import Path

import numpy as np
import pytest

from tests.features.backbones.test_onnx_file import write_graph
from volta.features.backbones.backbone import TorchBackbone
from volta.features.backbones.load import load_backbone
from volta.features.engines import files_of, make_engine, with_files


@pytest.mark.parametrize("kind", ["exported", "a user's, with weights beside it", "eager"])
def test_an_engine_runs_where_its_file_is_not(
    tiny: TorchBackbone, pixels: np.ndarray, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    driver = tmp_path / "driver"
    driver.mkdir()
    if kind.startswith("a user's"):
        write_graph(driver / "net.onnx", 2.0)
        backbone = load_backbone(driver / "net.onnx")
    else:
        backbone = tiny
    engine = make_engine(backbone, runtime="torch" if kind == "eager" else "onnx", cache=driver, threads=1)
    expected = engine(pixels[:5])
    sent = pickle.dumps((engine, files_of(engine)))
    shutil.rmtree(driver)
    monkeypatch.setenv("VOLTA_CACHE", str(tmp_path / "node"))
    there = with_files(*pickle.loads(sent))
    np.testing.assert_array_equal(there(pixels[:5]), expected)
    again = with_files(*pickle.loads(sent))
    assert getattr(again, "path", None) == getattr(there, "path", None)
