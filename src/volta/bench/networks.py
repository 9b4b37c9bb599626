"""Trained networks in the run folder, shared by cells, processes and later runs."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import torch
from filelock import FileLock
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from volta.core.files import canonical_json, write_atomic
from volta.networks.network import Network
from volta.networks.trainer import MemoryStore


class DiskStore:
    """Networks as safetensors files named by key; a lock per key makes concurrent processes train each one once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._memory = MemoryStore()

    def get_or_train(self, key: str, device: torch.device, train_network: Callable[[], Network]) -> Network:
        """Return the network from memory or disk, or train and keep it."""
        return self._memory.get_or_train(key, device, lambda: self._from_disk_or_train(key, device, train_network))

    def _from_disk_or_train(self, key: str, device: torch.device, train_network: Callable[[], Network]) -> Network:
        self._folder.mkdir(parents=True, exist_ok=True)
        path = self._folder / f"{key[:32]}.safetensors"
        with FileLock(path.with_suffix(".lock")):
            network = _read(path, device)
            if network is None or network.key != key:
                network = train_network()
                data = save(network.tensors(), {"network": canonical_json(network.to_json())})
                write_atomic(path, lambda file: file.write(data))
        return network


def _read(path: Path, device: torch.device) -> Network | None:
    """Return the stored network; None if it is absent or damaged, so that it is trained anew."""
    if not path.is_file():
        return None
    try:
        with safe_open(path, framework="numpy") as file:
            value = json.loads(file.metadata()["network"])
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        return Network.from_parts(value, tensors, device)
    except (SafetensorError, KeyError, TypeError, ValueError, RuntimeError):
        return None
