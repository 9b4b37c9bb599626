"""A backbone with its preprocessing as one ONNX graph, exported once and kept."""

from __future__ import annotations

import copy
import inspect
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch
from filelock import FileLock

from volta.core.errors import VoltaError
from volta.core.files import atomic_path, canonical_json, hash_text
from volta.core.seeding import rng
from volta.features.backbones.backbone import TorchBackbone
from volta.features.graphs import split_batched_products
from volta.features.preprocessing import Pipeline

EXPORT_VERSION = 1
TOLERANCE = 1e-4
_EXPORTER_LOG = "torch.onnx"


class ExportError(VoltaError):
    """A network cannot be exported to ONNX."""


def exported(pipeline: Pipeline, backbone: TorchBackbone, folder: Path, *, as_written: bool = False) -> Path:
    """Return the ONNX file of ``pipeline`` in ``folder``, exporting it first if it is not there.

    The graph's inputs are those of :meth:`Pipeline.forward`; the number of images and their size are free.
    ``as_written`` keeps the graph of a backbone whose rewritten network was taken away apart from that network's.
    """
    key = hash_text(
        canonical_json(
            {
                "version": EXPORT_VERSION,
                "torch": torch.__version__,
                "name": backbone.name,
                "weights": backbone.weights,
                "preprocessing": backbone.preprocessing.to_json(),
            }
            | ({"as_written": True} if as_written else {})
        )
    )
    path = folder / f"{key[:32]}.onnx"
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
    import onnxruntime

    height, width = 48, 36
    pixels = rng(0, "export").integers(0, 256, (3, 3, height, width), dtype=np.uint8)
    rows, columns = backbone.preprocessing.matrices(height, width)
    feeds = {"pixels": pixels, "rows": rows, "columns": columns}
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    got = session.run(None, feeds)[0]
    expected = pipeline.cpu().eval()(*(torch.tensor(feed) for feed in feeds.values())).numpy()
    difference = float(np.abs(got - expected).max()) if got.shape == expected.shape else np.inf
    if not difference <= TOLERANCE * max(1.0, float(np.abs(expected).max())):
        raise ExportError(
            f"{backbone.name} cannot be exported to ONNX (the graph differs from the network by {difference:.3g})"
        )


@contextmanager
def quiet_exporter() -> Iterator[None]:
    """Keep the exporter's own remarks (torchvision is absent, names were merged) from the user's terminal.

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
