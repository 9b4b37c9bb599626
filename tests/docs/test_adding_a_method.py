"""The code block of the page is run as it stands."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from tests.conftest import blobs
from volta.methods import METHODS
from volta.networks.recipe import Budget
from volta.networks.trainer import Trainer

DOCS = Path(__file__).parents[2] / "docs"


def test_the_new_method_works_as_documented(monkeypatch, tmp_path):
    (code,) = re.findall(r"```python\n(.*?)```", (DOCS / "adding-a-method.md").read_text(encoding="utf-8"), re.DOTALL)
    assert len(code.splitlines()) <= 36
    (tmp_path / "gen.py").write_text(code, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    import gen

    monkeypatch.setitem(METHODS, "gen", gen.Gen)
    data, test = blobs()
    method = METHODS["gen"]().fit(data, Trainer(seed=0, budget=Budget(max_epochs=3)))
    prediction = method.predict(test.inputs)
    p = prediction.probs
    assert np.allclose(prediction.uncertainty, ((p * (1 - p)) ** 0.1).sum(axis=1))


@pytest.mark.filterwarnings("ignore::volta.methods.temperature.CalibrationWarning")
def test_methods_work_on_ones_own_network_as_documented():
    (code,) = re.findall(r"```python\n(.*?)```", (DOCS / "methods.md").read_text(encoding="utf-8"), re.DOTALL)
    names = {}
    exec(compile(code, "methods.md", "exec"), names)
    assert names["probs"].shape == (10, 3)
    assert names["ood_score"].shape == (10,)


@pytest.mark.parametrize("name", list(METHODS))
def test_every_method_is_documented(name):
    page = (DOCS / "methods.md").read_text(encoding="utf-8")
    assert f"| `{name}` |" in page
