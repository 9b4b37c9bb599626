"""Weights files: checked, read without unpickling code, and told apart by their values."""

from __future__ import annotations

import hashlib
import warnings
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from volta.core.errors import InputError, MissingDataError
from volta.core.files import hash_file
from volta.core.foreign import reading
from volta.data.download.unpack import check_zip

_COUNTER = "num_batches_tracked"
_SAFE_TORCH = (2, 6)
"""From here on ``weights_only=True`` holds what it says."""


def read_weights(path: Path) -> dict[str, Tensor]:
    """Return the named tensors of a ``.safetensors`` or a PyTorch file; the latter is read with weights_only=True."""
    path = Path(path)
    if not path.is_file():
        raise MissingDataError(f"weights file {path} does not exist; pass a .safetensors or .pth file")
    state = _read_safetensors(path) if path.suffix == ".safetensors" else _read_torch(path)
    if isinstance(state, Mapping) and isinstance(state.get("state_dict"), Mapping):
        state = state["state_dict"]
    if not isinstance(state, Mapping) or not all(isinstance(value, Tensor) for value in state.values()):
        raise InputError(f"weights file {path} holds no state dict (names to tensors); save model.state_dict()")
    return {str(name): value for name, value in state.items()}


def _read_safetensors(path: Path) -> Any:
    from safetensors.torch import load_file

    with reading(f"weights file {path}", "is damaged"):
        return load_file(path)


def _read_torch(path: Path) -> Any:
    if _torch_version() < _SAFE_TORCH:
        raise InputError(
            f"weights file {path} is not read by torch {torch.__version__}, which such files can make run code "
            "(CVE-2025-32434); install torch 2.6 or newer, or pass a .safetensors file"
        )
    remedy = "pass a state dict saved by torch.save or safetensors"
    with reading(f"weights file {path}", "cannot be read as tensors alone", remedy), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns of files it then refuses
        if zipfile.is_zipfile(path):
            check_zip(path)
        return torch.load(path, map_location="cpu", weights_only=True)


def _torch_version() -> tuple[int, ...]:
    return tuple(int(part) for part in torch.__version__.split(".")[:2])


def load_weights(network: nn.Module, state: Mapping[str, Tensor], head: str | tuple[str, ...], source: str) -> None:
    """Load ``state`` into ``network``; names under ``head`` (the last layer) are left out, all others must fit.

    Batch norm's batch counters may be missing: evaluation does not use them.
    """
    wanted = network.state_dict()
    offered = {name: value for name, value in state.items() if not name.startswith(head)}
    missing = [name for name in wanted if name not in offered and not name.endswith(_COUNTER)]
    unknown = [name for name in offered if name not in wanted]
    if missing or unknown:
        raise InputError(
            f"{source} does not fit {type(network).__name__}: {len(missing)} names missing ({_first(missing)}), "
            f"{len(unknown)} unknown ({_first(unknown)}); pass weights of that network"
        )
    for name, value in offered.items():
        if value.shape != wanted[name].shape:
            raise InputError(
                f"{source}: {name} has shape {tuple(value.shape)}, {type(network).__name__} needs "
                f"{tuple(wanted[name].shape)}; pass weights of that network"
            )
    network.load_state_dict(offered, strict=False)


def hash_weights(network: nn.Module) -> str:
    """Return the SHA-256 of a network's parameters and buffers by name, whatever file they came from."""
    digest = hashlib.sha256()
    for name, value in sorted(network.state_dict().items()):
        if name.endswith(_COUNTER):
            continue
        digest.update(f"{name} {value.dtype} {tuple(value.shape)};".encode())
        digest.update(value.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()


def checked_file(path: Path) -> Path:
    """Return ``path`` if its SHA-256 starts with the digits in its name, as PyTorch names its files."""
    expected = path.stem.rpartition("-")[2]
    found = hash_file(path)
    if not found.startswith(expected):
        raise InputError(f"{path} is damaged: its SHA-256 starts with {found[:8]}, not {expected}; get it again")
    return path


def _first(names: list[str]) -> str:
    return names[0] + (", …" if len(names) > 1 else "") if names else "none"
