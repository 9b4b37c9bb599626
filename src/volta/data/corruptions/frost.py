"""Frost from drawn ice: the recipe overlays photographs of frost, which are not shipped here."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from volta.core.seeding import rng
from volta.core.types import Array
from volta.data.corruptions.corruption import Corruption
from volta.data.corruptions.draws import Draws
from volta.data.corruptions.sizes import length_scale

if TYPE_CHECKING:
    from PIL.ImageDraw import ImageDraw

N_TEXTURES = 5
CANVAS_SIDE = 1024
TEXTURE_SIDE = 256
"""Side of a texture for 32-pixel images: a crop shows an eighth of it, about what the recipe's crops show."""

_TEXTURE_SEED = 2019
_THIN_ICE = np.array([25.0, 42.0, 66.0])
_THICK_ICE = np.array([232.0, 243.0, 255.0])


def frost(images: Array, draws: Draws, kept: float, added: float) -> Array:
    """Lay ice over the image: kept·x + added·ice, ice a random crop of one of five textures.

    Departure: the textures are synthetic (:func:`ice_texture`), so frost here is comparable with the
    published CIFAR-10-C in kind and strength, not image by image.
    """
    height, width = images.shape[1:3]
    textures = _textures(round(TEXTURE_SIDE * length_scale(images)))
    side = textures.shape[1]
    which = draws.integers(N_TEXTURES)
    corners = draws.uniform(0.0, 1.0, (2,))
    rows = (corners[:, :1] * max(1, side - height)).astype(np.int64) + np.arange(height)
    cols = (corners[:, 1:] * max(1, side - width)).astype(np.int64) + np.arange(width)
    # Images longer than the texture go round it.
    thickness = textures[which[:, None, None], rows[:, :, None] % side, cols[:, None, :] % side]
    ramp = np.linspace(_THIN_ICE, _THICK_ICE, 256).astype(np.float32)
    return np.asarray(np.float32(kept) * images + np.float32(added) * ramp[thickness])


def ice_texture(number: int) -> Array:
    """Return the thickness of ice on a pane, (1024, 1024) uint8, always the same for the same ``number``.

    Fern-like crystals, straight stems that branch at ±60° as ice does, with a halo each, over fractal noise
    with a 1/f amplitude spectrum for the uneven film between them; ranked, so that every thickness is about
    equally common.
    """
    from PIL import Image, ImageDraw
    from scipy.ndimage import gaussian_filter

    stream = rng(_TEXTURE_SEED, "frost", number)
    canvas = Image.new("L", (CANVAS_SIDE, CANVAS_SIDE))
    pen = ImageDraw.Draw(canvas)
    for _ in range(int(stream.integers(25, 45))):
        start = stream.uniform(0, CANVAS_SIDE, 2)
        _grow(pen, stream, start, stream.uniform(0, 2 * math.pi), stream.uniform(200, 600), depth=2)
    crystals = np.asarray(canvas, dtype=np.float64) / 255
    halo = gaussian_filter(crystals, 12.0, mode="wrap")
    film = _fractal_noise(stream, CANVAS_SIDE)
    return _rank(0.2 * film + gaussian_filter(crystals, 2.0, mode="wrap") + 0.6 * halo)


def _grow(pen: ImageDraw, stream: np.random.Generator, start: Array, angle: float, length: float, depth: int) -> None:
    """Draw a stem and, along it, ever shorter side branches, which branch again."""
    direction = np.array([math.cos(angle), math.sin(angle)])
    end = start + length * direction
    brightness = int(stream.integers(120, 256))
    pen.line([*start, *end], fill=brightness, width=3 + 3 * depth)
    if depth == 0:
        return
    n_branches = max(2, int(length / 32))
    for share in (np.arange(n_branches) + stream.uniform(0, 1, n_branches)) / n_branches:
        for side in (-1, 1):
            branch = 0.45 * length * (1.05 - share) * stream.uniform(0.4, 1.0)
            _grow(pen, stream, start + share * length * direction, angle + side * math.pi / 3, branch, depth - 1)


def _fractal_noise(stream: np.random.Generator, side: int) -> Array:
    """Return noise on a torus whose amplitude falls as 1/frequency, with standard deviation 1."""
    rows, cols = np.fft.fftfreq(side)[:, None], np.fft.rfftfreq(side)[None, :]
    frequency = np.hypot(rows, cols)
    frequency[0, 0] = np.inf
    noise = np.fft.irfft2(np.fft.rfft2(stream.standard_normal((side, side))) / frequency, s=(side, side))
    return np.asarray(noise / noise.std())


def _rank(values: Array) -> Array:
    """Return the share of values below each value, in 256 steps; 65,536 bins spare a full sort."""
    bins = ((values - values.min()) * (65535 / np.ptp(values))).astype(np.int64)
    n_up_to = np.bincount(bins.ravel()).cumsum()
    return np.asarray(((n_up_to[bins] - 1) * 256 // values.size).astype(np.uint8))


@lru_cache(maxsize=1)
def _canvases() -> list[Array]:
    return [ice_texture(number) for number in range(N_TEXTURES)]


@lru_cache(maxsize=4)
def _textures(side: int) -> Array:
    from PIL import Image

    resized = [Image.fromarray(canvas).resize((side, side), Image.Resampling.BICUBIC) for canvas in _canvases()]
    return np.stack([np.asarray(texture) for texture in resized])


FROST: dict[str, Corruption] = {
    "frost": Corruption(frost, ((1.0, 0.2), (1.0, 0.3), (0.9, 0.4), (0.85, 0.4), (0.75, 0.45)), "weather"),
}
