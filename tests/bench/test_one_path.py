"""A run takes one path: how deep it is, and how often it looks up its tasks and methods."""

from __future__ import annotations

import sys
from collections import Counter
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

import volta
from volta.bench.records import RunConfig
from volta.bench.runner import make_plan
from volta.bench.store import RunStore
from volta.cli.main import main
from volta.data.importing import import_task
from volta.networks import training

PACKAGE = str(Path(volta.__file__).parent)
MOST_FRAMES = 12


@contextmanager
def profiled(see):
    """Call ``see`` with the frame of every call."""

    def profile(frame, event, argument):
        if event == "call":
            see(frame)

    sys.setprofile(profile)
    try:
        yield
    finally:
        sys.setprofile(None)


@pytest.mark.parametrize("method", ["volta", "softmax", "ensemble"])
def test_the_command_reaches_the_training_loop_in_few_frames(method, tmp_path, monkeypatch):
    depths = []

    def see(frame):
        if frame.f_code is training.train.__code__:
            own = []
            while frame is not None:
                # A comprehension is a frame of its own before Python 3.12.
                code = frame.f_code
                own.append(code.co_filename.startswith(PACKAGE) and code.co_name[0] != "<")
                frame = frame.f_back
            depths.append(sum(own))

    reduced = ["--seeds", "1", "--max-epochs", "1", "--limit-train", "100", "--limit-test", "30"]
    where = ["--executor", "local", "--no-report", "--quiet", "--out", str(tmp_path / "run")]
    monkeypatch.setattr(sys, "argv", ["volta", "bench", "digits", "--methods", method, *reduced, *where])
    with profiled(see), pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 0
    assert depths
    assert max(depths) <= MOST_FRAMES


def test_a_plan_looks_up_each_task_and_method_once(tmp_path):
    random = np.random.default_rng(0)
    names = ("first", "second", "third")
    for name in names:
        file = tmp_path / f"{name}.npz"
        np.savez(file, features=random.normal(size=(90, 3)).astype(np.float32), labels=np.arange(90) % 3)
        import_task(file, name, root=tmp_path / "data")
    methods = ("softmax", "energy", "knn(k=5)", "volta")
    config = RunConfig(names, methods, seeds=(1, 2, 3), data=tmp_path / "data")
    calls = Counter()

    def see(frame):
        if frame.f_code.co_filename.startswith(PACKAGE):
            calls[frame.f_code.co_name] += 1

    with profiled(see):
        plan = make_plan(config, RunStore(tmp_path / "run"))
    assert len(plan.cells) == 3 * 4 * 3
    assert calls["find_task"] == len(names)
    assert calls["find_method"] == len(methods)
    # Once to know the task, once to load it.
    assert calls["read_record"] <= 2 * len(names)
