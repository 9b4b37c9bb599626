"""Published logits of a real network give the published numbers, before and after temperature scaling.

CIFAR-10, ResNet-110: `logits/cifar10-resnet110.npz` with val_logits, val_labels, test_logits, test_labels, in the folder that
VOLTA_DATA names or, where logits are kept apart, in the one that VOLTA_LOGITS names.
"""

from __future__ import annotations

import numpy as np
import pytest
from typer.testing import CliRunner

import volta
from volta.bench.store import RunStore
from volta.cli.main import app

pytestmark = pytest.mark.validity


def check(plain: dict[str, float], calibrated: dict[str, float]) -> None:
    assert round(100 * (1 - plain["accuracy"]), 2) == 6.44
    assert round(plain["ece"], 4) == 0.0475
    assert round(plain["nll"], 4) == 0.3583
    assert round(calibrated["ece"], 4) == 0.0113
    assert round(calibrated["nll"], 4) == 0.2093
    assert round(calibrated["brier"], 4) == 0.0979


def test_the_command_finds_the_published_numbers(published_logits, tmp_path):
    run = tmp_path / "run"
    for arguments in (
        [
            "calibrate",
            published_logits,
            "--fit",
            published_logits,
            "--method",
            "temperature",
            "--out",
            tmp_path / "cooled.npz",
        ],
        ["evaluate", published_logits, tmp_path / "cooled.npz", "--out", run, "--no-report"],
    ):
        done = CliRunner().invoke(app, list(map(str, arguments)), catch_exceptions=False)
        assert done.exit_code == 0, done.output
    by_method = {record.cell.method: dict(record.test) for record in RunStore(run).records()}
    check(by_method["cifar10-resnet110"], by_method["cooled"])


def test_arrays_give_the_published_numbers(published_logits):
    with np.load(published_logits) as file:
        arrays = {name: file[name] for name in file.files}
    found = volta.evaluate(
        logits=arrays["test_logits"], labels=arrays["test_labels"], val=(arrays["val_logits"], arrays["val_labels"])
    )
    check(dict(found.metrics["test"]), dict(found.metrics["test+T"]))
    interval = found.intervals["test"]["accuracy"]
    assert interval.low < 0.9356 < interval.high
