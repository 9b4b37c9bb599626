"""Our steps are those of torch.optim, bit for bit, and its compiler is not imported for them."""

from __future__ import annotations

import math
import subprocess
import sys

import pytest
import torch
from torch import nn

from volta.networks.recipe import CLIMB_SHARE, Recipe
from volta.networks.training import Optimiser

N_BATCHES, N_EPOCHS = 4, 5
OPTIMISERS = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}


def module() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(5, 7), nn.GELU(), nn.LayerNorm(7), nn.Linear(7, 3), nn.Linear(3, 2))


def of_torch(network: nn.Module, recipe: Recipe):
    spared = [network[2].weight, network[2].bias]
    rest = [one for one in network.parameters() if all(one is not other for other in spared)]
    groups = [{"params": rest, "weight_decay": recipe.weight_decay}, {"params": spared, "weight_decay": 0.0}]
    if recipe.optimiser == "sgd":
        optimiser = torch.optim.SGD(groups, lr=recipe.lr, momentum=0.9, fused=True)
    else:
        optimiser = OPTIMISERS[recipe.optimiser](groups, lr=recipe.lr, fused=True)
    total = N_BATCHES * N_EPOCHS
    schedules = torch.optim.lr_scheduler
    if recipe.schedule == "onecycle":
        return optimiser, schedules.OneCycleLR(optimiser, recipe.lr, total_steps=total + 1, pct_start=CLIMB_SHARE)
    if recipe.schedule == "cosine":
        return optimiser, schedules.LambdaLR(
            optimiser, lambda step: 0.5 * (1.0 + math.cos(math.pi * (step // N_BATCHES) / N_EPOCHS))
        )
    return optimiser, schedules.LambdaLR(optimiser, lambda step: 1.0)


@pytest.mark.parametrize("schedule", ["onecycle", "cosine", "constant"])
@pytest.mark.parametrize("name", ["adam", "adamw", "sgd"])
def test_every_step_is_that_of_torch(name, schedule):
    recipe = Recipe(name, 3e-2, 0.1, schedule, 4, N_EPOCHS, None)
    ours, theirs = module(), module()
    optimiser = Optimiser((ours,), (ours[2].weight, ours[2].bias), recipe, N_BATCHES)
    reference, pace = of_torch(theirs, recipe)
    for step in range(N_BATCHES * N_EPOCHS):
        rows = torch.randn(4, 5, generator=torch.Generator().manual_seed(step))
        # The last layer has no gradient in some steps.
        depth = 4 if step % 3 == 2 and name != "sgd" else 5
        for network in (ours, theirs):
            network[:depth](rows).square().sum().backward()
        optimiser.step()
        reference.step()
        pace.step()
        reference.zero_grad()
        assert all(parameter.grad is None for parameter in ours.parameters())
        for own, other in zip(ours.parameters(), theirs.parameters(), strict=True):
            assert torch.equal(own, other), (step, own - other)


def test_no_fit_imports_the_compiler():
    code = (
        "import sys, numpy as np, volta; x = np.random.default_rng(0).normal(size=(60, 4));"
        "[volta.VoltaClassifier(name, max_epochs=2).fit(x, np.arange(60) % 3) for name in ('volta', 'swag')];"
        "assert 'torch._dynamo' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
