"""What a backbone is: a frozen network from images to feature rows, or an ONNX file that a sandbox has tried out."""

from __future__ import annotations

import hashlib
import math
import warnings
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file
from torch import Tensor, nn

from volta.core.errors import InputError, MissingDataError, parse_errors
from volta.core.files import DEFAULT_LIMITS, Limits, hash_file, hash_text
from volta.core.processes import run_sandboxed
from volta.core.types import Array
from volta.data.download import check_zip

Channels = tuple[float, float, float]
IMAGENET_MEAN: Channels = (0.485, 0.456, 0.406)
IMAGENET_STD: Channels = (0.229, 0.224, 0.225)


@dataclass(frozen=True)
class Preprocessing:
    """x ↦ (resize(x / 255) − mean) / std, per channel, bilinear, to ``size`` = (height, width).

    Enlarging is plain bilinear interpolation with half-pixel centres; shrinking averages with the triangle filter
    widened by the scale (antialiasing), as Pillow and ``torch.nn.functional.interpolate(antialias=True)`` do. Nothing
    is cropped and nothing is rounded back to 8 bits.
    """

    size: tuple[int, int] = (224, 224)
    mean: Channels = IMAGENET_MEAN
    std: Channels = IMAGENET_STD

    def __post_init__(self) -> None:
        if min(self.size) < 1:
            raise InputError(f"size is {self.size}; pass (height, width) of at least 1")
        if min(self.std) <= 0.0:
            raise InputError(f"std is {self.std}; pass three positive numbers")

    def matrices(self, height: int, width: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Return R (size_h, height) and C (width, size_w) so that R x C is the resized image."""
        return resize_matrix(height, self.size[0]), np.ascontiguousarray(resize_matrix(width, self.size[1]).T)

    def to_json(self) -> dict[str, Any]:
        """Return a JSON value that tells preprocessings apart."""
        return {"size": list(self.size), "mean": list(self.mean), "std": list(self.std), "resize": "bilinear"}


@lru_cache(maxsize=64)
def resize_matrix(n_in: int, n_out: int) -> NDArray[np.float32]:
    """Return the (n_out, n_in) matrix of bilinear resizing along one axis.

    W_ij ∝ max(0, 1 − |j + ½ − c_i| / s), c_i = (i + ½) n_in / n_out, s = max(1, n_in / n_out); rows sum to 1.
    """
    scale = n_in / n_out
    centres = (np.arange(n_out) + 0.5) * scale
    distances = np.abs(np.arange(n_in) + 0.5 - centres[:, None]) / max(1.0, scale)
    weights = np.maximum(0.0, 1.0 - distances)
    matrix: NDArray[np.float32] = (weights / weights.sum(axis=1, keepdims=True)).astype(np.float32)
    matrix.flags.writeable = False
    return matrix


class Pipeline(nn.Module):
    """Preprocessing and backbone in one module: ``forward(pixels, rows, columns)`` gives (n, d) float32 features.

    ``pixels`` is (n, 3, h, w) uint8; ``rows`` and ``columns`` come from :meth:`Preprocessing.matrices`, so that one
    module, and one exported graph, serves images of any size. The rows of the resizing matrices sum to 1, so shifting
    and scaling the small image first is the same as doing it after resizing, and cheaper.
    """

    scale: Tensor
    shift: Tensor

    def __init__(self, network: nn.Module, preprocessing: Preprocessing) -> None:
        super().__init__()
        mean = torch.tensor(preprocessing.mean, dtype=torch.float64).view(3, 1, 1)
        std = torch.tensor(preprocessing.std, dtype=torch.float64).view(3, 1, 1)
        self.network = network
        self.register_buffer("scale", (1.0 / (255.0 * std)).float(), persistent=False)
        self.register_buffer("shift", (-mean / std).float(), persistent=False)

    def forward(self, pixels: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
        """Return one feature row an image."""
        images = pixels.float() * self.scale + self.shift
        outputs = self.network(torch.matmul(torch.matmul(rows, images), columns))
        return as_rows(outputs)


class AnySizePipeline(nn.Module):
    """A pipeline that makes the resizing matrices of its images itself: ``forward(pixels)``, for graphs without Python.

    ``pixels`` is (n, 3, h, w) uint8 of any h and w.
    """

    def __init__(self, network: nn.Module, preprocessing: Preprocessing) -> None:
        super().__init__()
        self.pipeline = Pipeline(network, preprocessing)
        self._size = preprocessing.size

    def forward(self, pixels: Tensor) -> Tensor:
        """Return one feature row an image."""
        rows = _resize_tensor(torch.arange(pixels.shape[2], dtype=torch.float64), self._size[0])
        columns = _resize_tensor(torch.arange(pixels.shape[3], dtype=torch.float64), self._size[1]).T
        features: Tensor = self.pipeline(pixels, rows, columns)
        return features


def _resize_tensor(places: Tensor, n_out: int) -> Tensor:
    """Return :func:`resize_matrix` for pixels at ``places`` = 0 … n_in − 1, whose number a graph need not know."""
    scale = (places[-1] + 1.0) / n_out
    centres = (torch.arange(n_out, dtype=torch.float64) + 0.5) * scale
    distances = (places + 0.5 - centres.unsqueeze(1)).abs() / scale.clamp(min=1.0)
    weights = (1.0 - distances).clamp(min=0.0)
    return (weights / weights.sum(dim=1, keepdim=True)).float()


def as_rows(outputs: Tensor) -> Tensor:
    """Return a network's outputs as (n, d): feature maps are averaged over their positions."""
    if not isinstance(outputs, Tensor) or outputs.ndim not in (2, 4):
        shape = tuple(outputs.shape) if isinstance(outputs, Tensor) else type(outputs).__name__
        raise InputError(f"the backbone gives {shape}; expected a tensor (n, d) or feature maps (n, d, h, w)")
    return outputs.mean(dim=(2, 3)) if outputs.ndim == 4 else outputs


def prepare(pixels: Array, preprocessing: Preprocessing) -> NDArray[np.float32]:
    """Return what a network sees of uint8 ``pixels``, (n, 3, size_h, size_w) float32; for graphs that start there."""
    rows, columns = preprocessing.matrices(pixels.shape[2], pixels.shape[3])
    mean = np.array(preprocessing.mean).reshape(3, 1, 1)
    std = np.array(preprocessing.std).reshape(3, 1, 1)
    images = pixels * (1.0 / (255.0 * std)).astype(np.float32) + (-mean / std).astype(np.float32)
    return np.asarray(rows @ images @ columns, dtype=np.float32)


def check_pixels(pixels: Array) -> Array:
    """Return ``pixels`` if they are (n, 3, h, w) uint8, or say what is wrong."""
    if pixels.ndim != 4 or pixels.shape[1] != 3 or pixels.dtype != np.uint8 or math.prod(pixels.shape[2:]) == 0:
        raise InputError(
            f"pixels is {pixels.dtype} of shape {pixels.shape}; pass uint8 images of shape (n, 3, height, width)"
        )
    return pixels


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


_COUNTER = "num_batches_tracked"
_SAFE_TORCH = (2, 6)
"""From here on ``weights_only=True`` holds what it says."""


def read_weights(path: Path) -> dict[str, Tensor]:
    """Return the named tensors of a ``.safetensors`` or a PyTorch file; the latter is read with weights_only=True."""
    path = Path(path)
    if not path.is_file():
        raise MissingDataError(f"weights file {path} does not exist; pass a .safetensors or .pth file")
    state: Any = None
    if path.suffix == ".safetensors":
        with parse_errors(f"weights file {path}", "is damaged"):
            state = load_file(path)
    else:
        state = _read_torch(path)
    if isinstance(state, Mapping) and isinstance(state.get("state_dict"), Mapping):
        state = state["state_dict"]
    if not isinstance(state, Mapping) or not all(isinstance(value, Tensor) for value in state.values()):
        raise InputError(f"weights file {path} holds no state dict (names to tensors); save model.state_dict()")
    return {str(name): value for name, value in state.items()}


def _read_torch(path: Path) -> Any:
    if tuple(int(part) for part in torch.__version__.split(".")[:2]) < _SAFE_TORCH:
        raise InputError(
            f"weights file {path} is not read by torch {torch.__version__}, which such files can make run code "
            "(CVE-2025-32434); install torch 2.6 or newer, or pass a .safetensors file"
        )
    remedy = "pass a state dict saved by torch.save or safetensors"
    with parse_errors(f"weights file {path}", "cannot be read as tensors alone", remedy), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns of files it then refuses
        if zipfile.is_zipfile(path):
            check_zip(path)
        return torch.load(path, map_location="cpu", weights_only=True)


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


_SIDE = 224


@dataclass(frozen=True)
class OnnxFile:
    """What a graph asks for: the fixed (height, width) of its image input, None if it takes any, and further files.

    ``weight_files`` lie next to the graph and hold weights that the graph refers to.
    """

    size: tuple[int, int] | None
    weight_files: tuple[Path, ...]


def probe_onnx(path: Path, limits: Limits = DEFAULT_LIMITS) -> OnnxFile:
    """Return what an ONNX file of images to features asks for.

    The file is loaded and run on one image under limits on time and memory: a graph can hold an endless loop, ask for
    any amount of memory, or crash the runtime. One that does not give a row of features for an image is refused.
    """
    return _probe(path.resolve(), path.stat().st_mtime_ns, limits)


@lru_cache(maxsize=16)
def _probe(path: Path, changed: int, limits: Limits) -> OnnxFile:
    found = run_sandboxed(f"{__name__}:inspect_graph", path, {"source": str(path)}, limits)
    height, width = found["size"]
    size = (height, width) if isinstance(height, int) and isinstance(width, int) else None
    # ONNX Runtime has run the graph: what it names is there, in the graph's folder.
    return OnnxFile(size, tuple(path.parent / name for name in found["weight_files"]))


def onnx_session(graph: str | bytes, threads: int) -> Any:
    """Return what runs an ONNX graph, a file's path or its bytes, on the processor."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    try:
        return onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # ONNX Runtime's error classes share no base but Exception
        what = graph if isinstance(graph, str) else "the graph"
        raise InputError(f"{what} cannot be run by ONNX Runtime: {error}") from error


def inspect_graph(source: str) -> dict[str, Any]:
    """Open a graph, check its input and run it on one image; what :func:`probe_onnx` runs in another process."""
    import onnx

    session = onnx_session(source, 1)
    entries = session.get_inputs()
    if len(entries) != 1 or len(entries[0].shape) != 4 or entries[0].type != "tensor(float)":
        listed = ", ".join(f"{entry.name} {entry.type} {entry.shape}" for entry in entries)
        raise InputError(f"{source} takes {listed}; expected one float32 image input (n, 3, height, width)")
    rows, channels, height, width = entries[0].shape
    if isinstance(channels, int) and channels != 3:
        raise InputError(f"{source} takes images of shape {entries[0].shape}; expected (n, 3, height, width)")
    n_rows, tall, wide = (
        side if isinstance(side, int) else other
        for side, other in zip((rows, height, width), (1, _SIDE, _SIDE), strict=True)
    )
    image = np.random.default_rng(0).normal(size=(n_rows, 3, tall, wide)).astype(np.float32)
    try:
        output = session.run(None, {entries[0].name: image})[0]
    except Exception as error:  # as above
        raise InputError(f"{source} cannot be run on a {tall}×{wide} image: {error}") from error
    shape = getattr(output, "shape", None)
    if shape is None or len(shape) not in (2, 4) or shape[0] != n_rows:
        raise InputError(f"{source} gives {shape} for {n_rows} images; expected (n, d) or (n, d, h, w) features")
    graph = onnx.load(source, load_external_data=False).graph
    names = {entry.value for tensor in _tensors(graph) for entry in tensor.external_data if entry.key == "location"}
    return {"size": [height, width], "weight_files": sorted(names)}


def _tensors(graph: Any) -> Iterator[Any]:
    """Walk all tensors that a graph holds, those of graphs within it too."""
    yield from graph.initializer
    for node in graph.node:
        for attribute in node.attribute:
            yield from (attribute.t, *attribute.tensors)
            for inner in (attribute.g, *attribute.graphs):
                yield from _tensors(inner)


def onnx_backbone(
    path: Path, preprocessing: Preprocessing | None = None, limits: Limits = DEFAULT_LIMITS
) -> OnnxBackbone:
    """Return an ONNX file as a backbone; a fixed input size in the file decides the size images are resized to.

    The file is tried out in a process of its own first.
    """
    if not path.is_file():
        raise MissingDataError(f"backbone file {path} does not exist")
    from volta.features.engines import need_onnxruntime

    need_onnxruntime(f"backbone {path.name}")
    found = probe_onnx(path, limits)
    if preprocessing is None:
        preprocessing = Preprocessing(size=found.size or Preprocessing().size)
    digests = [hash_file(file) for file in (path, *found.weight_files)]
    return OnnxBackbone(
        path.name, path, digests[0] if len(digests) == 1 else hash_text(" ".join(digests)), preprocessing
    )
