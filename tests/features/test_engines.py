from __future__ import annotations

import importlib.util
import logging
import pickle
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from tests.features.conftest import tiny_network
from volta.core.errors import InputError, MissingDataError
from volta.features import engines
from volta.features.backbones.backbone import Pipeline, Preprocessing, TorchBackbone, prepare
from volta.features.backbones.load import load_backbone
from volta.features.engines import (
    EngineWarning,
    ExportError,
    GraphEngine,
    OnnxEngine,
    TorchEngine,
    batch_rows,
    make_engine,
    run_batches,
)
from volta.features.extract import extract

needs_openvino = pytest.mark.skipif(importlib.util.find_spec("openvino") is None, reason="needs volta-uq[openvino]")
needs_onnx = pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("onnx", "onnxruntime", "onnxscript")),
    reason="needs volta-uq[onnx]",
)


def eager_features(network: nn.Module, pixels: np.ndarray, preprocessing: Preprocessing) -> np.ndarray:
    with torch.inference_mode():
        return network.eval()(torch.from_numpy(prepare(pixels, preprocessing))).numpy()


@needs_onnx
def test_onnx_runtime_and_torch_agree(tiny: TorchBackbone, pixels: np.ndarray, tmp_path: Path) -> None:
    graph = make_engine(tiny, runtime="onnx", cache=tmp_path, threads=1)
    eager = make_engine(tiny, runtime="torch", threads=1)
    expected = eager_features(tiny.network, pixels, tiny.preprocessing)
    np.testing.assert_allclose(graph(pixels), expected, atol=1e-5)
    np.testing.assert_allclose(eager(pixels), expected, atol=1e-5)
    assert "ONNX Runtime" in graph.title
    assert "PyTorch" in eager.title


@needs_onnx
def test_one_graph_serves_any_size_and_is_exported_once(
    tiny: TorchBackbone, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    engine = make_engine(tiny, cache=tmp_path)
    assert isinstance(engine, GraphEngine)
    for shape in ((1, 3, 8, 30), (7, 3, 60, 9), (2, 3, 1, 1)):
        pixels = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
        np.testing.assert_allclose(engine(pixels), eager_features(tiny.network, pixels, tiny.preprocessing), atol=1e-5)
    before = engine.path.stat().st_mtime_ns
    again = make_engine(tiny, cache=tmp_path)
    assert again == engine
    assert engine.path.stat().st_mtime_ns == before
    assert [path.suffix for path in sorted((tmp_path / "onnx").iterdir())] == [".lock", ".onnx"]
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


@needs_onnx
@pytest.mark.parametrize("runtime", ["onnx", "torch"])
@pytest.mark.parametrize("threads", [1, 3])
def test_batches_run_side_by_side_and_come_back_in_order(
    tiny: TorchBackbone, tmp_path: Path, runtime: str, threads: int
) -> None:
    engine = make_engine(tiny, runtime=runtime, cache=tmp_path, threads=threads)
    images = np.random.default_rng(0).integers(0, 256, (41, 3, 12, 12), dtype=np.uint8)
    started: list[int] = []

    def batches(size: int) -> Iterator[np.ndarray]:
        for start in range(0, len(images), size):
            started.append(start)
            yield images[start : start + size]

    whole = engine(images)
    for size in (2, 5, 41):
        np.testing.assert_allclose(run_batches(engine, batches(size)), whole, atol=1e-6)
    assert started == [*range(0, 41, 2), *range(0, 41, 5), 0]


@needs_onnx
def test_batches_are_not_read_far_ahead_of_the_engine(tiny: TorchBackbone, tmp_path: Path) -> None:
    engine = make_engine(tiny, runtime="onnx", cache=tmp_path, threads=2)
    bad = np.zeros((1, 3, 12, 12), dtype=np.float32)
    read: list[int] = []

    def batches() -> Iterator[np.ndarray]:
        for index in range(100):
            read.append(index)
            yield bad if index == 0 else np.zeros((1, 3, 12, 12), dtype=np.uint8)

    with pytest.raises(InputError, match="uint8"):
        run_batches(engine, batches())
    assert len(read) <= 5


@needs_onnx
@pytest.mark.parametrize("runtime", ["onnx", "torch"])
def test_engines_can_be_sent_to_other_processes(
    tiny: TorchBackbone, pixels: np.ndarray, tmp_path: Path, runtime: str
) -> None:
    engine = make_engine(tiny, runtime=runtime, cache=tmp_path)
    copy = pickle.loads(pickle.dumps(engine))
    np.testing.assert_array_equal(copy(pixels), engine(pixels))


@needs_onnx
@pytest.mark.filterwarnings("ignore:.*LeafSpec.*:FutureWarning")
@pytest.mark.parametrize("batch", [None, 4])
def test_any_onnx_file(tmp_path: Path, pixels: np.ndarray, batch: int | None) -> None:
    network = nn.Sequential(nn.Conv2d(3, 5, 3, padding=1), nn.ReLU()).eval()
    program = torch.onnx.export(
        network,
        (torch.zeros(batch or 2, 3, 16, 18),),
        dynamo=True,
        verbose=False,
        dynamic_shapes=None if batch else ({0: torch.export.Dim("n")},),
    )
    program.save(str(tmp_path / "mine.onnx"))
    backbone = load_backbone(tmp_path / "mine.onnx")
    assert backbone.preprocessing == Preprocessing(size=(16, 18))
    engine = make_engine(backbone)
    assert isinstance(engine, OnnxEngine)
    expected = eager_features(network, pixels, backbone.preprocessing).mean(axis=(2, 3))
    np.testing.assert_allclose(engine(pixels), expected, atol=1e-5)
    with pytest.raises(InputError, match="is an ONNX file; pass auto or onnx"):
        make_engine(backbone, runtime="torch")
    (tmp_path / "mine.onnx").write_bytes(b"replaced")
    with pytest.raises(InputError, match="cannot be run by ONNX Runtime"):
        engine(pixels)


@needs_onnx
@pytest.mark.filterwarnings("ignore:.*LeafSpec.*:FutureWarning")
def test_an_onnx_file_that_takes_no_images_is_refused(tmp_path: Path) -> None:
    program = torch.onnx.export(nn.Linear(4, 2).eval(), (torch.zeros(1, 4),), dynamo=True, verbose=False)
    program.save(str(tmp_path / "rows.onnx"))
    with pytest.raises(InputError, match="expected one float32 image input"):
        load_backbone(tmp_path / "rows.onnx")
    (tmp_path / "bad.onnx").write_bytes(b"nothing")
    with pytest.raises(InputError, match="cannot be run by ONNX Runtime"):
        load_backbone(tmp_path / "bad.onnx")


class _Unexportable(nn.Module):
    def forward(self, images: Tensor) -> Tensor:
        rows = images.mean(dim=2)
        return torch.linalg.eigvals(rows @ rows.transpose(1, 2)).real


class _TracedWrongly(nn.Module):
    """Behaves differently while it is being exported, as a network with a baked-in branch would."""

    def forward(self, images: Tensor) -> Tensor:
        rows = images.mean(dim=(2, 3))
        return rows + 1.0 if torch.compiler.is_exporting() else rows


@needs_onnx
def test_a_network_that_cannot_be_exported_runs_in_torch(pixels: np.ndarray, tmp_path: Path) -> None:
    backbone = load_backbone(_Unexportable())
    with pytest.warns(EngineWarning, match="cannot be exported to ONNX .* runs in eager PyTorch"):
        engine = make_engine(backbone, cache=tmp_path)
    assert isinstance(engine, TorchEngine)
    assert engine(pixels).shape == (50, 3)
    with pytest.raises(ExportError, match="_Unexportable cannot be exported"):
        make_engine(backbone, runtime="onnx", cache=tmp_path)
    assert not list((tmp_path / "onnx").glob("*.onnx"))


@needs_onnx
def test_a_graph_that_computes_something_else_is_not_used(tmp_path: Path) -> None:
    with pytest.raises(ExportError, match="graph differs from the network by"):
        make_engine(load_backbone(_TracedWrongly()), runtime="onnx", cache=tmp_path)
    assert not list((tmp_path / "onnx").glob("*.onnx"))


def test_without_onnx_runtime_torch_does_the_work(
    tiny: TorchBackbone, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if "onnx" in name else find_spec(name))
    assert isinstance(make_engine(tiny, cache=tmp_path), TorchEngine)
    with pytest.raises(MissingDataError, match=r"needs onnxruntime, onnx, onnxscript.*volta-uq\[onnx\]"):
        make_engine(tiny, runtime="onnx", cache=tmp_path)
    (tmp_path / "a.onnx").touch()
    with pytest.raises(MissingDataError, match="needs onnxruntime"):
        load_backbone(tmp_path / "a.onnx")


def test_contradicting_arguments_are_refused(tiny: TorchBackbone) -> None:
    with pytest.raises(InputError, match="runtime is 'tf'"):
        make_engine(tiny, runtime="tf")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="used on the CPU only"):
        make_engine(tiny, runtime="onnx", device=torch.device("meta"))
    assert isinstance(make_engine(tiny, device=torch.device("meta")), TorchEngine)


def test_threads_are_put_back(tiny: TorchBackbone, pixels: np.ndarray) -> None:
    before = torch.get_num_threads()
    make_engine(tiny, runtime="torch", threads=2)(pixels)
    assert torch.get_num_threads() == before


def test_tiny_network_is_what_the_fixture_says() -> None:
    assert tiny_network()(torch.zeros(1, 3, 8, 8)).shape == (1, 6)


@needs_onnx
@needs_openvino
def test_openvino_agrees_with_torch_and_can_be_sent(tiny: TorchBackbone, pixels: np.ndarray, tmp_path: Path) -> None:
    engine = make_engine(tiny, runtime="openvino", cache=tmp_path, threads=1)
    expected = eager_features(tiny.network, pixels, tiny.preprocessing)
    np.testing.assert_allclose(engine(pixels), expected, atol=1e-5)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(engine))(pixels), engine(pixels))
    assert "OpenVINO" in engine.title


@needs_openvino
def test_bf16_needs_a_processor_that_has_it(
    tiny: TorchBackbone, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("volta.features.engines.has_bfloat16", lambda: False)
    with pytest.raises(InputError, match="no instructions for bfloat16"):
        make_engine(tiny, precision="bf16", cache=tmp_path)


def test_precision_and_runtime_are_checked(tiny: TorchBackbone, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="precision is 'f8'; pass f32 or bf16"):
        make_engine(tiny, precision="f8", cache=tmp_path)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="only openvino has it"):
        make_engine(tiny, runtime="onnx", precision="bf16", cache=tmp_path)


@needs_openvino
def test_bf16_that_kills_its_process_is_refused(
    tiny: TorchBackbone, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("volta.features.engines.has_bfloat16", lambda: True)
    monkeypatch.setattr("volta.features.engines._TRIAL", "import os, signal; os.kill(os.getpid(), signal.SIGILL)")
    engines._bfloat16_works.cache_clear()
    with pytest.raises(InputError, match=r"kills the process.*ONEDNN_MAX_CPU_ISA"):
        make_engine(tiny, precision="bf16", cache=tmp_path)
    engines._bfloat16_works.cache_clear()


def test_openvino_missing_is_said(tiny: TorchBackbone, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "openvino", None)
    with pytest.raises(MissingDataError, match=r"volta-uq\[openvino\]"):
        make_engine(tiny, runtime="openvino", cache=tmp_path)


class FloatsOfGpus(TorchDispatchMode):
    """Within it no operation may give float64, which Apple's GPUs lack; the layout of convolutions' inputs is kept."""

    def __init__(self) -> None:
        super().__init__()
        self.channels_last: list[bool] = []
        self.dtypes: list[torch.dtype] = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        if isinstance(result, Tensor) and result.dtype == torch.float64:
            raise TypeError(f"{function} gives float64")
        if "conv" in str(function):
            self.channels_last.append(args[1].is_contiguous(memory_format=torch.channels_last))
            self.dtypes.append(args[1].dtype)
        return result


@pytest.mark.parametrize("half", [None, torch.bfloat16, torch.float16])
def test_on_a_gpu_weights_are_channels_last_and_nothing_is_float64(
    tiny: TorchBackbone, pixels: np.ndarray, half: torch.dtype | None
) -> None:
    expected = make_engine(tiny, runtime="torch")(pixels)
    pipeline = Pipeline(tiny_network(), tiny.preprocessing).eval()
    engine = TorchEngine(pipeline, tiny.preprocessing, torch.device("cpu"), channels_last=True, half=half)
    with FloatsOfGpus() as seen:
        features = engine(pixels)
    assert seen.channels_last == [True]
    assert seen.dtypes == [half or torch.float32]
    assert features.dtype == np.float32
    np.testing.assert_allclose(features, expected, atol=1e-5 if half is None else 0.05)
    assert half is None or not np.array_equal(features, expected)
    assert pickle.loads(pickle.dumps(engine)).title == engine.title


def test_engines_of_gpus_are_pytorch_with_large_batches(tiny: TorchBackbone, tmp_path: Path) -> None:
    cuda, cpu = torch.device("cuda"), torch.device("cpu")
    engine = make_engine(tiny, device=cuda, cache=tmp_path)
    assert isinstance(engine, TorchEngine)
    assert (engine.channels_last, engine.half, engine.title) == (True, None, f"PyTorch {torch.__version__} on cuda")
    mixed = make_engine(tiny, device=torch.device("mps"), amp=True)
    assert isinstance(mixed, TorchEngine)
    assert mixed.half == torch.float16
    large = Preprocessing(size=(224, 224))
    assert batch_rows(replace(tiny, preprocessing=large), cpu, None) == 16
    assert batch_rows(replace(tiny, preprocessing=large), cuda, 16 << 30) == 167  # 12.8 MB each, an eighth of memory
    assert batch_rows(replace(tiny, preprocessing=large), cuda, 1 << 20) == 1
    assert batch_rows(tiny, cuda, 80 << 30) == 512


def test_mixed_precision_is_pytorchs_alone_and_has_a_key_of_its_own(
    tiny: TorchBackbone, pixels: np.ndarray, tmp_path: Path
) -> None:
    for settings in ({"runtime": "onnx"}, {"runtime": "openvino"}, {"precision": "bf16"}):
        with pytest.raises(InputError, match="leave out --amp"):
            make_engine(tiny, amp=True, **settings)
    plain, mixed = (extract(pixels, tiny, runtime="torch", cache=tmp_path, amp=amp) for amp in (False, True))
    assert plain.key != mixed.key
    assert mixed.meta["amp"] == "bfloat16"
    assert "amp" not in plain.meta
    assert not np.array_equal(plain.array, mixed.array)
    np.testing.assert_allclose(mixed.array, plain.array, atol=0.05)
