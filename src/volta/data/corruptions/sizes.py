"""How the recipe's lengths, given for 32×32 images, carry over to other sizes."""

from __future__ import annotations

from volta.core.types import Array

RECIPE_SIDE = 32


def length_scale(images: Array) -> float:
    """Return s = max(1, min(h, w) / 32) for images (n, h, w, 3): what a length in the recipe's pixels is multiplied by.

    Lengths are blur widths, streaks, displacements, flakes and drops. Amplitudes, shares, qualities and zoom
    factors are no lengths and stay as they are. Images smaller than 32 pixels keep s = 1, since a blur much
    below half a pixel would change nothing. At 224 pixels this lands near the constants of ImageNet-C
    (Gaussian blur at severity 5: 7.0 against 6; defocus radius: 10.5 against 10).
    """
    return max(1.0, int(min(images.shape[1:3])) / RECIPE_SIDE)


def recipe_grid(images: Array) -> tuple[int, int]:
    """Return the (h, w) of ``images`` at the recipe's resolution: drops and flakes are drawn there, then enlarged."""
    scale = length_scale(images)
    return round(images.shape[1] / scale), round(images.shape[2] / scale)
