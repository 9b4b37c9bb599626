"""Full VOLTA and the ablation: each row is a setting of :class:`volta.methods.volta.Volta`, not a copy of it.

The paper gives no weights for the auxiliary losses; 0.1 each is our choice.
"""

from __future__ import annotations

from dataclasses import replace

from volta.methods.volta import Volta

AUXILIARY_WEIGHT = 0.1

FULL = Volta(
    encoder="deep",
    margin=AUXILIARY_WEIGHT,
    reconstruction=AUXILIARY_WEIGHT,
    diversity=AUXILIARY_WEIGHT,
    contrastive=AUXILIARY_WEIGHT,
    n_passes=10,
)
PLAIN = Volta()

ABLATION: dict[str, tuple[str, Volta]] = {
    "volta-full": ("full VOLTA", FULL),
    "volta-full-no-adaptive-temperature": (
        "− adaptive temperature (τ = 1 in training)",
        replace(FULL, temperature=1.0, learn_temperature=False),
    ),
    "volta-full-no-margin": ("− margin", replace(FULL, margin=0.0)),
    "volta-full-no-reconstruction": ("− reconstruction", replace(FULL, reconstruction=0.0)),
    "volta-full-no-diversity": ("− diversity", replace(FULL, diversity=0.0)),
    "volta-full-no-contrastive": ("− contrastive", replace(FULL, contrastive=0.0)),
    "volta-full-shallow": ("shallow encoder", replace(FULL, encoder="shallow")),
    "volta-full-no-mc": ("− MC inference", replace(FULL, n_passes=0)),
    "volta-full-no-temperature": (
        "− temperature scaling (τ = 1, no refit)",
        replace(FULL, temperature=1.0, learn_temperature=False, refit_temperature=False),
    ),
    "volta-full-no-posthoc": ("− post-hoc refit only", replace(FULL, refit_temperature=False)),
    "volta-plus-margin": ("VOLTA + margin", replace(PLAIN, margin=AUXILIARY_WEIGHT)),
    "volta-plus-reconstruction": ("VOLTA + reconstruction", replace(PLAIN, reconstruction=AUXILIARY_WEIGHT)),
    "volta-plus-diversity": ("VOLTA + diversity", replace(PLAIN, diversity=AUXILIARY_WEIGHT)),
    "volta-plus-contrastive": ("VOLTA + contrastive", replace(PLAIN, contrastive=AUXILIARY_WEIGHT)),
}
