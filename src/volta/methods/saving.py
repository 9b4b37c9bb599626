"""Fitted methods as one checksummed safetensors file, and as ONNX graphs."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from volta.core.checksummed import FileKind, read_arrays, write_arrays
from volta.core.errors import InputError, StoreError
from volta.core.files import atomic_path
from volta.core.types import Array
from volta.features.engines import ExportError, quiet_exporter
from volta.methods.base import Method, PostHoc
from volta.methods.graphs import (
    HasGraph,
    HasTensorFormula,
    MethodGraph,
    TensorOutputs,
    TensorPrediction,
    with_tree_ensembles,
)
from volta.methods.registry import METHODS
from volta.networks.network import Network, network_from_parts
from volta.networks.spec import Classifier

_SHORT = 64

MODEL_FILE = FileKind("saved VOLTA method", 7, "fit and save it again")


@dataclass(frozen=True)
class _Header:
    method: str
    parameters: dict[str, Any]
    learned: list[dict[str, Any]]
    extra: dict[str, Any]


def parameters_of(method: Method) -> dict[str, Any]:
    """Return the constructor's parameters."""
    return {field.name: getattr(method, field.name) for field in fields(method)}  # type: ignore[arg-type]


def count_values(method: Method) -> int:
    """Return how many numbers the fitted method has to keep to predict: network weights, means, banks, ..."""
    tensors: dict[str, Array] = {}
    _encode(_learned(method), "", tensors, method.learned_types)
    return sum(array.size for array in tensors.values())


def save_methods(
    methods: Sequence[Method],
    name: str,
    path: Path,
    extra: dict[str, Any] | None = None,
    *,
    extra_types: tuple[type, ...] = (),
) -> None:
    """Write fits of one method, registered as ``name``, to ``path``.

    ``extra`` goes along and comes back on loading; of dataclasses it may hold those in ``extra_types``.
    """
    tensors: dict[str, Array] = {}
    header = {
        "method": name,
        "parameters": parameters_of(methods[0]),
        "learned": [
            _encode(_learned(method), f"learned/{place}", tensors, method.learned_types)
            for place, method in enumerate(methods)
        ],
        "extra": _encode(extra or {}, "extra", tensors, extra_types),
    }
    write_arrays(Path(path), MODEL_FILE, tensors, header)


def load_methods(
    path: Path,
    table: dict[str, type[Method]],
    *,
    extra_types: tuple[type, ...] = (),
) -> tuple[list[Method], dict[str, Any]]:
    """Return what :func:`save_methods` wrote, methods made from the classes in ``table``, and what went along."""
    header, tensors = read_arrays(Path(path), MODEL_FILE, _Header)
    if header.method not in table:
        raise StoreError(f"{path} holds the method {header.method!r}, which is not one of {', '.join(table)}")
    methods = []
    with MODEL_FILE.parsing(path):
        parameters = {name: tuple(v) if isinstance(v, list) else v for name, v in header.parameters.items()}
        for learned in header.learned:
            method = table[header.method](**parameters)
            types = {kind.__name__: kind for kind in method.learned_types}
            _learn(method, _decode(learned, tensors, types))
            methods.append(method)
        return methods, _decode(header.extra, tensors, {kind.__name__: kind for kind in extra_types})


def _learn(method: Method, learned: Mapping[str, Any]) -> None:
    """Give a method, parameters checked, what it learned when it was saved."""
    method.check_parameters()
    for key, value in learned.items():
        if not key.endswith("_") or key.startswith("_") or hasattr(type(method), key):
            raise StoreError(f"the file holds {key!r}, which no method learns; {MODEL_FILE.remedy}")
        setattr(method, key, value)


def _learned(method: Method) -> dict[str, Any]:
    return {name: value for name, value in sorted(vars(method).items()) if name.endswith("_")}


def _encode(value: Any, path: str, tensors: dict[str, Array], types: tuple[type, ...]) -> Any:
    """Return ``value`` as JSON, its arrays moved to ``tensors`` under their path; of dataclasses only ``types``."""
    if isinstance(value, np.ndarray):
        narrow = value.astype(np.float32) if value.dtype == np.float64 and value.size > _SHORT else value
        # Where nothing is lost by it the file is half as large.
        wide = narrow is not value and np.array_equal(narrow, value)
        tensors[path] = narrow if wide else value
        return {"array": path} | ({"wide": True} if wide else {})
    if isinstance(value, Network):
        arrays = {f"{path}/{name}": array for name, array in value.tensors().items()}
        tensors |= arrays
        return {"network": value.to_json(), "path": path}
    if is_dataclass(value):
        if not isinstance(value, types):
            raise StoreError(f"{path} is a {type(value).__name__}; name its class in the method's learned_types")
        parts = {field.name: getattr(value, field.name) for field in fields(value)}
        held: object = value
        parts |= _learned(held) if isinstance(held, Method) else {}
        return {"dataclass": type(value).__name__, "fields": _encode(parts, path, tensors, types)}
    if isinstance(value, dict):
        return {"dict": {key: _encode(item, f"{path}/{key}", tensors, types) for key, item in value.items()}}
    if isinstance(value, list | tuple):
        items = [_encode(item, f"{path}/{index}", tensors, types) for index, item in enumerate(value)]
        return {"list": items} if isinstance(value, list) else {"tuple": items}
    return {"value": value.item() if isinstance(value, np.generic) else value}


def _decode(value: Any, tensors: dict[str, Array], types: Mapping[str, type]) -> Any:
    """Return what :func:`_encode` was given; only the dataclasses in ``types`` are ever built."""
    if "array" in value:
        found = tensors[value["array"]]
        return found.astype(np.float64) if value.get("wide") else found
    if "network" in value:
        prefix = value["path"] + "/"
        arrays = {name.removeprefix(prefix): array for name, array in tensors.items() if name.startswith(prefix)}
        return network_from_parts(value["network"], arrays, torch.device("cpu"))
    if "dataclass" in value:
        if value["dataclass"] not in types:
            raise StoreError(
                f"the file holds a {value['dataclass']!r}, which its method does not learn; it is not ours"
            )
        return _made(types[value["dataclass"]], _decode(value["fields"], tensors, types))
    if "dict" in value:
        return {key: _decode(item, tensors, types) for key, item in value["dict"].items()}
    for kind, make in (("list", list), ("tuple", tuple)):
        if kind in value:
            return make(_decode(item, tensors, types) for item in value[kind])
    return value["value"]


def _made(kind: Any, parts: dict[str, Any]) -> Any:
    """Return a dataclass of its parts; those of a method hold what it learned too."""
    names = {field.name for field in fields(kind)}
    made = kind(**{name: part for name, part in parts.items() if name in names})
    if isinstance(made, Method):
        _learn(made, {name: part for name, part in parts.items() if name not in names})
    return made


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
    model: Any = with_tree_ensembles(program.model_proto)  # type: ignore[union-attr]
    if rewrite is not None:
        model = rewrite(model)
    for key, value in notes.items():
        model.metadata_props.add(key=key, value=value)
    with atomic_path(path) as temporary:
        temporary.write_bytes(model.SerializeToString())
