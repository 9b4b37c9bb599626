"""A rewrite of ONNX graphs that lets ONNX Runtime lay out constant factors of batched products once, when it loads."""

from __future__ import annotations

from typing import Any

import numpy as np


def split_batched_products(model: Any) -> Any:
    """Return the ONNX ``model`` with each MatMul by a constant (b, k, m) array as b products by (k, m) matrices.

    ONNX Runtime packs a constant matrix for its kernel at load time, but packs a constant stack of them at every call,
    which for the wide layers of a Winograd network costs as much as the product.
    """
    from onnx import helper, numpy_helper

    graph = model.graph
    constants = {tensor.name: tensor for tensor in graph.initializer if len(tensor.dims) == 3}
    nodes = []
    for node in graph.node:
        stack = constants.get(node.input[1]) if node.op_type == "MatMul" else None
        if stack is None:
            nodes.append(node)
            continue
        matrices = numpy_helper.to_array(stack)
        names = [f"{stack.name}_{index}" for index in range(len(matrices))]
        graph.initializer.extend(
            numpy_helper.from_array(np.ascontiguousarray(matrix), name)
            for matrix, name in zip(matrices, names, strict=True)
        )
        parts = [f"{name}_part" for name in names]
        products = [f"{name}_product" for name in names]
        nodes.append(helper.make_node("Split", [node.input[0]], parts, axis=0, num_outputs=len(parts)))
        nodes += [
            helper.make_node("MatMul", [part, name], [product])
            for part, name, product in zip(parts, names, products, strict=True)
        ]
        nodes.append(helper.make_node("Concat", products, [node.output[0]], axis=0))
        graph.initializer.remove(stack)
    del graph.node[:]
    graph.node.extend(nodes)
    return model
