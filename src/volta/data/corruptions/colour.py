"""Brightness, contrast and saturation."""

from __future__ import annotations

import numpy as np

from volta.core.types import Array
from volta.data.corruptions.corruption import Corruption
from volta.data.corruptions.draws import Draws


def brightness(images: Array, draws: Draws, shift: float) -> Array:
    """Raise the value V of HSV by ``shift`` at unchanged hue and saturation: x·V'/V, V' = min(V + shift, 1).

    V is the largest channel; black, which has no hue, becomes the grey of value V'.
    """
    value = images.max(axis=3, keepdims=True).astype(np.float32)
    raised = np.minimum(value + np.float32(255 * shift), 255)
    return np.asarray(np.where(value > 0, images * (raised / np.maximum(value, 1)), raised))


def contrast(images: Array, draws: Draws, factor: float) -> Array:
    """Shrink each channel towards its mean over the image: m + factor·(x − m)."""
    height, width = images.shape[1:3]
    # Integer sums are exact, so the mean cannot depend on the order of summation.
    mean = images.sum(axis=(1, 2), keepdims=True, dtype=np.int64) / (height * width)
    return np.asarray(mean + factor * (images - mean))


def saturate(images: Array, draws: Draws, factor: float, shift: float) -> Array:
    """Change the saturation S of HSV at unchanged hue and value: V − (V − x)·S'/S, S' = clip(factor·S + shift, 0, 1).

    Grey has no hue; HSV by convention calls it red, so a ``shift`` tints grey pixels red, as in the recipe.
    """
    value = images.max(axis=3, keepdims=True).astype(np.float32)
    spread = value - images
    largest = spread.max(axis=3, keepdims=True)
    saturation = largest / np.maximum(value, 1)
    wanted = np.clip(np.float32(factor) * saturation + np.float32(shift), 0, 1)
    towards_hue = spread / np.maximum(largest, 1)
    towards_red = np.array([0, 1, 1], dtype=np.float32)
    return np.asarray(value - value * wanted * np.where(largest > 0, towards_hue, towards_red))


COLOURS: dict[str, Corruption] = {
    "brightness": Corruption(brightness, ((0.05,), (0.1,), (0.15,), (0.2,), (0.3,)), "weather"),
    "contrast": Corruption(contrast, ((0.75,), (0.5,), (0.4,), (0.3,), (0.15,)), "digital"),
    "saturate": Corruption(
        saturate, ((0.3, 0.0), (0.1, 0.0), (1.5, 0.0), (2.0, 0.1), (2.5, 0.2)), "digital", extra=True
    ),
}
