"""The optimiser of a recipe: its groups, its learning rates, and who pays for importing it."""

from __future__ import annotations

import math
import subprocess
import sys

import pytest
import torch
from torch import nn

from volta.networks.recipe import WARM_UP_SHARE, Recipe
from volta.networks.training import make_optimiser

N_BATCHES, N_EPOCHS = 10, 20
TOTAL = N_BATCHES * N_EPOCHS


def learning_rates(schedule: str) -> list[float]:
    layer = nn.Linear(2, 2)
    optimiser, scheduler = make_optimiser(
        (layer,), (), Recipe("adamw", 0.5, 0.1, schedule, 4, N_EPOCHS, None), N_BATCHES
    )
    rates = []
    for _ in range(TOTAL):
        rates.append(optimiser.param_groups[0]["lr"])
        layer.weight.grad = torch.zeros(2, 2)
        optimiser.step()
        scheduler.step()
    return rates


def test_onecycle_rises_over_a_tenth_and_falls_to_the_end():
    rates = learning_rates("onecycle")
    top = rates.index(max(rates))
    assert top == pytest.approx(WARM_UP_SHARE * TOTAL, abs=1.5)
    assert (rates[0], max(rates)) == (pytest.approx(0.5 / 25), pytest.approx(0.5, rel=0.01))
    assert rates[:top] == sorted(rates[:top])
    assert rates[top:] == sorted(rates[top:], reverse=True)
    assert rates[-1] < 1e-3 * max(rates)


def test_cosine_falls_once_an_epoch():
    expected = [0.5 * 0.5 * (1 + math.cos(math.pi * (step // N_BATCHES) / N_EPOCHS)) for step in range(TOTAL)]
    assert learning_rates("cosine") == pytest.approx(expected)
    assert set(learning_rates("constant")) == {0.5}


@pytest.mark.parametrize("name", ["adam", "adamw", "sgd"])
def test_weight_decay_spares_what_it_is_told_to(name):
    layer = nn.Linear(3, 2)
    before = layer.bias.detach().clone()
    optimiser, _ = make_optimiser((layer,), (layer.bias,), Recipe(name, 1e-2, 0.1, "constant", 4, 1, None), 1)
    layer.weight.grad, layer.bias.grad = torch.zeros(2, 3), torch.zeros(2)
    weight = layer.weight.detach().clone()
    optimiser.step()
    assert torch.equal(layer.bias, before)
    assert not torch.equal(layer.weight, weight)


def test_a_single_step_is_a_whole_cycle():
    optimiser, scheduler = make_optimiser((nn.Linear(2, 2),), (), Recipe("adamw", 0.5, 0.0, "onecycle", 4, 1, None), 1)
    assert optimiser.param_groups[0]["lr"] == pytest.approx(0.5 / 25)
    optimiser.step()
    scheduler.step()


def test_predicting_does_not_import_the_compiler(tmp_path):
    code = "import sys, volta; volta.VoltaClassifier.load(sys.argv[1]).decide([[0.0] * 4]); assert 'torch._dynamo' not in sys.modules"
    import numpy as np

    import volta

    rows = np.random.default_rng(0).normal(size=(60, 4))
    volta.VoltaClassifier(max_epochs=2).fit(rows, np.arange(60) % 3).save(tmp_path / "model.safetensors")
    subprocess.run([sys.executable, "-W", "ignore", "-c", code, tmp_path / "model.safetensors"], check=True)
