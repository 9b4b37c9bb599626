"""Trained networks as artefacts of a run, shared by cells, processes and later runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from volta.core.errors import StoreError
from volta.core.files import write_atomic
from volta.core.sealed import FileKind, inside, lock_file, pack_sealed, read_file, unpack_sealed
from volta.networks.network import Network
from volta.networks.trainer import MemoryNetworkStore

NETWORK_FILE = FileKind("trained network", 2, "delete it, and it is trained anew", max_bytes=1 << 34)


class DiskNetworkStore:
    """Networks as safetensors files named by key; a lock per key makes concurrent processes train each one once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._memory = MemoryNetworkStore()

    def get_or_train(self, key: str, device: torch.device, train_network: Callable[[], Network]) -> Network:
        """Return the network from memory or disk, or train and keep it."""
        return self._memory.get_or_train(key, device, lambda: self._from_disk_or_train(key, device, train_network))

    def forget(self) -> None:
        """Let go of the networks in memory; those on disk stay."""
        self._memory.forget()

    def _from_disk_or_train(self, key: str, device: torch.device, train_network: Callable[[], Network]) -> Network:
        self._folder.mkdir(parents=True, exist_ok=True)
        path = inside(self._folder, f"{key[:32]}.safetensors")
        with lock_file(self._folder, f"{key[:32]}.lock"):
            network = decode_network(read_file(path, NETWORK_FILE.max_bytes), device) if path.is_file() else None
            if network is None or network.key != key:
                network = train_network()
                data = encode_network(network)
                write_atomic(path, lambda file: file.write(data))
        return network


def take_networks(source: Path, target: Path) -> int:
    """Copy the networks of another run that are not here yet; return how many. A key says what each is good for."""
    target.mkdir(parents=True, exist_ok=True)
    names = [path.name for path in sorted(source.glob("*.safetensors")) if not (target / path.name).exists()]
    for name in names:
        data = read_file(inside(source, name), NETWORK_FILE.max_bytes)
        write_atomic(inside(target, name), lambda file, data=data: file.write(data))  # type: ignore[misc]
    return len(names)


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

    def forget(self) -> None:
        """Let go of the networks that were trained here; those that were given stay."""
        self._memory.forget()


def encode_network(network: Network) -> bytes:
    """Return a network as the bytes of a sealed safetensors file with its description in the header."""
    return bytes(pack_sealed(NETWORK_FILE, network.tensors(), {"network": network.to_json()}))


def decode_network(blob: bytes, device: torch.device) -> Network | None:
    """Return the network; None if the bytes are damaged, so that it is trained anew."""
    try:
        header, tensors = unpack_sealed(np.frombuffer(bytearray(blob), dtype=np.uint8), "network", NETWORK_FILE)
        with NETWORK_FILE.making("network"):
            return Network.from_parts(dict(header.fields("network").values), tensors, device)
    except StoreError:
        return None
