from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from volta.features.backbones.load import load_backbone
from volta.features.extract import extract

onnx = pytest.importorskip("onnx", reason="needs the onnx extra: pip install 'volta-uq[onnx]'")
pytest.importorskip("onnxruntime", reason="needs the onnx extra: pip install 'volta-uq[onnx]'")
pytest.importorskip("onnxscript", reason="needs the onnx extra: pip install 'volta-uq[onnx]'")


def write_graph(path: Path, scale: float) -> None:
    """Write «mean colour times ``scale``» with the scale in a file beside the graph."""
    from onnx import TensorProto, helper, numpy_helper

    graph = helper.make_graph(
        [
            helper.make_node("ReduceMean", ["images"], ["means"], axes=[2, 3], keepdims=0),
            helper.make_node("Mul", ["means", "scale"], ["features"]),
        ],
        "colours",
        [helper.make_tensor_value_info("images", TensorProto.FLOAT, ["n", 3, 8, 8])],
        [helper.make_tensor_value_info("features", TensorProto.FLOAT, ["n", 3])],
        [numpy_helper.from_array(np.full(3, scale, np.float32), "scale")],
    )
    model = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)])
    onnx.save_model(model, path, save_as_external_data=True, location="weights.bin", size_threshold=0)


def test_weights_beside_the_graph_are_part_of_what_it_is(tmp_path: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (4, 3, 8, 8), dtype=np.uint8)
    path = tmp_path / "net.onnx"
    made = []
    for scale in (1.0, 3.0):
        write_graph(path, scale)
        backbone = load_backbone(path)
        made.append((backbone.weights, extract(pixels, backbone, cache=tmp_path / "cache").array))
    (first, once), (second, thrice) = made
    assert first != second
    np.testing.assert_allclose(thrice, 3.0 * once, rtol=1e-5)
