"""Make the golden files: ``python -m tests.golden.make`` writes what users see of the installed volta to this folder.

Run it where a number is meant to change, and say in the commit which and why. The models in `models` are files of the
present format; they are made where they are missing, and never anew.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from pathlib import Path

import numpy as np

from tests.golden.values import HERE

# One instruction set on all x86-64 processors of the last ten years: numbers then agree to the last bit on more machines.
INSTRUCTIONS = {
    "ATEN_CPU_CAPABILITY": "avx2",
    "OPENBLAS_CORETYPE": "Haswell",
    "MKL_CBWR": "AVX2",
    "ONEDNN_MAX_CPU_ISA": "AVX2",
}
# Sums are in another order with other numbers of threads.
THREADS = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


def processor() -> list[str]:
    """Return the instructions that this processor has; ONNX Runtime takes the newest, whatever variables say."""
    return list(np.show_config(mode="dicts")["SIMD Extensions"].get("found", []))


def cpu() -> str:
    """Return vendor, family and model of the processor: MKL takes other kernels on a newer one, whatever it is told."""
    file = Path("/proc/cpuinfo")
    if not file.is_file():
        return platform.processor()
    lines = (line.partition(":") for line in file.read_text(encoding="utf-8", errors="replace").splitlines())
    found = {name.strip(): value.strip() for name, _, value in reversed(list(lines))}
    return " ".join(found.get(name, "") for name in ("vendor_id", "cpu family", "model"))


def environment() -> dict[str, str]:
    """Return the variables of the computing process."""
    newer = [name for name in processor() if name.startswith("AVX512") or name == "X86_V4"]
    numpy = {"NPY_DISABLE_CPU_FEATURES": " ".join(newer)} if newer else {}
    return {**os.environ, **INSTRUCTIONS, **THREADS, **numpy, "MPLBACKEND": "agg"}


def make(folder: Path) -> None:
    """Compute all golden files into a folder, in a process of its own: instruction sets are chosen at its start."""
    subprocess.run(
        [sys.executable, "-m", "tests.golden.compute", str(folder)],
        check=True,
        cwd=HERE.parents[1],
        env=environment(),
        stdout=subprocess.DEVNULL,
    )
    file = folder / "made_with.json"
    made = json.loads(file.read_text(encoding="utf-8")) | {"processor": processor(), "cpu": cpu()}
    file.write_text(json.dumps(made, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    make(HERE)
