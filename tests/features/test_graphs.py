from __future__ import annotations

import numpy as np
import pytest

from volta.features.engines import split_batched_products

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")


def run(model: object, feeds: dict[str, np.ndarray]) -> np.ndarray:
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, feeds)[0]


def test_batched_products_become_single_ones_with_the_same_result() -> None:
    helper, numpy_helper = onnx.helper, onnx.numpy_helper
    random = np.random.default_rng(0)
    stack = random.normal(size=(5, 4, 3)).astype(np.float32)
    single = random.normal(size=(3, 2)).astype(np.float32)
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", ["x", "stack"], ["inner"]),
            helper.make_node("MatMul", ["inner", "single"], ["y"]),
        ],
        "two products",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [5, "n", 4])],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [5, "n", 2])],
        [numpy_helper.from_array(stack, "stack"), numpy_helper.from_array(single, "single")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    feeds = {"x": random.normal(size=(5, 7, 4)).astype(np.float32)}
    expected = run(model, feeds)
    rewritten = split_batched_products(model)
    onnx.checker.check_model(rewritten)
    kinds = [node.op_type for node in rewritten.graph.node]
    assert kinds == ["Split", *["MatMul"] * 5, "Concat", "MatMul"]
    assert "stack" not in {tensor.name for tensor in rewritten.graph.initializer}
    np.testing.assert_allclose(run(rewritten, feeds), expected, rtol=1e-6)
    np.testing.assert_allclose(expected, feeds["x"] @ stack @ single, rtol=1e-5)
