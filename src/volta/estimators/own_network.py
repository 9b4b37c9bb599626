"""What your own PyTorch network gives for rows: logits, penultimate vectors, labels and the last layer."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from volta.core.checks import without_graph
from volta.core.errors import InputError
from volta.core.types import Array
from volta.networks.outputs import LabelledOutputs, LastLayer, Outputs


def outputs_of(
    model: nn.Module, loader: Iterable[Any], *, layer: str | None = None, verbose: bool = False
) -> LabelledOutputs | Outputs:
    """Run a network over batches and return what post-hoc methods need of it; see `PostHocClassifier`.

    The last linear layer that is called (or the one named ``layer``, as in ``model.named_modules()``) is watched: what
    goes in are the features, what comes out the logits. The network runs in evaluation mode on the device its weights
    are on, and is left as it was.
    loader: batches ``(inputs, labels)``, which give `LabelledOutputs`, or ``inputs``, which give `Outputs`; a PyTorch
    DataLoader or any other iterable of tensors. ``verbose`` writes the progress to standard error.

    >>> network = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
    >>> found = outputs_of(network, [(torch.zeros(5, 4), torch.tensor([0, 1, 2, 0, 1]))])
    >>> found.outputs.logits.shape, found.outputs.features.shape, found.outputs.last_layer.weight.shape
    ((5, 3), (5, 8), (3, 8))
    """
    if not isinstance(model, nn.Module):
        raise InputError(f"model is a {type(model).__name__}; pass a torch.nn.Module")
    weight = next(model.parameters(), None)
    device = torch.device("cpu") if weight is None else weight.device
    logits: list[Array] = []
    features: list[Array] = []
    labels: list[Array] = []
    last: nn.Linear | None = None
    n_rows = 0
    with _watched(model, layer) as calls, _evaluating(model), torch.inference_mode():
        for batch in loader:
            pair = isinstance(batch, tuple | list) and len(batch) == 2
            inputs = batch[0] if pair else batch
            if not isinstance(inputs, Tensor):
                raise InputError(
                    f"loader gives a {type(batch).__name__}; expected batches (inputs, labels) or inputs, tensors each"
                )
            calls.clear()
            model(inputs.to(device))
            if not calls:
                raise InputError("model called no linear layer; name the last one with layer=")
            last, seen, given = calls[-1]
            if seen.ndim != 2:
                raise InputError(f"the last layer's input has shape {tuple(seen.shape)}; name one that sees (n, width)")
            features.append(seen.float().cpu().numpy())
            logits.append(given.double().cpu().numpy())
            if pair:
                labels.append(np.asarray(without_graph(batch[1])))
            n_rows += len(seen)
            if verbose:
                print(f"{n_rows} rows", file=sys.stderr, flush=True)
    if last is None:
        raise InputError("loader is empty; pass at least one batch")
    outputs = Outputs(np.concatenate(logits), np.concatenate(features), _last_layer(last))
    if not labels:
        return outputs
    return LabelledOutputs(outputs, _whole_numbers(np.concatenate(labels)))


def _whole_numbers(labels: Array) -> NDArray[np.int64]:
    if labels.ndim != 1 or not np.array_equal(labels, labels.astype(np.int64)):
        raise InputError(
            f"loader gives labels of shape {labels.shape} and {labels.dtype}; expected (n,) whole numbers, the class "
            "of each row: take the argmax of one-hot or mixed labels"
        )
    return labels.astype(np.int64)


@contextmanager
def _watched(model: nn.Module, layer: str | None) -> Iterator[list[tuple[nn.Linear, Tensor, Tensor]]]:
    """Give a list to which every watched layer adds itself, its input and its output when it is called."""
    calls: list[tuple[nn.Linear, Tensor, Tensor]] = []
    modules = dict(model.named_modules())
    if layer is not None and not isinstance(modules.get(layer), nn.Linear):
        linear = [name for name, module in modules.items() if isinstance(module, nn.Linear)]
        raise InputError(f"layer is {layer!r}, which is no linear layer of the model; pass one of {', '.join(linear)}")
    watched = modules.values() if layer is None else [modules[layer]]

    def keep(module: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        calls.append((module, inputs[0], output))

    handles = [module.register_forward_hook(keep) for module in watched if isinstance(module, nn.Linear)]
    try:
        yield calls
    finally:
        for handle in handles:
            handle.remove()


@contextmanager
def _evaluating(model: nn.Module) -> Iterator[None]:
    training = [module for module in model.modules() if module.training]
    model.eval()
    try:
        yield
    finally:
        for module in training:
            module.training = True


def _last_layer(layer: nn.Linear) -> LastLayer:
    weight = layer.weight.detach().float().cpu().numpy()
    # A layer built without a bias has None there, whatever its annotation says.
    bias: Any = layer.bias
    return LastLayer(weight, np.zeros(len(weight), np.float32) if bias is None else bias.detach().float().cpu().numpy())
