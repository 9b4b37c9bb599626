"""What a backbone is: a frozen network from images to feature rows, with all that tells it apart from others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import nn

from volta.core.limits import Limits
from volta.features.preprocessing import Preprocessing


@dataclass(frozen=True, eq=False)
class TorchBackbone:
    """A network that maps normalised (n, 3, h, w) images to (n, d) rows or (n, d, h', w') maps.

    ``fast`` makes an equal network that is quicker as an ONNX graph, if there is one.
    """

    name: str
    network: nn.Module
    weights: str
    preprocessing: Preprocessing
    fast: Callable[[], nn.Module] | None = None


@dataclass(frozen=True, eq=False)
class OnnxBackbone:
    """An ONNX file with one image input (n, 3, h, w) float32; its first output is (n, d) or (n, d, h', w')."""

    name: str
    path: Path
    weights: str
    preprocessing: Preprocessing


Backbone = TorchBackbone | OnnxBackbone


@dataclass(frozen=True)
class KnownBackbone:
    """A backbone that goes by name: its network, its last layer's name, and where its weights are found.

    ``weights_file`` is looked for in the data folder, where ``volta data get`` puts weights; ``find_elsewhere`` gets
    the data folder and gives a file from another place, or says how to get one. ``rewrite`` makes of the network an
    equal one for images of a given size that is quicker as an ONNX graph.
    """

    title: str
    width: int
    build: Callable[[], nn.Module]
    head: str
    weights_file: str
    find_elsewhere: Callable[[Path], Path]
    preprocessing: Preprocessing
    rewrite: Callable[[Any, tuple[int, int]], nn.Module] | None = None


@dataclass(frozen=True)
class BackbonePattern:
    """Backbones that go by how their name is formed, shown as ``form``.

    They bring their own weights; those that ``takes_weights`` may be given a file instead. Those ``from_hub`` may be
    fetched over the network.
    """

    form: str
    matches: Callable[[str], bool]
    load: Callable[[str, Preprocessing | None, Path | None, Limits], Backbone]
    takes_weights: bool = False
    from_hub: bool = False
