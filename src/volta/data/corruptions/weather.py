"""Weather corruptions: snow, frost, fog, spatter."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from volta.core.seeding import rng
from volta.core.types import Array
from volta.data.corruptions.common import (
    Corruption,
    Draws,
    correlate,
    enlarge,
    gaussian,
    length_scale,
    mean_zoom,
    recipe_grid,
    smear,
    to_levels,
)

if TYPE_CHECKING:
    from PIL.ImageDraw import ImageDraw


def fog(images: Array, draws: Draws, thickness: float, decay: float) -> Array:
    """Add a cloud f in [0, 1], a plasma fractal, and rescale to the image's brightest value M: (x + t·f)·M/(M + t)."""
    height, width = images.shape[1:3]
    cloud = plasma(draws, max(height, width), decay)[:, :height, :width, None]
    brightest = images.max(axis=(1, 2, 3), keepdims=True).astype(np.float32)
    added = np.float32(255 * thickness)
    return np.asarray((images + added * cloud) * (brightest / (brightest + added)))


def plasma(draws: Draws, side: int, decay: float) -> Array:
    """Return one fractal height map in [0, 1] for each image, (n, m, m) float32, m the power of two from ``side`` on.

    Diamond-square on a torus: each level halves the step, sets every new point to the mean of its four
    neighbours plus U[−a, a), and divides a by decay² (the recipe divides both factors of its amplitude by
    ``decay``).
    """
    size = 1 << (side - 1).bit_length()
    heights = np.zeros((len(draws), size, size))
    amplitude, step = 1.0, size
    while step >= 2:
        half = step // 2
        corners = heights[:, ::step, ::step]
        noise = draws.uniform(-1.0, 1.0, (3, *corners.shape[1:])) * amplitude
        across = corners + np.roll(corners, -1, axis=2)
        centres = (across + np.roll(across, -1, axis=1)) / 4 + noise[:, 0]
        heights[:, half::step, half::step] = centres
        heights[:, ::step, half::step] = (centres + np.roll(centres, 1, axis=1) + across) / 4 + noise[:, 1]
        down = corners + np.roll(corners, -1, axis=1)
        heights[:, half::step, ::step] = (centres + np.roll(centres, 1, axis=2) + down) / 4 + noise[:, 2]
        amplitude /= decay**2
        step = half
    heights -= heights.min(axis=(1, 2), keepdims=True)
    return np.asarray((heights / heights.max(axis=(1, 2), keepdims=True)).astype(np.float32))


FOG: dict[str, Corruption] = {
    "fog": Corruption(fog, ((0.2, 3.0), (0.5, 3.0), (0.75, 2.5), (1.0, 2.0), (1.5, 1.75)), "weather"),
}


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


WATER = np.array([175.0, 238.0, 238.0], dtype=np.float32)
MUD = np.array([63.0, 42.0, 20.0], dtype=np.float32)

_EMBOSS = np.array([[-2, -1, 0], [-1, 1, 1], [0, 1, 2]])
_BOX = np.full((3, 3), 1 / 9)
_WEAK_EDGE, _STRONG_EDGE = 50, 150
_LONGEST_DISTANCE = 20.0


def spatter(
    images: Array,
    draws: Draws,
    mean: float,
    std: float,
    sigma: float,
    threshold: float,
    amount: float,
    mud: float,
) -> Array:
    """Put drops where smoothed noise N(mean, std²) * G_sigma exceeds ``threshold``.

    Water (``mud`` = 0) brightens: x + m·turquoise, m ≤ ``amount`` the embossed drops of :func:`water_mask`.
    Mud covers: (1 − m)·x + m·brown, m the drops blurred by ``amount`` pixels, 0 where below 0.8. Drops are
    made at 32 pixels on the short side and enlarged for larger images. Departure: distances are exact where
    the recipe's are a chamfer approximation.
    """
    height, width = recipe_grid(images)
    liquid = gaussian(np.float32(mean) + np.float32(std) * draws.normal((height, width, 1)), sigma)
    liquid[liquid < threshold] = 0
    shape = (images.shape[1], images.shape[2])
    if not mud:
        mask = enlarge(np.float32(amount) * water_mask(liquid), shape)
        return np.asarray(images + mask * WATER)
    mask = gaussian(liquid > threshold, amount)
    mask[mask < 0.8] = 0
    mask = enlarge(mask, shape)
    return np.asarray((1 - mask) * images + mask * MUD)


def water_mask(liquid: Array) -> Array:
    """Return how brightly drops shine, in [0, 1] with maximum 1 in each image that has one, (n, h, w, 1).

    The distance to the drops' outlines (Canny), histogram-equalised and embossed from one side, times the
    liquid.
    """
    levels = to_levels(255 * liquid)
    distance = to_levels(correlate(_distance(outlines(levels[..., 0]))[..., None], _BOX))
    embossed = np.clip(correlate(equalise(distance), _EMBOSS), 0, 255)
    shine = levels * np.rint(correlate(embossed, _BOX))
    return np.asarray(shine / np.maximum(shine.max(axis=(1, 2, 3), keepdims=True), 1))


def outlines(levels: Array) -> Array:
    """Return the Canny edges of images (n, h, w) in 0..255 as booleans: Sobel, |gx| + |gy|, thresholds 50 and 150."""
    from scipy.ndimage import correlate1d, label

    smooth, slope = [1, 2, 1], [-1, 0, 1]
    values = levels.astype(np.int64)
    along_x = correlate1d(correlate1d(values, smooth, axis=1, mode="nearest"), slope, axis=2, mode="nearest")
    along_y = correlate1d(correlate1d(values, slope, axis=1, mode="nearest"), smooth, axis=2, mode="nearest")
    size = np.abs(along_x) + np.abs(along_y)
    ridge = (size > _WEAK_EDGE) & _is_ridge(size, along_x, along_y)
    within_image = np.zeros((3, 3, 3), dtype=bool)
    within_image[1] = True
    labels, n_labels = label(ridge, structure=within_image)
    kept = np.zeros(n_labels + 1, dtype=bool)
    kept[labels[ridge & (size > _STRONG_EDGE)]] = True
    kept[0] = False
    return np.asarray(kept[labels])


def equalise(levels: Array) -> Array:
    """Spread uint8 levels (n, h, w, 1) over 0..255 by their ranks in each image; a flat image stays as it is."""
    n_images, n_pixels = len(levels), int(np.prod(levels.shape[1:]))
    n_levels = int(levels.max(initial=0)) + 1
    image_of = np.repeat(np.arange(n_images), n_pixels)
    counts = np.bincount(image_of * n_levels + levels.ravel(), minlength=n_images * n_levels)
    counts = counts.reshape(n_images, n_levels)
    lowest = (counts > 0).argmax(axis=1)
    n_lowest = counts[np.arange(n_images), lowest]
    spread = np.maximum(n_pixels - n_lowest, 1)[:, None]
    table = np.rint(np.maximum(counts.cumsum(axis=1) - n_lowest[:, None], 0) * 255 / spread)
    flat = n_lowest == n_pixels
    table[flat] = np.arange(n_levels)
    return np.asarray(table.astype(np.float32)[image_of, levels.ravel()].reshape(levels.shape))


def _is_ridge(size: Array, along_x: Array, along_y: Array) -> Array:
    """Return where ``size`` is the largest of three in the direction of the gradient, one of four."""
    padded = np.pad(size, ((0, 0), (1, 1), (1, 1)))
    height, width = size.shape[1:]

    def neighbour(row: int, col: int) -> Array:
        return padded[:, 1 + row : 1 + row + height, 1 + col : 1 + col + width]

    flatness = np.abs(along_x) * np.tan(np.pi / 8)
    steepness = np.abs(along_x) * np.tan(3 * np.pi / 8)
    horizontal = np.abs(along_y) < flatness
    vertical = np.abs(along_y) > steepness
    falling = (along_x < 0) ^ (along_y < 0)
    return np.select(
        [horizontal, vertical, falling],
        [
            (size > neighbour(0, -1)) & (size >= neighbour(0, 1)),
            (size > neighbour(-1, 0)) & (size >= neighbour(1, 0)),
            (size > neighbour(-1, 1)) & (size > neighbour(1, -1)),
        ],
        default=(size > neighbour(-1, -1)) & (size > neighbour(1, 1)),
    )


def _distance(edges: Array) -> Array:
    from scipy.ndimage import distance_transform_edt

    if not edges.any():
        return np.full(edges.shape, _LONGEST_DISTANCE)
    # Images lie far apart along the first axis, so the nearest edge is found in the image itself if it has one.
    distance = distance_transform_edt(~edges, sampling=(1e6, 1.0, 1.0))
    return np.asarray(np.minimum(distance, _LONGEST_DISTANCE))


SPATTER: dict[str, Corruption] = {
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
