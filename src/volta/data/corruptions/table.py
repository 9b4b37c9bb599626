"""The table of corruptions: what each is called, what it does and how strongly at each severity.

The constants are the public recipe's, kept where its severities are no ladder, so that results stay
comparable with published ones. Measured as distance to the clean image: ``elastic_transform`` grows gentler
from 1 to 5 (each severity distorts more finely, and shears less); ``glass_blur`` falls from 1 to 3 and from 4
to 5 (the blur smooths what the shuffle has roughened); ``saturate`` fades at 1 and 2 and strengthens from 3
on; ``spatter`` changes from water to mud at 4; ``frost`` darkens the image as it adds ice from 3 on, so there
the correlation with the clean image falls steadily and the distance does not grow; ``motion_blur`` is the
same at 3 and 4 but for its last, negligible taps.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from volta.core.types import Array
from volta.data.corruptions.blur import defocus_blur, gaussian_blur, glass_blur, motion_blur, zoom_blur
from volta.data.corruptions.colour import brightness, contrast, saturate
from volta.data.corruptions.digital import elastic_transform, jpeg_compression, pixelate
from volta.data.corruptions.fog import fog
from volta.data.corruptions.frost import frost
from volta.data.corruptions.noise import gaussian_noise, impulse_noise, shot_noise, speckle_noise
from volta.data.corruptions.snow import snow
from volta.data.corruptions.spatter import spatter

SEVERITIES = (1, 2, 3, 4, 5)

Constants = tuple[float, ...]


@dataclass(frozen=True)
class Corruption:
    """One corruption and its constants at severities 1 to 5.

    ``apply(images, draws, *constants)`` maps uint8 images (n, h, w, 3) to values in 0..255 before clipping
    and cutting to whole levels; the constants are named by its parameters. ``extra`` marks the four that
    CIFAR-10-C adds to the fifteen of its benchmark.
    """

    apply: Callable[..., Array]
    severities: tuple[Constants, Constants, Constants, Constants, Constants]
    family: Literal["noise", "blur", "weather", "digital"]
    extra: bool = False


CORRUPTIONS: dict[str, Corruption] = {
    "gaussian_noise": Corruption(gaussian_noise, ((0.04,), (0.06,), (0.08,), (0.09,), (0.10,)), "noise"),
    "shot_noise": Corruption(shot_noise, ((500,), (250,), (100,), (75,), (50,)), "noise"),
    "impulse_noise": Corruption(impulse_noise, ((0.01,), (0.02,), (0.03,), (0.05,), (0.07,)), "noise"),
    "defocus_blur": Corruption(defocus_blur, ((0.3, 0.4), (0.4, 0.5), (0.5, 0.6), (1.0, 0.2), (1.5, 0.1)), "blur"),
    "glass_blur": Corruption(glass_blur, ((0.05, 1, 1), (0.25, 1, 1), (0.4, 1, 1), (0.25, 1, 2), (0.4, 1, 2)), "blur"),
    "motion_blur": Corruption(motion_blur, ((6, 1.0), (6, 1.5), (6, 2.0), (8, 2.0), (9, 2.5)), "blur"),
    "zoom_blur": Corruption(zoom_blur, ((6,), (11,), (15,), (20,), (25,)), "blur"),
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
    "frost": Corruption(frost, ((1.0, 0.2), (1.0, 0.3), (0.9, 0.4), (0.85, 0.4), (0.75, 0.45)), "weather"),
    "fog": Corruption(fog, ((0.2, 3.0), (0.5, 3.0), (0.75, 2.5), (1.0, 2.0), (1.5, 1.75)), "weather"),
    "brightness": Corruption(brightness, ((0.05,), (0.1,), (0.15,), (0.2,), (0.3,)), "weather"),
    "contrast": Corruption(contrast, ((0.75,), (0.5,), (0.4,), (0.3,), (0.15,)), "digital"),
    "elastic_transform": Corruption(
        elastic_transform,
        ((0.0, 0.0, 0.08), (0.05, 0.2, 0.07), (0.08, 0.06, 0.06), (0.1, 0.04, 0.05), (0.1, 0.03, 0.03)),
        "digital",
    ),
    "pixelate": Corruption(pixelate, ((0.95,), (0.9,), (0.85,), (0.75,), (0.65,)), "digital"),
    "jpeg_compression": Corruption(jpeg_compression, ((80,), (65,), (58,), (50,), (40,)), "digital"),
    "speckle_noise": Corruption(speckle_noise, ((0.06,), (0.1,), (0.12,), (0.16,), (0.2,)), "noise", extra=True),
    "gaussian_blur": Corruption(gaussian_blur, ((0.4,), (0.6,), (0.7,), (0.8,), (1.0,)), "blur", extra=True),
    "saturate": Corruption(
        saturate, ((0.3, 0.0), (0.1, 0.0), (1.5, 0.0), (2.0, 0.1), (2.5, 0.2)), "digital", extra=True
    ),
    "spatter": Corruption(
        spatter,
        (
            (0.62, 0.1, 0.7, 0.7, 0.5, 0),
            (0.65, 0.1, 0.8, 0.7, 0.5, 0),
            (0.65, 0.3, 1.0, 0.69, 0.5, 0),
            (0.65, 0.1, 0.7, 0.69, 0.6, 1),
            (0.65, 0.1, 0.5, 0.68, 0.6, 1),
        ),
        "weather",
        extra=True,
    ),
}
