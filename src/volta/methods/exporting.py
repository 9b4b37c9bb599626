"""Fitted methods as ONNX graphs: from a feature row to what the method says of it, without Python or PyTorch."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, cast

import torch
from torch import Tensor, nn

from volta.core.errors import InputError
from volta.core.files import atomic_path
from volta.features.export import ExportError, quiet_exporter
from volta.methods.base import Method
from volta.methods.graphs import HasGraph, HasTensorFormula, MethodGraph, TensorOutputs, TensorPrediction
from volta.methods.post_hoc import PostHoc
from volta.methods.registry import METHODS
from volta.networks.spec import Classifier


class RowGraph(nn.Module):
    """A method from float32 rows to its prediction: its networks in float32, as they were trained, then its formula."""

    def __init__(self, graph: MethodGraph) -> None:
        super().__init__()
        self.classifiers = nn.ModuleList(copy.deepcopy(network.classifier).cpu().eval() for network in graph.networks)
        self._formula = graph.formula

    def forward(self, inputs: Tensor) -> TensorPrediction:
        """Return what the method says of rows (n, ...)."""
        found = []
        for module in self.classifiers:
            classifier = cast(Classifier, module)
            features = classifier.body(inputs)
            found.append(TensorOutputs(classifier.head(features).double(), features.double()))
        return self._formula(inputs, found)


def row_graph(method: Method) -> RowGraph:
    """Return a fitted method as a module, or say why there is none."""
    if isinstance(method, HasTensorFormula) and isinstance(method, PostHoc):
        if method.input_shape_ is None:
            raise InputError(
                f"{method.title} was fitted from outputs, without a network; export a method fitted by fit"
            )
        formula = method.predict_tensors
        return RowGraph(MethodGraph([method.network_], lambda _, outputs: formula(outputs[0])))
    if isinstance(method, HasGraph):
        return RowGraph(method.graph())
    raise no_graph(method)


def no_graph(method: Method) -> InputError:
    """Return the error for a method that has no deterministic formula, with those that have one."""
    possible = ", ".join(name for name, kind in METHODS.items() if issubclass(kind, HasGraph | HasTensorFormula))
    return InputError(
        f"{method.title} cannot be exported to ONNX: it draws random numbers at test time, or gives no formula for "
        f"graphs; fit one of these methods instead: {possible}"
    )


def write_onnx(
    module: nn.Module,
    examples: Mapping[str, Tensor],
    output_names: Sequence[str],
    path: Path,
    notes: Mapping[str, str],
    *,
    free: Mapping[str, tuple[str, ...]] = MappingProxyType({}),
    rewrite: Callable[[Any], Any] | None = None,
) -> None:
    """Write ``module`` as one ONNX file of standard operators.

    ``examples`` are inputs by name, of any number of rows but 0 and 1; the number of rows is free in the graph, as are
    the later axes that ``free`` names, axis by axis, empty for a fixed one. ``rewrite`` changes the model before it is
    written, and ``notes`` become its metadata.
    """
    sizes: dict[str, Any] = {name: torch.export.Dim(name) for axes in free.values() for name in axes if name}
    rows = torch.export.Dim("n")
    shapes = [
        {0: rows} | {axis: sizes[size] for axis, size in enumerate(free.get(name, ()), start=1) if size}
        for name in examples
    ]
    try:
        with quiet_exporter(), torch.no_grad():
            program = torch.onnx.export(
                module.eval(),
                tuple(examples.values()),
                dynamo=True,
                verbose=False,
                input_names=list(examples),
                output_names=list(output_names),
                dynamic_shapes=tuple(shapes),
            )
    except ImportError as error:
        raise ExportError(f"exporting needs {error.name}; install it with: pip install 'volta-uq[onnx]'") from error
    model: Any = program.model_proto  # type: ignore[union-attr]
    if rewrite is not None:
        model = rewrite(model)
    for key, value in notes.items():
        model.metadata_props.add(key=key, value=value)
    with atomic_path(path) as temporary:
        temporary.write_bytes(model.SerializeToString())
