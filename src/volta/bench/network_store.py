"""Trained networks as artefacts of a run, shared by cells, processes and later runs."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import torch
from filelock import FileLock
from safetensors import SafetensorError
from safetensors.numpy import load, save

from volta.core.files import canonical_json, hash_array, hash_text, write_atomic
from volta.core.types import Array
from volta.networks.network import Network
from volta.networks.trainer import MemoryNetworkStore


class DiskNetworkStore:
    """Networks as safetensors files named by key; a lock per key makes concurrent processes train each one once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._memory = MemoryNetworkStore()

    def get_or_train(self, key: str, device: torch.device, train_network: Callable[[], Network]) -> Network:
        """Return the network from memory or disk, or train and keep it."""
        return self._memory.get_or_train(key, device, lambda: self._from_disk_or_train(key, device, train_network))

    def _from_disk_or_train(self, key: str, device: torch.device, train_network: Callable[[], Network]) -> Network:
        self._folder.mkdir(parents=True, exist_ok=True)
        path = self._folder / f"{key[:32]}.safetensors"
        with FileLock(path.with_suffix(".lock")):
            network = decode_network(path.read_bytes(), device) if path.is_file() else None
            if network is None or network.key != key:
                network = train_network()
                data = encode_network(network)
                write_atomic(path, lambda file: file.write(data))
        return network


class PreloadedNetworkStore:
    """Networks given as bytes, and others trained here and kept in memory."""

    def __init__(self, blobs: list[bytes], device: torch.device) -> None:
        self._given = {}
        self._memory = MemoryNetworkStore()
        for blob in blobs:
            network = decode_network(blob, device)
            if network is not None:
                self._given[network.key] = network

    def get_or_train(self, key: str, device: torch.device, train_network: Callable[[], Network]) -> Network:
        """Return the given network, or train and keep it."""
        return self._given.get(key) or self._memory.get_or_train(key, device, train_network)


def encode_network(network: Network) -> bytes:
    """Return a network as the bytes of a safetensors file with its description and a checksum in the header."""
    tensors = network.tensors()
    header = canonical_json(network.to_json())
    blob: bytes = save(tensors, {"network": header, "checksum": _checksum(header, tensors)})
    return blob


def decode_network(blob: bytes, device: torch.device) -> Network | None:
    """Return the network; None if the bytes are damaged, so that it is trained anew."""
    try:
        header = _header(blob)
        tensors = load(blob)
        if header["checksum"] != _checksum(header["network"], tensors):
            return None
        return Network.from_parts(json.loads(header["network"]), tensors, device)
    except (SafetensorError, KeyError, TypeError, ValueError, RuntimeError):
        return None


def _header(blob: bytes) -> dict[str, str]:
    size = int.from_bytes(blob[:8], "little")
    header: dict[str, str] = json.loads(blob[8 : 8 + size])["__metadata__"]
    return header


def _checksum(header: str, tensors: dict[str, Array]) -> str:
    return hash_text(header + "".join(hash_array(tensors[name].reshape(-1)) for name in sorted(tensors)))
