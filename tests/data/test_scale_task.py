"""Columns of own data are scaled on the training rows, every set alike; the package's tasks are left alone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from volta import Task
from volta.bench.config import TaskLoader
from volta.bench.records import RunConfig
from volta.core.cache import ArrayCache
from volta.data.task_builder import SCALED, scale_task

RANDOM = np.random.default_rng(0)
ROWS = RANDOM.normal(size=(300, 3)) * [1.0, 1e4, 1e-3] + [0.0, 1e6, 0.0]
LABELS = np.arange(300) % 3


@pytest.fixture
def task():
    return Task.from_arrays(train=(ROWS, LABELS), ood={"far": ROWS + np.array([9.0, 9e4, 9e-3])}, name="own")


def test_every_set_is_scaled_by_the_training_rows(task, tmp_path):
    scaled = scale_task(task, "auto", ArrayCache(tmp_path))
    centre, deviation = task.fit.train.inputs.mean(axis=0), task.fit.train.inputs.std(axis=0)
    for before, after in (
        (task.fit.val.inputs, scaled.fit.val.inputs),
        (task.test.inputs, scaled.test.inputs),
        (task.ood["far"].inputs, scaled.ood["far"].inputs),
    ):
        assert np.allclose(after, (before - centre) / deviation, atol=1e-4)
    assert scaled.source.endswith(SCALED)
    assert scale_task(task, "none", ArrayCache(tmp_path)) is task


def test_vision_features_of_one_scale_stay(task, tmp_path):
    rows = RANDOM.normal(size=(300, 3))
    even = Task.from_arrays(train=(rows, LABELS), encoder="vision")
    assert scale_task(even, "auto", ArrayCache(tmp_path)) is even
    assert scale_task(even, "standard", ArrayCache(tmp_path)) is not even
    uneven = replace(task, fit=replace(task.fit, encoder="vision"))
    assert scale_task(uneven, "auto", ArrayCache(tmp_path)) is not uneven


def test_large_sets_on_disk_are_scaled_on_disk(task, tmp_path, monkeypatch):
    monkeypatch.setattr("volta.data.task_builder._LARGE_BYTES", 100)
    np.save(tmp_path / "train.npy", task.fit.train.inputs)
    mapped = np.load(tmp_path / "train.npy", mmap_mode="r")
    on_disk = replace(task, fit=replace(task.fit, train=replace(task.fit.train, inputs=mapped)))
    scaled = scale_task(on_disk, "auto", ArrayCache(tmp_path / "cache"))
    assert isinstance(scaled.fit.train.inputs, np.memmap)
    assert scaled.fingerprint == scale_task(task, "auto", ArrayCache(tmp_path / "cache")).fingerprint


def test_a_run_scales_own_data_says_so_once_and_leaves_digits(task):
    said = []
    config = RunConfig(("own", "digits"), ("softmax",), array_tasks=(task,), seeds=(1, 2))
    loader = TaskLoader(config, say=said.append)
    for seed in (1, 2):
        loaded = loader.task_for("own", "fair", "softmax", seed)
        assert abs(float(loaded.fit.train.inputs.mean())) < 1e-3
        assert SCALED not in loader.task_for("digits", "fair", "softmax", seed).source
    assert len(said) == 1
    assert said[0].startswith("own: own data may have any scale")
    raw = TaskLoader(replace(config, scale="none"))
    assert raw.task_for("own", "fair", "softmax", 1).fit.train.inputs.max() > 1e5
