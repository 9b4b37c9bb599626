"""Rate of feature extraction: ONNX Runtime and OpenVINO against eager PyTorch, in one run, on the same images.

    python benchmarks/extraction.py                                  # resnet18 at 224×224
    python benchmarks/extraction.py --backbone efficientnet-lite0 --threads 1 --weights FILE

All start from uint8 32×32 images and end with feature rows: scaling, resizing, normalising and the network are timed.
Engines get batches as extraction gives them: ONNX Runtime's threads take a batch each, OpenVINO's share one.
Eager PyTorch is written as one would: ``interpolate``, subtract, divide, ``network(images)`` under inference mode. It
is timed at several batch sizes and its best is taken, so that the ratio does not rest on a batch that suits it badly.
The ways take turns for ``--repeats`` rounds and the fastest round of each counts, in wall time and in processor time:
on a machine that others use, only the latter compares them fairly. Trained weights are used where they are found:
random ones, drawn so that activations keep their size, come near but may favour either side. OpenVINO takes part where
it is installed (``pip install openvino``), in bfloat16 too where the processor has instructions for it.
"""

from __future__ import annotations

import argparse
import os
import platform
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch import nn

from volta.core.errors import MissingDataError, VoltaError
from volta.features.backbones.backbone import Pipeline, Preprocessing, TorchBackbone, hash_weights
from volta.features.backbones.load import BACKBONES, load_backbone
from volta.features.engines import PRECISIONS, Engine, exported, make_engine, run_batches

EAGER_BATCHES = (8, 32, 128)
ENGINE_BATCH = 16
TARGETS = {"f32": 1.6, "bf16": 2.5}
Run = Callable[[np.ndarray], np.ndarray]
Rates = tuple[float, float, float]


def main() -> None:
    arguments = _parse()
    torch.set_num_threads(arguments.threads)
    backbone = _backbone(arguments.backbone, arguments.weights)
    images = np.random.default_rng(0).integers(0, 256, (arguments.images, 3, 32, 32), dtype=np.uint8)
    with tempfile.TemporaryDirectory() as temporary:
        cache = arguments.cache or Path(temporary)
        started = time.perf_counter()
        engine = make_engine(backbone, runtime="onnx", threads=arguments.threads, cache=cache)
        print(f"{backbone.name}: exported to ONNX and checked in {time.perf_counter() - started:.1f} s (done once)")
        plain = replace(engine, path=_plain_graph(replace(backbone, fast=None), cache))  # type: ignore[type-var]
        ways: dict[str, Run] = {f"eager PyTorch, batch {batch}": _eager(backbone, batch) for batch in EAGER_BATCHES}
        ways["ONNX Runtime, network as it is"] = _batched(plain)
        ways["ONNX Runtime, as extraction uses it"] = _batched(engine)
        ways |= _openvino_ways(backbone, arguments.threads, cache)
        rates = _measure(ways, images, arguments.repeats)
        expected = _eager(backbone, 8)(images[:8])
        differences = {
            name: float(np.abs(run(images[:8]) - expected).max() / np.abs(expected).max()) for name, run in ways.items()
        }
    _print(rates, arguments, differences)


def _openvino_ways(backbone: TorchBackbone, threads: int, cache: Path) -> dict[str, Run]:
    ways: dict[str, Run] = {}
    for precision in PRECISIONS:
        try:
            engine = make_engine(backbone, runtime="openvino", precision=precision, threads=threads, cache=cache)
        except VoltaError as error:
            print(f"OpenVINO, {precision}: not measured, {error}")
        else:
            ways[f"OpenVINO, {precision}"] = _batched(engine)
    return ways


def _batched(engine: Engine) -> Run:
    return lambda images: run_batches(
        engine, (images[start : start + ENGINE_BATCH] for start in range(0, len(images), ENGINE_BATCH))
    )


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backbone", default="resnet18", choices=list(BACKBONES))
    parser.add_argument("--weights", type=Path, default=None, help="weights file; the usual weights unless given")
    parser.add_argument("--cache", type=Path, default=None, help="folder that keeps the exported graphs")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--images", type=int, default=128)
    parser.add_argument("--repeats", type=int, default=3)
    return parser.parse_args()


def _backbone(name: str, weights: Path | None) -> TorchBackbone:
    try:
        backbone = load_backbone(name, weights=weights)
    except MissingDataError:
        if weights is not None:
            raise
        print(f"{name}: trained weights not found, random ones instead")
        return _random_backbone(name)
    if not isinstance(backbone, TorchBackbone):
        raise SystemExit(f"{name} is no network of this package")
    return backbone


def _random_backbone(name: str) -> TorchBackbone:
    known = BACKBONES[name]
    torch.manual_seed(0)
    network = known.build().eval()
    for layer in network.modules():
        if isinstance(layer, nn.Conv2d):
            nn.init.kaiming_normal_(layer.weight)
    fast = None if known.rewrite is None else (lambda: known.rewrite(network, known.preprocessing.size))
    return TorchBackbone(name, network, hash_weights(network), known.preprocessing, fast)


def _plain_graph(backbone: TorchBackbone, cache: Path) -> Path:
    pipeline = Pipeline(backbone.network, backbone.preprocessing).eval()
    return exported(pipeline, replace(backbone, fast=None), cache / "onnx")


def _eager(backbone: TorchBackbone, batch: int) -> Run:
    preprocessing: Preprocessing = backbone.preprocessing
    mean = torch.tensor(preprocessing.mean).view(3, 1, 1)
    std = torch.tensor(preprocessing.std).view(3, 1, 1)

    def features(pixels: torch.Tensor) -> torch.Tensor:
        images = nn.functional.interpolate(
            pixels.float() / 255.0, preprocessing.size, mode="bilinear", align_corners=False
        )
        rows: torch.Tensor = backbone.network((images - mean) / std)
        return rows

    @torch.inference_mode()
    def run(pixels: np.ndarray) -> np.ndarray:
        return torch.cat([features(part) for part in torch.from_numpy(pixels).split(batch)]).numpy()

    return run


def _measure(ways: dict[str, Run], images: np.ndarray, repeats: int) -> dict[str, Rates]:
    """Return images a second by wall time and by processor time, for the fastest of ``repeats`` rounds of each way.

    The third value is the spread: the slowest round's wall time over the fastest's.
    """
    spent: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
    for run in ways.values():
        run(images[: 2 * ENGINE_BATCH])
    for _ in range(repeats):
        for name, run in ways.items():
            wall, processor = time.perf_counter(), time.process_time()
            run(images)
            spent[name].append((time.perf_counter() - wall, time.process_time() - processor))
    rates = {}
    for name, rounds in spent.items():
        walls, processors = zip(*rounds, strict=True)
        rates[name] = len(images) / min(walls), len(images) / min(processors), max(walls) / min(walls)
    return rates


def _print(rates: dict[str, Rates], arguments: argparse.Namespace, differences: dict[str, float]) -> None:
    print(
        f"{arguments.images} images 32×32 → 224×224, {arguments.threads} threads, fastest of {arguments.repeats} "
        f"rounds, {platform.machine()}, load {os.getloadavg()[0]:.1f}, torch {torch.__version__}"
    )
    eager = [rate for name, rate in rates.items() if name.startswith("eager")]
    reference = max(rate[0] for rate in eager), max(rate[1] for rate in eager)
    for name, (wall, processor, spread) in rates.items():
        print(
            f"  {name:36s} {wall:7.1f} images/s ({wall / reference[0]:.2f}×, spread {spread:.2f})   "
            f"{processor:7.1f} images/s of processor time ({processor / reference[1]:.2f}×)   "
            f"off by {differences[name]:.1g} of the largest"
        )
    for precision, target in TARGETS.items():
        found = [
            rate
            for name, rate in rates.items()
            if not name.startswith("eager") and ("bf16" in name) == (precision == "bf16")
        ]
        if found:
            wall, processor, _ = max(found)
            print(
                f"fastest in {precision} over eager PyTorch at best: {wall / reference[0]:.2f}× by the clock, "
                f"{processor / reference[1]:.2f}× in processor time (target {target}×)"
            )


if __name__ == "__main__":
    main()
