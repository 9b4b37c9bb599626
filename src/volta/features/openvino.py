"""OpenVINO as an engine: the plain graph of a backbone, in float32 or, on processors that have it, bfloat16."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from volta.core.errors import InputError, MissingDataError
from volta.core.types import Array
from volta.features.preprocessing import Preprocessing, check_pixels

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
    """Refuse a precision that there is none of, that OpenVINO is missing for, or that this processor has not."""
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
