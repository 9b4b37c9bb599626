from __future__ import annotations

import numpy as np
import pytest
from torch import Tensor, nn

from volta.features.backbones.backbone import Preprocessing, TorchBackbone
from volta.features.backbones.load import module_backbone


class TinyNetwork(nn.Module):
    """A convolution, a batch norm with uneven statistics and a pool: enough to notice any lost preprocessing."""

    def __init__(self, width: int = 6) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, width, 3, stride=2, padding=1)
        self.norm = nn.BatchNorm2d(width)

    def forward(self, images: Tensor) -> Tensor:
        return self.norm(self.conv(images)).relu().mean(dim=(2, 3))


def tiny_network(seed: int = 0) -> TinyNetwork:
    import torch

    with torch.random.fork_rng():
        torch.manual_seed(seed)
        network = TinyNetwork()
        network.norm.running_mean.uniform_(-1.0, 1.0)
        network.norm.running_var.uniform_(0.5, 2.0)
    return network


@pytest.fixture
def tiny() -> TorchBackbone:
    return module_backbone(tiny_network(), preprocessing=Preprocessing(size=(24, 20)))


@pytest.fixture
def pixels() -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (50, 3, 12, 10), dtype=np.uint8)


def network_file(path, seed):
    """Write a backbone of one convolution and a ReLU: enough to tell two apart, and no export."""
    import onnx

    kernel = np.random.default_rng(seed).normal(size=(8, 3, 16, 16)).astype(np.float32)
    images, maps = (
        onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape)
        for name, shape in (("images", ["n", 3, 32, 32]), ("maps", ["n", 8, 2, 2]))
    )
    nodes = [
        onnx.helper.make_node("Conv", ["images", "kernel"], ["filtered"], strides=[16, 16]),
        onnx.helper.make_node("Relu", ["filtered"], ["maps"]),
    ]
    graph = onnx.helper.make_graph(nodes, "tiny", [images], [maps], [onnx.numpy_helper.from_array(kernel, "kernel")])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, str(path))
    return path
