"""The two protocols: which body and which recipe each kind of method trains with.

``paper``  baselines: CNN on pixels or MLP on features, Adam, cosine annealing; VOLTA: its encoder on frozen features.
           All stop early and restore the weights of the lowest validation loss, as in the paper.
``fair``   every method: VOLTA's encoder on the same features with VOLTA's optimiser and one complete OneCycle. Nothing
           stops early and no checkpoint is chosen: the weights at the cycle's end are kept.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal, TypeAlias, get_args

from volta.core.errors import InputError
from volta.core.types import EncoderKind, FitData
from volta.networks.bodies import Backbone, Cnn, Encoder, Mlp
from volta.networks.recipe import Recipe

ProtocolName: TypeAlias = Literal["fair", "paper"]
PROTOCOLS: tuple[ProtocolName, ...] = get_args(ProtocolName)

# By benchmarks/recipe.py (validation NLL after temperature; table in docs/results-checks.md): neither CIFAR-10 nor
# CIFAR-100 tells 10 epochs from 12, and the shorter is taken. Tiny ImageNet, with the tabular encoder, improves up to
# 32, the longest cycle tried.
FAIR_EPOCHS: dict[EncoderKind, int] = {"vision": 10, "tabular": 32}

# Five networks, five seeds, held-out digits: NLL after temperature .0511, .0489, .0526, .0498, .0500 at 80, 160,
# 240, 320, 480 steps. 160 is lowest; 80 is .0021 ± .0013 (standard error) above it, and taken because it costs half.
FAIR_MIN_STEPS = 80

VISION_ENCODER = Encoder(hidden=(512, 256), dropout=0.1, residual=True)
TABULAR_ENCODER = Encoder(hidden=(256, 128, 64), dropout=0.2, projection=128, residual=False)
VISION_RECIPE = Recipe("adamw", 2e-3, 1e-3, "onecycle", batch_size=512, max_epochs=100, patience=20)
TABULAR_RECIPE = Recipe("adamw", 3e-3, 1e-3, "onecycle", batch_size=1024, max_epochs=80, patience=20)
PAPER_RECIPE = Recipe("adam", 1e-3, 1e-4, "cosine", batch_size=256, max_epochs=100, patience=10)


def complete_cycle(recipe: Recipe, n_epochs: int) -> Recipe:
    """Return ``recipe`` as the ``fair`` protocol trains: ``n_epochs`` to the end, more where that is too few steps."""
    return replace(recipe, max_epochs=n_epochs, patience=None, min_steps=FAIR_MIN_STEPS)


def need_features(data: FitData) -> None:
    """Refuse pixels."""
    if data.kind != "features":
        raise InputError("VOLTA works on frozen features; extract features from the pixels first")


def volta_setup(data: FitData, protocol: ProtocolName) -> tuple[Encoder, Recipe]:
    """Return VOLTA's encoder and the recipe it trains with under ``protocol``."""
    need_features(data)
    vision = data.encoder == "vision"
    encoder, recipe = (VISION_ENCODER, VISION_RECIPE) if vision else (TABULAR_ENCODER, TABULAR_RECIPE)
    return encoder, complete_cycle(recipe, FAIR_EPOCHS[data.encoder]) if protocol == "fair" else recipe


def baseline_setup(data: FitData, protocol: ProtocolName) -> tuple[Backbone, Recipe]:
    """Return the body and recipe that every baseline trains with under ``protocol``."""
    if protocol == "fair":
        return volta_setup(data, protocol)
    if data.kind == "pixels":
        mean, std = data.normalise or ((0.5, 0.5, 0.5), (0.5, 0.5, 0.5))
        return Cnn(dropout=0.0, mean=mean, std=std), replace(PAPER_RECIPE, max_epochs=data.paper_epochs)
    return Mlp(), replace(PAPER_RECIPE, batch_size=128, max_epochs=data.paper_epochs)
