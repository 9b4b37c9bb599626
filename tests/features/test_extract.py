from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pytest

from tests.features.conftest import tiny_network
from volta.core.cache import JOURNAL
from volta.core.errors import InputError
from volta.features.backbones.backbone import Preprocessing, TorchBackbone
from volta.features.backbones.load import module_backbone
from volta.features.engines import make_engine
from volta.features.extract import (
    ExtractionProgress,
    NotExtractedError,
    PixelArray,
    Shard,
    ShardJob,
    extract,
    extract_sets,
    missing_ranges,
)


def test_features_are_the_engines_rows_in_order(tiny: TorchBackbone, pixels: np.ndarray, tmp_path: Path) -> None:
    found = extract(pixels, tiny, cache=tmp_path, runtime="torch", shard_rows=16, batch_size=5)
    assert isinstance(found.array, np.memmap)
    assert found.array.dtype == np.float32
    np.testing.assert_allclose(found.array, make_engine(tiny, runtime="torch")(pixels), atol=1e-6)
    assert found.meta["backbone"] == tiny.name
    assert found.meta["shape"] == [50, 6]


def test_a_second_call_computes_nothing(tiny: TorchBackbone, pixels: np.ndarray, tmp_path: Path) -> None:
    first = extract(pixels, tiny, cache=tmp_path, runtime="torch")
    calls: list[ExtractionProgress] = []
    # A memory map of the same pixels is the same data.
    np.save(tmp_path / "pixels.npy", pixels)
    mapped = np.load(tmp_path / "pixels.npy", mmap_mode="r")
    again = extract(mapped, tiny, cache=tmp_path, runtime="torch", on_progress=calls.append)
    assert again.key == first.key
    assert again.path == first.path
    assert calls == []


def test_whatever_decides_the_features_changes_the_key(pixels: np.ndarray, tmp_path: Path) -> None:
    network, size = tiny_network(), Preprocessing(size=(24, 20))
    base = {"images": pixels, "backbone": module_backbone(network, preprocessing=size), "dtype": "float32"}
    other = pixels.copy()
    other[-1, -1, -1, -1] ^= 1
    variants = [
        {},
        {"images": other},
        {"images": pixels[::-1]},
        {"backbone": module_backbone(tiny_network(1), preprocessing=size)},
        {"backbone": module_backbone(network, preprocessing=Preprocessing(size=(20, 24)))},
        {"backbone": module_backbone(network, preprocessing=Preprocessing(size=(24, 20), mean=(0.5,) * 3))},
        {"backbone": module_backbone(network, preprocessing=size, name="other")},
        {"dtype": "float16"},
    ]
    keys = {extract(**(base | variant), cache=tmp_path, runtime="torch").key for variant in variants}
    assert len(keys) == len(variants)


def test_stored_f32_features_are_not_taken_for_bf16(tiny: TorchBackbone, pixels: np.ndarray, tmp_path: Path) -> None:
    extract(pixels, tiny, cache=tmp_path, runtime="torch")
    with pytest.raises(NotExtractedError):
        extract(pixels, tiny, cache=tmp_path, precision="bf16", map_shards=None)


def test_progress_counts_every_image(tiny: TorchBackbone, pixels: np.ndarray, tmp_path: Path) -> None:
    calls: list[ExtractionProgress] = []
    extract(pixels, tiny, cache=tmp_path, runtime="torch", shard_rows=20, on_progress=calls.append)
    assert [call.n_done for call in calls] == [0, 20, 40, 50]
    assert {call.n_rows for call in calls} == {50}
    assert calls[0].rate == 0.0
    assert calls[-1].rate > 0.0


def test_images_of_several_sizes(tiny: TorchBackbone, tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    pieces = [random.integers(0, 256, (2, 3, side, side + 3), dtype=np.uint8) for side in (5, 40)]

    class TwoSizes:
        content_hash = "two sizes"

        def __len__(self) -> int:
            return 4

        def part(self, start: int, stop: int) -> TwoSizes:
            assert (start, stop) == (0, 4)
            return self

        def batches(self, batch_size: int) -> Iterable[np.ndarray]:
            return iter(pieces)

    found = extract(TwoSizes(), tiny, cache=tmp_path, runtime="torch")
    engine = make_engine(tiny, runtime="torch")
    np.testing.assert_allclose(found.array, np.concatenate([engine(piece) for piece in pieces]), atol=1e-6)


def test_shards_may_come_from_other_processes_in_any_order(
    tiny: TorchBackbone, pixels: np.ndarray, tmp_path: Path
) -> None:
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:

        def backwards(function: Callable[[ShardJob], Shard], jobs: Iterable[ShardJob]) -> Iterable[Shard]:
            return [future.result() for future in reversed([pool.submit(function, job) for job in jobs])]

        found = extract(pixels, tiny, cache=tmp_path, runtime="torch", shard_rows=20, map_shards=backwards)
    np.testing.assert_allclose(found.array, make_engine(tiny, runtime="torch")(pixels), atol=1e-6)


def test_a_map_that_loses_shards_is_found_out(tiny: TorchBackbone, pixels: np.ndarray, tmp_path: Path) -> None:
    def lossy(function: Callable[[ShardJob], Shard], jobs: Iterable[ShardJob]) -> Iterable[Shard]:
        return [function(job) for job in list(jobs)[1:]]

    with pytest.raises(InputError, match="features of 30 of 50 images"):
        extract(pixels, tiny, cache=tmp_path, runtime="torch", shard_rows=20, map_shards=lossy)
    assert extract(pixels, tiny, cache=tmp_path, runtime="torch", shard_rows=20).array.shape == (50, 6)


def test_no_images(tiny: TorchBackbone, tmp_path: Path) -> None:
    empty = np.zeros((0, 3, 8, 8), dtype=np.uint8)
    assert extract(empty, tiny, cache=tmp_path, runtime="torch").array.shape == (0, 6)


def test_several_sets(tiny: TorchBackbone, pixels: np.ndarray, tmp_path: Path) -> None:
    told: list[str] = []
    sets = {"train": pixels[:30], "ood:noise": PixelArray(pixels[30:])}
    found = extract_sets(sets, tiny, cache=tmp_path, runtime="torch", on_set=told.append)
    assert told == list(found) == ["train", "ood:noise"]
    assert found["ood:noise"].array.shape == (20, 6)


def test_bad_arguments(tiny: TorchBackbone, pixels: np.ndarray, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="shard_rows is 0"):
        extract(pixels, tiny, cache=tmp_path, shard_rows=0)
    with pytest.raises(InputError, match="dtype is 'float64'"):
        extract(pixels, tiny, cache=tmp_path, dtype="float64")
    with pytest.raises(InputError, match="pass uint8 images"):
        extract(pixels.astype(np.float32), tiny, cache=tmp_path)


@pytest.mark.parametrize(
    ("done", "expected"),
    [
        ([], [(0, 4), (4, 8), (8, 10)]),
        ([(4, 8)], [(0, 4), (8, 10)]),
        ([(8, 10), (0, 3)], [(3, 7), (7, 8)]),
        ([(0, 10)], []),
        ([(0, 6), (2, 4)], [(6, 10)]),
    ],
)
def test_missing_ranges(done: list[tuple[int, int]], expected: list[tuple[int, int]]) -> None:
    assert missing_ranges(done, 10, 4) == expected


_SCRIPT = """
import sys, time
import numpy as np
import torch
from pathlib import Path
from torch import nn
from volta.features.backbones.backbone import Preprocessing
from volta.features.backbones.load import module_backbone
from volta.features.extract import extract

class Slow(nn.Module):
    def forward(self, images):
        time.sleep(float(sys.argv[2]))
        print("batch", flush=True)
        return images.mean(dim=(2, 3)) * 3.0

backbone = module_backbone(Slow(), name="slow", preprocessing=Preprocessing(size=(4, 4)))
pixels = np.random.default_rng(1).integers(0, 256, (60, 3, 4, 4), dtype=np.uint8)
found = extract(pixels, backbone, cache=Path(sys.argv[1]), runtime="torch", shard_rows=10, batch_size=10)
np.save(Path(sys.argv[1]) / "result.npy", found.array)
"""


def test_a_killed_extraction_goes_on_where_it_was(tmp_path: Path) -> None:
    def start(pause: float) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", _SCRIPT, str(tmp_path), str(pause)]
        return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)

    first = start(0.3)
    deadline = time.monotonic() + 60.0
    while time.monotonic() < deadline:
        journals = list((tmp_path / "features").glob(f"*/{JOURNAL}"))
        if journals and len(journals[0].read_text().split()) >= 6:
            break
        time.sleep(0.02)
    os.kill(first.pid, signal.SIGKILL)
    first.communicate()
    assert first.returncode == -signal.SIGKILL
    n_kept = len(journals[0].read_text().split()) // 3
    assert 2 <= n_kept < 6
    assert not (tmp_path / "result.npy").exists()

    second = start(0.0)
    output, _ = second.communicate(timeout=60)
    assert second.returncode == 0
    assert output.count("batch") == 6 - n_kept
    pixels = np.random.default_rng(1).integers(0, 256, (60, 3, 4, 4), dtype=np.uint8)
    mean, std = np.array(Preprocessing().mean), np.array(Preprocessing().std)
    expected = 3.0 * (pixels.mean(axis=(2, 3)) / 255.0 - mean) / std
    np.testing.assert_allclose(np.load(tmp_path / "result.npy"), expected, atol=1e-5)
