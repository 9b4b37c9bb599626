"""Snow: wind-blown flakes over a whitened image."""

from __future__ import annotations

import numpy as np

from volta.core.types import Array
from volta.data.corruptions.corruption import Corruption
from volta.data.corruptions.draws import Draws
from volta.data.corruptions.filters import smear
from volta.data.corruptions.resample import enlarge, mean_zoom
from volta.data.corruptions.sizes import recipe_grid

LUMA = np.array([0.299, 0.587, 0.114], dtype=np.float32)


def snow(
    images: Array,
    draws: Draws,
    mean: float,
    std: float,
    zoom: float,
    threshold: float,
    radius: float,
    sigma: float,
    kept: float,
) -> Array:
    """Whiten the image and add a layer of smeared flakes and the same layer turned by 180°.

    x' = kept·x + (1 − kept)·max(x, 1.5·luma(x) + 0.5), out = x' + f + turned(f). Flakes f: N(mean, std²)
    noise enlarged by ``zoom``, set to 0 below ``threshold``, clipped to [0, 1] and smeared at an angle
    uniform on [−135°, −45°). They are made at 32 pixels on the short side and enlarged for larger images.
    """
    flakes = np.float32(mean) + np.float32(std) * draws.normal((*recipe_grid(images), 1))
    if zoom > 1:
        flakes = mean_zoom(flakes, (zoom,))
    flakes[flakes < threshold] = 0
    levels = np.floor(np.clip(flakes, 0, 1) * 255)
    streaks = np.rint(smear(levels, radius, sigma, draws.uniform(-135.0, -45.0)))
    layer = enlarge(streaks, (images.shape[1], images.shape[2]))

    # Written out, not a matrix product, whose last bit may depend on the number of images.
    luma = LUMA[0] * images[..., :1] + LUMA[1] * images[..., 1:2] + LUMA[2] * images[..., 2:]
    whitened = np.maximum(images, 1.5 * luma + 127.5)
    return np.asarray(np.float32(kept) * images + np.float32(1 - kept) * whitened + layer + layer[:, ::-1, ::-1])


SNOW: dict[str, Corruption] = {
    "snow": Corruption(
        snow,
        (
            (0.1, 0.2, 1.0, 0.6, 8, 3, 0.95),
            (0.1, 0.2, 1.0, 0.5, 10, 4, 0.9),
            (0.15, 0.3, 1.75, 0.55, 10, 4, 0.9),
            (0.25, 0.3, 2.25, 0.6, 12, 6, 0.85),
            (0.3, 0.3, 1.25, 0.65, 14, 12, 0.8),
        ),
        "weather",
    ),
}
