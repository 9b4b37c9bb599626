"""Fitted methods as ONNX graphs: from a feature row to probabilities and uncertainty, without Python or PyTorch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from volta.core.errors import InputError
from volta.core.files import atomic_path
from volta.features.export import ExportError, quiet_exporter
from volta.methods.base import Method
from volta.methods.graphs import HasGraph
from volta.methods.registry import METHODS


@dataclass(frozen=True, eq=False)
class InputScale:
    """What a graph does to its inputs first: z = (x − centre) / scale where they are given, cut to ±limit."""

    centre: NDArray[np.float64] | None
    scale: NDArray[np.float64] | None
    limit: float


class _Scaled(nn.Module):
    """A graph behind its scaling, which is done in float64: columns may lie far from 0 for their spread."""

    centre: Tensor
    scale: Tensor

    def __init__(self, graph: nn.Module, scale: InputScale) -> None:
        super().__init__()
        self.inner = graph
        self._limit = scale.limit
        width = 1 if scale.centre is None else len(scale.centre)
        self.register_buffer("centre", torch.from_numpy(np.zeros(width) if scale.centre is None else scale.centre))
        self.register_buffer("scale", torch.from_numpy(np.ones(width) if scale.scale is None else scale.scale))

    def forward(self, inputs: Tensor) -> Any:
        scaled = (inputs.double() - self.centre) / self.scale
        return self.inner(torch.clamp(scaled, -self._limit, self._limit).float())


def export_onnx(
    method: Method, path: Path, notes: Mapping[str, str] | None = None, scale: InputScale | None = None
) -> None:
    """Write a fitted method as an ONNX graph.

    Its input is ``inputs``, float32 rows of the shape the method was fitted on, any number of them; its outputs are
    ``probs`` (n, K) and ``uncertainty`` (n,), float32. ``notes`` become the model's metadata. With ``scale`` the inputs
    are rows before that scaling, which is then part of the graph.
    """
    if not isinstance(method, HasGraph):
        possible = ", ".join(name for name, kind in METHODS.items() if issubclass(kind, HasGraph))
        raise InputError(f"{method.title} cannot be exported to ONNX; these methods can: {possible}")
    if method.input_shape_ is None:
        raise InputError(f"{method.title} was fitted from outputs, without a network; export a method fitted by fit")
    rows = torch.zeros((2, *method.input_shape_))
    graph: nn.Module = method.graph() if scale is None else _Scaled(method.graph(), scale)
    try:
        with quiet_exporter(), torch.no_grad():
            program = torch.onnx.export(
                graph,
                (rows,),
                dynamo=True,
                verbose=False,
                input_names=["inputs"],
                output_names=["probs", "uncertainty"],
                dynamic_shapes={"inputs": {0: torch.export.Dim("n")}},
            )
    except ImportError as error:
        raise ExportError(f"exporting needs {error.name}; install it with: pip install 'volta-uq[onnx]'") from error
    model: Any = program.model_proto  # type: ignore[union-attr]
    for key, value in (notes or {}).items():
        model.metadata_props.add(key=key, value=value)
    with atomic_path(Path(path)) as temporary:
        temporary.write_bytes(model.SerializeToString())
