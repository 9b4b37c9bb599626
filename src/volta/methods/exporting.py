"""Fitted methods as ONNX graphs: from a feature row to probabilities and uncertainty, without Python or PyTorch."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from volta.core.errors import InputError
from volta.core.files import atomic_path
from volta.features.export import ExportError, quiet_exporter
from volta.methods.base import Method
from volta.methods.energy import Energy
from volta.methods.linear import Linear
from volta.methods.softmax import Softmax
from volta.methods.temperature import Temperature
from volta.methods.volta import Volta
from volta.networks.network import Network


class _Graph(nn.Module):
    """p = softmax(b l) and an uncertainty of the network's logits l."""

    def __init__(self, network: Network, beta: float, score: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.classifier = copy.deepcopy(network.classifier).cpu().eval()
        self._beta = beta
        self._score = score

    def forward(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        logits = self.classifier(inputs)
        return torch.softmax(self._beta * logits, dim=1), self._score(logits)


def _volta(method: Volta) -> _Graph:
    if method.n_passes:
        raise InputError(f"the method samples {method.n_passes} passes; only deterministic ones can be exported")
    learned = method.learned_temperature
    sharp = learned / method.uncertainty_temperature
    return _Graph(method.network_, method.beta_ * learned, lambda logits: _doubt(sharp * logits))


def _temperature(method: Temperature | Linear) -> _Graph:
    def entropy(logits: Tensor) -> Tensor:
        logs = torch.log_softmax(method.beta_ * logits, dim=1)
        return -(logs.exp() * logs).sum(dim=1)

    return _Graph(method.network_, method.beta_, entropy)


def _doubt(logits: Tensor) -> Tensor:
    """1 − max softmax, as the share of all but the largest: exact where it is small."""
    shifted = logits - logits.max(dim=1, keepdim=True).values
    others = torch.topk(shifted, shifted.shape[1]).values[:, 1:].exp().sum(dim=1)
    return others / (1.0 + others)


GRAPHS: dict[type[Method], Callable[[Any], _Graph]] = {
    Volta: _volta,
    Softmax: lambda method: _Graph(method.network_, 1.0, _doubt),
    Temperature: _temperature,
    Linear: _temperature,
    Energy: lambda method: _Graph(method.network_, 1.0, lambda logits: -torch.logsumexp(logits, dim=1)),
}
"""The methods that are one deterministic pass of one network, and how each becomes a graph."""


def export_onnx(method: Method, path: Path, notes: Mapping[str, str] | None = None) -> None:
    """Write a fitted method as an ONNX graph.

    Its input is ``inputs``, float32 rows of the shape the method was fitted on, any number of them; its outputs are
    ``probs`` (n, K) and ``uncertainty`` (n,), float32. ``notes`` become the model's metadata.
    """
    build = GRAPHS.get(type(method))
    if build is None:
        possible = ", ".join(kind.__module__.rpartition(".")[2] for kind in GRAPHS)
        raise InputError(f"{method.title} cannot be exported to ONNX; these methods can: {possible}")
    rows = torch.zeros((2, *method.input_shape_))
    try:
        with quiet_exporter(), torch.no_grad():
            program = torch.onnx.export(
                build(method),
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
