"""ONNX files as backbones: opened and run once in a sandbox before they are trusted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from volta.core.errors import InputError, MissingDataError
from volta.core.files import DEFAULT_LIMITS, Limits, hash_file, hash_text
from volta.core.processes import run_sandboxed
from volta.features.backbones.backbone import BackbonePattern, OnnxBackbone, Preprocessing

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


def inspect_graph(source: str) -> dict[str, Any]:
    """Open a graph, check its input and run it on one image; what :func:`probe_onnx` runs in another process."""
    import numpy as np
    import onnx
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    try:
        session = onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # ONNX Runtime's error classes share no base but Exception
        raise InputError(f"{source} cannot be run by ONNX Runtime: {error}") from error
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
    name: str,
    preprocessing: Preprocessing | None = None,
    weights: Path | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> OnnxBackbone:
    """Return an ONNX file as a backbone; a fixed input size in the file decides the size images are resized to.

    The file is tried out in a process of its own first.
    """
    path = Path(name)
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


ONNX_FILE = BackbonePattern("a file ending in .onnx", lambda name: name.lower().endswith(".onnx"), onnx_backbone)
