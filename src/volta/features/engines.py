"""Engines: what runs a backbone on uint8 images. ONNX Runtime on the CPU where it is installed, else PyTorch."""

from __future__ import annotations

import importlib.util
import warnings
from collections import deque
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain, islice
from pathlib import Path
from threading import Lock
from typing import Any, Literal, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from volta.core.errors import InputError, MissingDataError, VoltaWarning
from volta.core.limits import DEFAULT_LIMITS, Limits
from volta.core.torch_threads import torch_threads
from volta.core.types import Array
from volta.data.formats.onnx_graph import OnnxFile, probe_onnx
from volta.data.options import cache_folder
from volta.features.backbones.backbone import Backbone, OnnxBackbone, TorchBackbone
from volta.features.export import ExportError, exported
from volta.features.openvino import OpenvinoEngine, Precision, check_precision
from volta.features.preprocessing import Pipeline, Preprocessing, as_rows, check_pixels, prepare

Runtime = Literal["auto", "onnx", "openvino", "torch"]
Features = NDArray[np.float32]

_WAITING_BATCHES = 2
_SESSIONS = Lock()


class EngineWarning(VoltaWarning):
    """Extraction runs another, slower way than it could."""


class Engine(Protocol):
    """A picklable function from (n, 3, h, w) uint8 images to (n, d) float32 features."""

    @property
    def title(self) -> str:
        """What runs, for a log."""

    def __call__(self, pixels: Array) -> Features:
        """Return one feature row an image."""


@dataclass(frozen=True, eq=False)
class TorchEngine:
    """Eager PyTorch on ``device``, with ``threads`` threads on the CPU (None: as torch is set)."""

    pipeline: Pipeline
    preprocessing: Preprocessing
    device: torch.device
    threads: int | None = None

    @property
    def title(self) -> str:
        """What runs, for a log."""
        return f"PyTorch {torch.__version__} on {self.device.type}"

    @torch.inference_mode()
    def __call__(self, pixels: Array) -> Features:
        """Return one feature row an image."""
        matrices = self.preprocessing.matrices(*check_pixels(pixels).shape[2:])
        inputs = [torch.tensor(array, device=self.device) for array in (pixels, *matrices)]
        with torch_threads(self.threads):
            features: Features = self.pipeline.to(self.device)(*inputs).float().cpu().numpy()
        return features


@dataclass(frozen=True)
class _RuntimeEngine:
    """ONNX Runtime on the graph at ``path``, with ``threads`` threads (None: as many as torch has)."""

    path: Path
    preprocessing: Preprocessing
    threads: int | None = None

    @property
    def title(self) -> str:
        """What runs, for a log."""
        return _runtime_title()


@dataclass(frozen=True)
class GraphEngine(_RuntimeEngine):
    """ONNX Runtime on a graph that this package exported: resizing and normalisation are inside it."""

    def __call__(self, pixels: Array) -> Features:
        """Return one feature row an image."""
        rows, columns = self.preprocessing.matrices(*check_pixels(pixels).shape[2:])
        feeds = {"pixels": np.ascontiguousarray(pixels), "rows": rows, "columns": columns}
        features: Features = _session(self.path, self.threads).run(None, feeds)[0]
        return features


@dataclass(frozen=True)
class OnnxEngine(_RuntimeEngine):
    """ONNX Runtime on a user's file, which gets images already resized and normalised.

    ``weights`` tells apart what the file, and files of weights beside it, held at different times.
    """

    weights: str = ""

    def __call__(self, pixels: Array) -> Features:
        """Return one feature row an image."""
        session = _session(self.path, self.threads, self.weights)
        entry = session.get_inputs()[0]
        images = prepare(check_pixels(pixels), self.preprocessing)
        fixed = entry.shape[0] if isinstance(entry.shape[0], int) else None
        step = fixed or len(images)
        pieces = []
        for start in range(0, len(images), step):
            piece = images[start : start + step]
            n_rows = len(piece)
            if fixed and n_rows < fixed:
                piece = np.concatenate([piece, np.repeat(piece[-1:], fixed - n_rows, axis=0)])
            output = torch.from_numpy(session.run(None, {entry.name: piece})[0])
            pieces.append(as_rows(output).float().numpy()[:n_rows])
        return np.concatenate(pieces)


def run_batches(engine: Engine, batches: Iterable[Array]) -> Features:
    """Return one feature row an image of all ``batches``, in order.

    Threads of ONNX Runtime take whole batches, where there are several: threads that share one wait for each other at
    every layer, most of their time where other processes want the cores too.
    """
    n_lanes = (engine.threads or torch.get_num_threads()) if isinstance(engine, _RuntimeEngine) else 1
    walked = iter(batches)
    first = list(islice(walked, 2))
    if n_lanes == 1 or len(first) < 2:
        return np.concatenate([engine(batch) for batch in chain(first, walked)])
    lane = replace(engine, threads=1)  # type: ignore[type-var]
    pieces: list[Features] = []
    running: deque[Future[Features]] = deque()
    with ThreadPoolExecutor(n_lanes) as pool:
        for batch in chain(first, walked):
            if len(running) == _WAITING_BATCHES * n_lanes:
                pieces.append(running.popleft().result())
            running.append(pool.submit(lane, batch))
        pieces += [future.result() for future in running]
    return np.concatenate(pieces)


def make_engine(
    backbone: Backbone,
    *,
    runtime: Runtime = "auto",
    precision: Precision = "f32",
    device: torch.device | None = None,
    threads: int | None = None,
    cache: Path | None = None,
) -> Engine:
    """Return what runs ``backbone``.

    Parameters
    ----------
    runtime
        ``onnx``: ONNX Runtime, exporting the network once to ``cache``/onnx. ``torch``: eager PyTorch. ``auto``: ONNX
        Runtime on the CPU where it is installed and the network can be exported, else PyTorch. ``openvino``: OpenVINO
        on the exported network as it is written. Their features agree to 1e-4.
    precision
        ``bf16`` multiplies in bfloat16, through OpenVINO, on processors that have it; its features are others.
    device
        Where PyTorch runs; anything but the CPU rules out ONNX Runtime and OpenVINO.
    threads
        Threads on the CPU; None: as many as torch has, and with OpenVINO as many as it likes.
    """
    device = device or torch.device("cpu")
    if runtime not in ("auto", "onnx", "openvino", "torch"):
        raise InputError(f"runtime is {runtime!r}; pass auto, onnx, openvino or torch")
    if runtime == "openvino" or precision != "f32":
        return _openvino_engine(backbone, runtime, precision, device, threads, cache or cache_folder())
    if isinstance(backbone, OnnxBackbone):
        if runtime == "torch":
            raise InputError(f"runtime is 'torch' but {backbone.name} is an ONNX file; pass auto or onnx")
        _need_onnxruntime(f"backbone {backbone.name}")
        return OnnxEngine(backbone.path, backbone.preprocessing, threads, backbone.weights)
    pipeline = Pipeline(backbone.network, backbone.preprocessing).eval()
    eager = TorchEngine(pipeline, backbone.preprocessing, device, threads)
    if runtime == "torch":
        return eager
    if device.type != "cpu":
        if runtime == "onnx":
            raise InputError(f"runtime is 'onnx' but device is {device.type}; ONNX Runtime is used on the CPU only")
        return eager
    if runtime == "auto" and not _have("onnxruntime", "onnx", "onnxscript"):
        return eager
    _need_onnxruntime("runtime 'onnx'")
    return _graph_engine(backbone, pipeline, eager, runtime, threads, cache or cache_folder())


def _openvino_engine(
    backbone: Backbone,
    runtime: Runtime,
    precision: Precision,
    device: torch.device,
    threads: int | None,
    cache: Path,
) -> Engine:
    if runtime not in ("auto", "openvino"):
        raise InputError(f"precision is {precision!r} and runtime {runtime!r}; only openvino has it, pass auto")
    check_precision(precision)
    if device.type != "cpu":
        raise InputError(f"runtime is 'openvino' but device is {device.type}; OpenVINO is used on the CPU only")
    if isinstance(backbone, OnnxBackbone):
        raise InputError(f"runtime is 'openvino' but {backbone.name} is an ONNX file; pass auto or onnx")
    _need_onnxruntime("runtime 'openvino'")
    # OpenVINO has fast convolutions of its own, so it gets the network as it is written.
    plain = replace(backbone, fast=None)
    pipeline = Pipeline(backbone.network, backbone.preprocessing).eval()
    path = exported(pipeline, plain, cache / "onnx", as_written=True)
    return OpenvinoEngine(path, backbone.preprocessing, precision, threads)


def _graph_engine(
    backbone: TorchBackbone,
    pipeline: Pipeline,
    eager: TorchEngine,
    runtime: Runtime,
    threads: int | None,
    cache: Path,
) -> Engine:
    try:
        path = exported(pipeline, backbone, cache / "onnx")
    except ExportError as error:
        if runtime == "onnx":
            raise
        warnings.warn(f"{error}; extraction runs in eager PyTorch, with the same result", EngineWarning, stacklevel=3)
        return eager
    return GraphEngine(path, backbone.preprocessing, threads)


def tried_out(path: Path, limits: Limits = DEFAULT_LIMITS) -> OnnxFile:
    """Return what an ONNX file asks for, after a try in another process."""
    _need_onnxruntime(f"backbone {path.name}")
    return probe_onnx(path, limits)


def _session(path: Path, threads: int | None, weights: str = "") -> Any:
    """Return a session; kept per process, so that shards of one extraction share it."""
    with _SESSIONS:
        return _session_of(path, path.stat().st_mtime_ns, weights, threads or torch.get_num_threads())


@lru_cache(maxsize=4)
def _session_of(path: Path, changed: int, weights: str, threads: int) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    try:
        return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # ONNX Runtime's error classes share no base but Exception
        raise InputError(f"{path} cannot be run by ONNX Runtime: {error}") from error


def _need_onnxruntime(what: str) -> None:
    missing = [name for name in ("onnxruntime", "onnx", "onnxscript") if not _have(name)]
    if missing:
        raise MissingDataError(
            f"{what} needs {', '.join(missing)}, which is not installed: pip install 'volta-uq[onnx]'"
        )


def _have(*names: str) -> bool:
    return all(importlib.util.find_spec(name) is not None for name in names)


def _runtime_title() -> str:
    import onnxruntime

    return f"ONNX Runtime {onnxruntime.__version__} on cpu"
