"""Fitted methods as one sealed safetensors file: arrays as tensors, the rest as JSON. Nothing is pickled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from volta.core.errors import StoreError
from volta.core.sealed import FileKind, read_sealed, write_sealed
from volta.core.types import Array
from volta.methods.base import Method
from volta.networks.network import Network

MODEL_FILE = FileKind("saved VOLTA method", 6, "fit and save it again")


def parameters_of(method: Method) -> dict[str, Any]:
    """Return the constructor's parameters."""
    return {field.name: getattr(method, field.name) for field in fields(method)}  # type: ignore[arg-type]


def count_values(method: Method) -> int:
    """Return how many numbers the fitted method has to keep to predict: network weights, means, banks, ..."""
    tensors: dict[str, Array] = {}
    _encode(_learned(method), "", tensors, method.learned_types)
    return sum(array.size for array in tensors.values())


def save_method(
    method: Method,
    name: str,
    path: Path,
    extra: dict[str, Any] | None = None,
    *,
    extra_types: tuple[type, ...] = (),
) -> None:
    """Write a fitted method, registered as ``name``, to ``path``.

    ``extra`` goes along and comes back on loading; of dataclasses it may hold those in ``extra_types``.
    """
    tensors: dict[str, Array] = {}
    header = {
        "method": name,
        "parameters": parameters_of(method),
        "learned": _encode(_learned(method), "learned", tensors, method.learned_types),
        "extra": _encode(extra or {}, "extra", tensors, extra_types),
    }
    write_sealed(Path(path), MODEL_FILE, tensors, header)


def load_method(
    path: Path,
    table: dict[str, type[Method]],
    *,
    extra_types: tuple[type, ...] = (),
) -> tuple[Method, dict[str, Any]]:
    """Return the method that :func:`save_method` wrote, made from the classes in ``table``, and what went along."""
    header, tensors = read_sealed(Path(path), MODEL_FILE)
    if (name := header.text("method")) not in table:
        raise StoreError(f"{path} holds the method {name!r}, which is not one of {', '.join(table)}")
    stored = header.fields("parameters").values
    with MODEL_FILE.making(path):
        method = table[name](**{key: tuple(v) if isinstance(v, list) else v for key, v in stored.items()})
        method.check_parameters()
        types = {kind.__name__: kind for kind in method.learned_types}
        for key, value in _decode(header.get("learned"), tensors, types).items():
            if not key.endswith("_") or key.startswith("_") or hasattr(type(method), key):
                raise StoreError(f"{path} holds {key!r}, which no method learns; {MODEL_FILE.remedy}")
            setattr(method, key, value)
        return method, _decode(header.get("extra"), tensors, {kind.__name__: kind for kind in extra_types})


def _learned(method: Method) -> dict[str, Any]:
    return {name: value for name, value in sorted(vars(method).items()) if name.endswith("_")}


def _encode(value: Any, path: str, tensors: dict[str, Array], types: tuple[type, ...]) -> Any:
    """Return ``value`` as JSON, its arrays moved to ``tensors`` under their path; of dataclasses only ``types``."""
    if isinstance(value, np.ndarray):
        tensors[path] = value
        return {"array": path}
    if isinstance(value, Network):
        arrays = {f"{path}/{name}": array for name, array in value.tensors().items()}
        tensors |= arrays
        return {"network": value.to_json(), "path": path}
    if is_dataclass(value):
        if not isinstance(value, types):
            raise StoreError(f"{path} is a {type(value).__name__}; name its class in the method's learned_types")
        parts = {field.name: getattr(value, field.name) for field in fields(value)}
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
        return tensors[value["array"]]
    if "network" in value:
        prefix = value["path"] + "/"
        arrays = {name.removeprefix(prefix): array for name, array in tensors.items() if name.startswith(prefix)}
        return Network.from_parts(value["network"], arrays, torch.device("cpu"))
    if "dataclass" in value:
        if value["dataclass"] not in types:
            raise StoreError(
                f"the file holds a {value['dataclass']!r}, which its method does not learn; it is not ours"
            )
        return types[value["dataclass"]](**_decode(value["fields"], tensors, types))
    if "dict" in value:
        return {key: _decode(item, tensors, types) for key, item in value["dict"].items()}
    for kind, make in (("list", list), ("tuple", tuple)):
        if kind in value:
            return make(_decode(item, tensors, types) for item in value[kind])
    return value["value"]
