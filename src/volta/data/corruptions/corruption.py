"""What a corruption is: a function of images and how strongly it works at each severity."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from volta.core.types import Array

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
