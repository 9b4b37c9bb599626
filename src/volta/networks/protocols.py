"""The two protocols: which body and which recipe each kind of method trains with.

``paper``  baselines: CNN on pixels or MLP on features, Adam, cosine annealing; VOLTA: its encoder on frozen features.
``fair``   every method: VOLTA's encoder on the same features with VOLTA's optimiser, schedule and budget.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal, TypeAlias, get_args

from volta.core.errors import InputError
from volta.core.types import FitData
from volta.networks.bodies import Backbone, Cnn, Encoder, Mlp
from volta.networks.recipe import Recipe

ProtocolName: TypeAlias = Literal["fair", "paper"]
PROTOCOLS: tuple[ProtocolName, ...] = get_args(ProtocolName)

VISION_ENCODER = Encoder(hidden=(512, 256), dropout=0.1, residual=True)
TABULAR_ENCODER = Encoder(hidden=(256, 128, 64), dropout=0.2, projection=128, residual=False)
VISION_RECIPE = Recipe("adamw", 2e-3, 1e-3, "onecycle", batch_size=512, max_epochs=100, patience=20)
TABULAR_RECIPE = Recipe("adamw", 3e-3, 1e-3, "onecycle", batch_size=1024, max_epochs=80, patience=20)
PAPER_RECIPE = Recipe("adam", 1e-3, 1e-4, "cosine", batch_size=256, max_epochs=100, patience=10)


def volta_setup(data: FitData) -> tuple[Encoder, Recipe]:
    """Return VOLTA's encoder and recipe; both protocols train it alike."""
    if data.kind != "features":
        raise InputError("VOLTA works on frozen features; extract features from the pixels first")
    if data.encoder == "vision":
        return VISION_ENCODER, VISION_RECIPE
    return TABULAR_ENCODER, TABULAR_RECIPE


def baseline_setup(data: FitData, protocol: ProtocolName) -> tuple[Backbone, Recipe]:
    """Return the body and recipe that every baseline trains with under ``protocol``."""
    if protocol == "fair":
        return volta_setup(data)
    if data.kind == "pixels":
        mean, std = data.normalise or ((0.5, 0.5, 0.5), (0.5, 0.5, 0.5))
        return Cnn(dropout=0.0, mean=mean, std=std), replace(PAPER_RECIPE, max_epochs=data.paper_epochs)
    return Mlp(), replace(PAPER_RECIPE, batch_size=128, max_epochs=data.paper_epochs)
