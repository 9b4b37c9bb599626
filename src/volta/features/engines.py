"""Engines: what runs a backbone on uint8 images. ONNX Runtime, OpenVINO or PyTorch; backbones exported as ONNX."""

from __future__ import annotations

import copy
import hashlib
import importlib.util
import inspect
import logging
import subprocess
import sys
import warnings
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain, islice
from pathlib import Path
from threading import Lock
from typing import Any, Literal, Protocol, TypeAlias

import numpy as np
import torch
from filelock import FileLock
from numpy.typing import NDArray

from volta.core.errors import InputError, MissingDataError, VoltaError, VoltaWarning
from volta.core.files import atomic_path, canonical_json, hash_text, write_atomic
from volta.core.processes import rows_in_memory, torch_threads
from volta.core.seeding import rng
from volta.core.types import Array
from volta.data.task import cache_folder
from volta.features.backbones.backbone import (
    Backbone,
    OnnxBackbone,
    Pipeline,
    Preprocessing,
    TorchBackbone,
    as_rows,
    check_pixels,
    onnx_session,
    prepare,
    probe_onnx,
)


def split_batched_products(model: Any) -> Any:
    """Return the ONNX ``model`` with each MatMul by a constant (b, k, m) array as b products by (k, m) matrices.

    ONNX Runtime packs a constant matrix for its kernel at load time, but packs a constant stack of them at every call,
    which for the wide layers of a Winograd network costs as much as the product.
    """
    from onnx import helper, numpy_helper

    graph = model.graph
    constants = {tensor.name: tensor for tensor in graph.initializer if len(tensor.dims) == 3}
    nodes = []
    for node in graph.node:
        stack = constants.get(node.input[1]) if node.op_type == "MatMul" else None
        if stack is None:
            nodes.append(node)
            continue
        matrices = numpy_helper.to_array(stack)
        names = [f"{stack.name}_{index}" for index in range(len(matrices))]
        graph.initializer.extend(
            numpy_helper.from_array(np.ascontiguousarray(matrix), name)
            for matrix, name in zip(matrices, names, strict=True)
        )
        parts = [f"{name}_part" for name in names]
        products = [f"{name}_product" for name in names]
        nodes.append(helper.make_node("Split", [node.input[0]], parts, axis=0, num_outputs=len(parts)))
        nodes += [
            helper.make_node("MatMul", [part, name], [product])
            for part, name, product in zip(parts, names, products, strict=True)
        ]
        nodes.append(helper.make_node("Concat", products, [node.output[0]], axis=0))
        graph.initializer.remove(stack)
    del graph.node[:]
    graph.node.extend(nodes)
    return model


EXPORT_VERSION = 2
TOLERANCE = 1e-4
_EXPORTER_LOG = "torch.onnx"


class ExportError(VoltaError):
    """A network cannot be exported to ONNX."""


def exported(pipeline: Pipeline, backbone: TorchBackbone, folder: Path) -> Path:
    """Return the ONNX file of ``pipeline`` in ``folder``, exporting it first if it is not there.

    The graph's inputs are those of :meth:`Pipeline.forward`; the number of images and their size are free.
    """
    parts = {
        "version": EXPORT_VERSION,
        "torch": torch.__version__,
        "name": backbone.name,
        "weights": backbone.weights,
        "preprocessing": backbone.preprocessing.to_json(),
        "rewritten": backbone.fast is not None,
    }
    path = folder / f"{hash_text(canonical_json(parts))[:32]}.onnx"
    if not path.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        with FileLock(path.with_suffix(".lock")):
            if not path.is_file():
                _export(pipeline, backbone, path)
    return path


def _export(pipeline: Pipeline, backbone: TorchBackbone, path: Path) -> None:
    network = backbone.network if backbone.fast is None else backbone.fast()
    module = Pipeline(copy.deepcopy(network), backbone.preprocessing).cpu().eval()
    height, width = 32, 40
    rows, columns = (torch.tensor(matrix) for matrix in backbone.preprocessing.matrices(height, width))
    pixels = torch.zeros((2, 3, height, width), dtype=torch.uint8)
    n, h, w = (torch.export.Dim(name) for name in ("n", "h", "w"))
    try:
        with quiet_exporter(), torch.no_grad():
            program = torch.onnx.export(
                module,
                (pixels, rows, columns),
                dynamo=True,
                verbose=False,
                input_names=["pixels", "rows", "columns"],
                output_names=["features"],
                dynamic_shapes={"pixels": {0: n, 2: h, 3: w}, "rows": {1: h}, "columns": {0: w}},
            )
            model = split_batched_products(program.model_proto)  # type: ignore[union-attr]
            with atomic_path(path) as temporary:
                temporary.write_bytes(model.SerializeToString())
                _check_equal(temporary, pipeline, backbone)
    except ExportError:
        raise
    except Exception as error:  # the exporter raises many kinds, from torch's own to TypeErrors in user code
        raise ExportError(f"{backbone.name} cannot be exported to ONNX ({_reason(error)})") from error


def _check_equal(path: Path, pipeline: Pipeline, backbone: TorchBackbone) -> None:
    """Compare graph and network on random images of a size the exporter did not see: a trace may bake in a branch."""
    height, width = 48, 36
    pixels = rng(0, "export").integers(0, 256, (3, 3, height, width), dtype=np.uint8)
    rows, columns = backbone.preprocessing.matrices(height, width)
    feeds = {"pixels": pixels, "rows": rows, "columns": columns}
    got = onnx_session(str(path), torch.get_num_threads()).run(None, feeds)[0]
    expected = pipeline.cpu().eval()(*(torch.tensor(feed) for feed in feeds.values())).numpy()
    difference = float(np.abs(got - expected).max()) if got.shape == expected.shape else np.inf
    if not difference <= TOLERANCE * max(1.0, float(np.abs(expected).max())):
        raise ExportError(
            f"{backbone.name} cannot be exported to ONNX (the graph differs from the network by {difference:.3g})"
        )


@contextmanager
def quiet_exporter() -> Iterator[None]:
    """Keep the exporter's remarks (torchvision is absent, names were merged) from the user's terminal.

    A torch whose exporter cannot leave the number of rows free is refused.
    """
    if "dynamic_shapes" not in inspect.signature(torch.onnx.export).parameters:
        raise ExportError(
            f"exporting needs torch 2.6 or newer, this is {torch.__version__}; install it with: "
            "pip install --upgrade 'volta-uq[onnx]'"
        )
    log = logging.getLogger(_EXPORTER_LOG)
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        log.setLevel(level)


def _reason(error: BaseException) -> str:
    while error.__cause__ is not None:
        error = error.__cause__
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__


Precision = Literal["f32", "bf16"]
PRECISIONS: tuple[Precision, ...] = ("f32", "bf16")
WITHOUT_AMX = "ONEDNN_MAX_CPU_ISA=AVX512_CORE_FP16"

_TRIAL = """
import numpy as np
import openvino
from openvino import opset13 as ops

images = ops.parameter([1, 64, 14, 14], np.float32)
weights = ops.constant(np.ones((64, 64, 3, 3), dtype=np.float32))
maps = ops.convolution(images, weights, [1, 1], [1, 1], [1, 1], [1, 1])
model = openvino.Model([maps], [images], "trial")
settings = {"INFERENCE_PRECISION_HINT": "bf16"}
openvino.Core().compile_model(model, "CPU", settings)({0: np.ones((1, 64, 14, 14), dtype=np.float32)})
"""


@dataclass(frozen=True)
class OpenvinoEngine:
    """OpenVINO on a graph that this package exported, with ``threads`` threads (None: as many as it likes).

    ``bf16`` multiplies in bfloat16, with instructions that not every processor has; its features are not those of f32.
    """

    path: Path
    preprocessing: Preprocessing
    precision: Precision = "f32"
    threads: int | None = None

    @property
    def title(self) -> str:
        """What runs, for a log."""
        import openvino

        return f"OpenVINO {openvino.__version__.split('-')[0]} on cpu, {self.precision}"

    def __call__(self, pixels: Array) -> NDArray[np.float32]:
        """Return one feature row an image."""
        rows, columns = self.preprocessing.matrices(*check_pixels(pixels).shape[2:])
        feeds = {"pixels": np.ascontiguousarray(pixels), "rows": rows, "columns": columns}
        request = _request(self.path, self.path.stat().st_mtime_ns, self.precision, self.threads)
        return np.array(request.infer(feeds)[0], dtype=np.float32)


def known_precision(name: str) -> Precision:
    """Return the precision of that name, or say which there are."""
    for precision in PRECISIONS:
        if name == precision:
            return precision
    raise InputError(f"precision is {name!r}; pass {' or '.join(PRECISIONS)}")


def check_precision(precision: Precision) -> None:
    """Refuse an unknown precision, one that needs OpenVINO where it is missing, or one that this processor lacks."""
    known_precision(precision)
    need_openvino("runtime 'openvino'" if precision == "f32" else f"precision {precision!r}")
    if precision == "bf16" and not has_bfloat16():
        raise InputError(
            "precision is 'bf16' but this processor has no instructions for bfloat16 (AVX-512-BF16 or AMX); "
            "leave it out, or extract on a machine that has them"
        )
    if precision == "bf16" and not _bfloat16_works():
        raise InputError(
            "precision is 'bf16' and this processor announces bfloat16, but a convolution in it kills the process: "
            "some virtual machines hide what OpenVINO must know to use AMX; leave bf16 out, or forbid AMX with "
            f"{WITHOUT_AMX} in the environment, which may be slower than f32"
        )


def has_bfloat16() -> bool:
    """Whether this processor has instructions for bfloat16, as OpenVINO sees it."""
    import openvino

    return "BF16" in openvino.Core().get_property("CPU", "OPTIMIZATION_CAPABILITIES")


@lru_cache(maxsize=1)
def _bfloat16_works() -> bool:
    """Whether a small convolution in bfloat16 runs to its end, tried in a process of its own."""
    trial = subprocess.run([sys.executable, "-c", _TRIAL], check=False, capture_output=True)
    return trial.returncode == 0


def need_openvino(what: str) -> None:
    """Say how OpenVINO is installed where it is missing."""
    try:
        import openvino  # noqa: F401
    except ImportError as error:
        raise MissingDataError(
            f"{what} needs OpenVINO, which is not installed: pip install 'volta-uq[openvino]'"
        ) from error


@lru_cache(maxsize=4)
def _request(path: Path, changed: int, precision: Precision, threads: int | None) -> Any:
    """Return what runs a graph; kept per process, so that shards of one extraction share it."""
    import openvino

    settings: dict[str, Any] = {"INFERENCE_PRECISION_HINT": precision, "PERFORMANCE_HINT": "LATENCY"}
    if threads is not None:
        settings["INFERENCE_NUM_THREADS"] = threads
    core = openvino.Core()
    return core.compile_model(core.read_model(path), "CPU", settings).create_infer_request()


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
    """Eager PyTorch on ``device``, with ``threads`` threads on the CPU (None: as torch is set).

    ``channels_last``: weights and activations lie as GPUs multiply them; ``half``: products in that type (autocast).
    """

    pipeline: Pipeline
    preprocessing: Preprocessing
    device: torch.device
    threads: int | None = None
    channels_last: bool = False
    half: torch.dtype | None = None

    @property
    def title(self) -> str:
        """What runs, for a log."""
        half = "" if self.half is None else f", {_name(self.half)}"
        return f"PyTorch {torch.__version__} on {self.device.type}{half}"

    @torch.inference_mode()
    def __call__(self, pixels: Array) -> Features:
        """Return one feature row an image."""
        matrices = self.preprocessing.matrices(*check_pixels(pixels).shape[2:])
        inputs = [torch.tensor(array, device=self.device) for array in (pixels, *matrices)]
        if self.channels_last:
            self.pipeline.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        autocast = torch.autocast(self.device.type, self.half, enabled=self.half is not None)
        with torch_threads(self.threads), autocast:
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
        import onnxruntime

        return f"ONNX Runtime {onnxruntime.__version__} on cpu"


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

    ``weights`` identifies the content of the file and of its weight files.
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

    Each thread of ONNX Runtime takes a batch: threads that share one wait for each other at every layer.
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


def half_type(device: torch.device) -> torch.dtype:
    """Return the type of products under ``amp``: float16 on GPUs, which all have it fast; bfloat16 on processors."""
    return torch.bfloat16 if device.type == "cpu" else torch.float16


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


IMAGE_BYTES_PER_PIXEL = 256
"""What an image takes on a GPU for each of its resized pixels: twelve megabytes at 224 × 224, twice ResNet-18's."""
BATCH_ROWS, MAX_BATCH_ROWS = 16, 512


def batch_rows(backbone: Backbone, device: torch.device, memory: int | None) -> int:
    """Return how many images run at a time: few on a processor, whose cache they share, what fits on a GPU."""
    if device.type == "cpu" or isinstance(backbone, OnnxBackbone):
        return BATCH_ROWS
    height, width = backbone.preprocessing.size
    return rows_in_memory(IMAGE_BYTES_PER_PIXEL * height * width, memory, MAX_BATCH_ROWS)


def decisive_parts(precision: Precision, amp: bool, device: torch.device) -> dict[str, str]:
    """Return what of an engine's settings makes other features, for their key; nothing where products are float32."""
    parts = {} if precision == "f32" else {"precision": precision}
    return parts | ({"amp": _name(half_type(device))} if amp else {})


def make_engine(
    backbone: Backbone,
    *,
    runtime: Runtime = "auto",
    precision: Precision = "f32",
    device: torch.device | None = None,
    threads: int | None = None,
    amp: bool = False,
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
    amp
        PyTorch multiplies in half precision (:func:`half_type`); its features are others.
    """
    device = device or torch.device("cpu")
    if runtime not in ("auto", "onnx", "openvino", "torch"):
        raise InputError(f"runtime is {runtime!r}; pass auto, onnx, openvino or torch")
    if amp and (runtime in ("onnx", "openvino") or precision != "f32" or isinstance(backbone, OnnxBackbone)):
        raise InputError("amp is PyTorch's mixed precision, which ONNX Runtime and OpenVINO lack; leave out --amp")
    if runtime == "openvino" or precision != "f32":
        return _openvino_engine(backbone, runtime, precision, device, threads, cache or cache_folder())
    if isinstance(backbone, OnnxBackbone):
        if runtime == "torch":
            raise InputError(f"runtime is 'torch' but {backbone.name} is an ONNX file; pass auto or onnx")
        need_onnxruntime(f"backbone {backbone.name}")
        return OnnxEngine(backbone.path, backbone.preprocessing, threads, backbone.weights)
    pipeline = Pipeline(backbone.network, backbone.preprocessing).eval()
    half = half_type(device) if amp else None
    eager = TorchEngine(pipeline, backbone.preprocessing, device, threads, device.type != "cpu", half)
    if runtime == "onnx" and device.type != "cpu":
        raise InputError(f"runtime is 'onnx' but device is {device.type}; ONNX Runtime is used on the CPU only")
    lacks_onnx = runtime == "auto" and not _have("onnxruntime", "onnx", "onnxscript")
    if runtime == "torch" or amp or device.type != "cpu" or lacks_onnx:
        return eager
    need_onnxruntime("runtime 'onnx'")
    try:
        path = exported(pipeline, backbone, (cache or cache_folder()) / "onnx")
    except ExportError as error:
        if runtime == "onnx":
            raise
        warnings.warn(f"{error}; extraction runs in eager PyTorch, with the same result", EngineWarning, stacklevel=2)
        return eager
    return GraphEngine(path, backbone.preprocessing, threads)


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
    need_onnxruntime("runtime 'openvino'")
    # OpenVINO has fast convolutions of its own, so it gets the network as it is written.
    plain = replace(backbone, fast=None)
    pipeline = Pipeline(backbone.network, backbone.preprocessing).eval()
    path = exported(pipeline, plain, cache / "onnx")
    return OpenvinoEngine(path, backbone.preprocessing, precision, threads)


def _session(path: Path, threads: int | None, weights: str = "") -> Any:
    """Return a session; kept per process, so that shards of one extraction share it."""
    with _SESSIONS:
        return _session_of(path, path.stat().st_mtime_ns, weights, threads or torch.get_num_threads())


@lru_cache(maxsize=4)
def _session_of(path: Path, changed: int, weights: str, threads: int) -> Any:
    return onnx_session(str(path), threads)


def need_onnxruntime(what: str) -> None:
    """Say how ONNX Runtime is installed where it is missing."""
    missing = [name for name in ("onnxruntime", "onnx", "onnxscript") if not _have(name)]
    if missing:
        raise MissingDataError(
            f"{what} needs {', '.join(missing)}, which is not installed: pip install 'volta-uq[onnx]'"
        )


def _have(*names: str) -> bool:
    return all(importlib.util.find_spec(name) is not None for name in names)


EmbeddedFiles: TypeAlias = Mapping[str, bytes]
"""The graph of an engine, the first, and weight files next to it or in folders below it, by name."""


def files_of(engine: Engine) -> EmbeddedFiles:
    """Return what an engine runs; nothing of one that holds its network itself."""
    paths: tuple[Path, ...] = ()
    if isinstance(engine, GraphEngine | OpenvinoEngine):
        paths = (engine.path,)
    elif isinstance(engine, OnnxEngine):
        paths = (engine.path, *probe_onnx(engine.path).weight_files)
    return {str(path.relative_to(paths[0].parent)): path.read_bytes() for path in paths}


def with_files(engine: Engine, embedded: EmbeddedFiles) -> Engine:
    """Return the engine with its files as they lie here, first put into this machine's cache if they do not."""
    if not isinstance(engine, GraphEngine | OpenvinoEngine | OnnxEngine) or _are_in(engine.path.parent, embedded):
        return engine
    digests = [hashlib.sha256(content).hexdigest() for content in embedded.values()]
    folder = cache_folder() / "onnx" / hash_text(" ".join(digests))[:32]
    if not _are_in(folder, embedded):
        for name, content in embedded.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            write_atomic(folder / name, lambda file, content=content: file.write(content))  # type: ignore[misc]
    return replace(engine, path=folder / next(iter(embedded)))


def _are_in(folder: Path, embedded: EmbeddedFiles) -> bool:
    return all((folder / name).is_file() and (folder / name).read_bytes() == of for name, of in embedded.items())
