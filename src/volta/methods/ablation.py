"""Full VOLTA and the ablation: each row is a setting of :class:`volta.methods.volta.Volta`, not a copy of it.

The paper gives no weights for the auxiliary losses; 0.1 each is our choice. This file imports no network code, so that
reports can name rows by reference: ``Ablation.NO_MARGIN.key``.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any

AUXILIARY_WEIGHT = 0.1

_FULL: dict[str, Any] = {
    "encoder": "deep",
    "margin": AUXILIARY_WEIGHT,
    "reconstruction": AUXILIARY_WEIGHT,
    "diversity": AUXILIARY_WEIGHT,
    "contrastive": AUXILIARY_WEIGHT,
    "n_passes": 10,
}
_FIXED_TEMPERATURE: dict[str, Any] = {"temperature": 1.0, "learn_temperature": False}


class Ablation(Enum):
    """The rows: ``key`` names a row in results, ``title`` in tables, ``settings`` are the parameters of its Volta."""

    FULL = ("volta-full", "full VOLTA", _FULL)
    NO_ADAPTIVE_TEMPERATURE = (
        "volta-full-no-adaptive-temperature",
        "− adaptive temperature (τ = 1 in training)",
        _FULL | _FIXED_TEMPERATURE,
    )
    NO_MARGIN = ("volta-full-no-margin", "− margin", _FULL | {"margin": 0.0})
    NO_RECONSTRUCTION = ("volta-full-no-reconstruction", "− reconstruction", _FULL | {"reconstruction": 0.0})
    NO_DIVERSITY = ("volta-full-no-diversity", "− diversity", _FULL | {"diversity": 0.0})
    NO_CONTRASTIVE = ("volta-full-no-contrastive", "− contrastive", _FULL | {"contrastive": 0.0})
    SHALLOW = ("volta-full-shallow", "shallow encoder", _FULL | {"encoder": "shallow"})
    NO_MC = ("volta-full-no-mc", "− MC inference", _FULL | {"n_passes": 0})
    NO_TEMPERATURE = (
        "volta-full-no-temperature",
        "− temperature scaling (τ = 1, no refit)",
        _FULL | _FIXED_TEMPERATURE | {"refit_temperature": False},
    )
    NO_POSTHOC = ("volta-full-no-posthoc", "− post-hoc refit only", _FULL | {"refit_temperature": False})
    ADD_MARGIN = ("volta-add-margin", "VOLTA + margin", {"margin": AUXILIARY_WEIGHT})
    ADD_RECONSTRUCTION = (
        "volta-add-reconstruction",
        "VOLTA + reconstruction",
        {"reconstruction": AUXILIARY_WEIGHT},
    )
    ADD_DIVERSITY = ("volta-add-diversity", "VOLTA + diversity", {"diversity": AUXILIARY_WEIGHT})
    ADD_CONTRASTIVE = ("volta-add-contrastive", "VOLTA + contrastive", {"contrastive": AUXILIARY_WEIGHT})

    def __init__(self, key: str, title: str, settings: Mapping[str, Any]) -> None:
        self.key = key
        self.title = title
        self.settings = settings


ABLATION: dict[str, Ablation] = {row.key: row for row in Ablation}
