"""The nineteen corruptions of CIFAR-10-C: noise, blur, colour, digital and weather, each with its five severities."""

from __future__ import annotations

import math
from functools import lru_cache
from io import BytesIO
from typing import TYPE_CHECKING

import numpy as np

from volta.core.seeding import rng
from volta.core.types import Array
from volta.data.corruptions.common import (
    Corruption,
    Draws,
    correlate,
    disc_kernel,
    enlarge,
    gaussian,
    length_scale,
    mean_zoom,
    recipe_grid,
    sample,
    smear,
    to_levels,
)

if TYPE_CHECKING:
    from PIL.ImageDraw import ImageDraw


def gaussian_noise(images: Array, draws: Draws, std: float) -> Array:
    """Add noise of a fixed size: x + std·ε, ε ~ N(0, 1), x in [0, 1]."""
    return images + np.float32(255 * std) * draws.normal(images.shape[1:])


def shot_noise(images: Array, draws: Draws, photons: float) -> Array:
    """Count photons: Poisson(x·photons)/photons, x in [0, 1]; fewer photons, more noise."""
    counts = draws.poisson(images * (photons / 255))
    return np.asarray(counts * np.float32(255 / photons))


def impulse_noise(images: Array, draws: Draws, share: float) -> Array:
    """Set a ``share`` of the values, each with even odds, to 0 or to 255 (salt and pepper in each channel)."""
    draw = draws.uniform(0.0, 1.0, images.shape[1:])
    out = np.where(draw < share / 2, np.uint8(0), images)
    return np.where(draw >= 1 - share / 2, np.uint8(255), out)


def speckle_noise(images: Array, draws: Draws, std: float) -> Array:
    """Add noise in proportion to the value: x + x·std·ε, ε ~ N(0, 1)."""
    return images * (1 + np.float32(std) * draws.normal(images.shape[1:]))


NOISES: dict[str, Corruption] = {
    "gaussian_noise": Corruption(gaussian_noise, ((0.04,), (0.06,), (0.08,), (0.09,), (0.10,)), "noise"),
    "shot_noise": Corruption(shot_noise, ((500,), (250,), (100,), (75,), (50,)), "noise"),
    "impulse_noise": Corruption(impulse_noise, ((0.01,), (0.02,), (0.03,), (0.05,), (0.07,)), "noise"),
    "speckle_noise": Corruption(speckle_noise, ((0.06,), (0.1,), (0.12,), (0.16,), (0.2,)), "noise", extra=True),
}


def gaussian_blur(images: Array, draws: Draws, sigma: float) -> Array:
    """Blur with a Gaussian of ``sigma`` pixels."""
    return gaussian(images, sigma * length_scale(images))


def defocus_blur(images: Array, draws: Draws, radius: float, softness: float) -> Array:
    """Blur with a disc of ``radius`` pixels whose rim is softened by a Gaussian of ``softness`` pixels.

    The radius scales with the image, the softness of the rim does not.
    """
    return correlate(images, disc_kernel(radius * length_scale(images), softness))


def glass_blur(images: Array, draws: Draws, sigma: float, reach: float, rounds: float) -> Array:
    """Blur, let every inner pixel take the value of a random neighbour, ``rounds`` times, and blur again.

    x'(p) = x(p + δ), δ uniform on {−d, .., d − 1}², d = ``reach``. The recipe's program sets out to swap the
    two pixels, but its assignment overwrites the second before reading it, so what the published images show
    is this copy; for d = 1 it is the same pixel for pixel.
    """
    scale = length_scale(images)
    reach_px = max(1, round(reach * scale))
    height, width = images.shape[1:3]
    shuffled = to_levels(gaussian(images, sigma * scale))
    rows, cols = np.arange(reach_px + 1, height - reach_px + 1), np.arange(reach_px + 1, width - reach_px + 1)
    starts = np.arange(len(images))[:, None, None] * (height * width)
    for _ in range(int(rounds)):
        delta = draws.integers(2 * reach_px, (2, len(rows), len(cols))) - reach_px
        sources = (rows[:, None] + delta[:, 0]) * width + cols + delta[:, 1] + starts
        moved = shuffled.reshape(-1, 3).take(sources, axis=0)
        shuffled[:, rows[0] : rows[-1] + 1, cols[0] : cols[-1] + 1] = moved
    return gaussian(shuffled, sigma * scale)


def motion_blur(images: Array, draws: Draws, radius: float, sigma: float) -> Array:
    """Smear one way, with Gaussian decay ``sigma``, at an angle uniform on [−45°, 45°)."""
    scale = length_scale(images)
    # Rounded, not cut, to whole levels: ImageMagick's way.
    return np.rint(smear(images, radius * scale, sigma * scale, draws.uniform(-45.0, 45.0)))


def zoom_blur(images: Array, draws: Draws, percent: float) -> Array:
    """Average the image, twice, with its enlargements by 1 %, 2 %, .., ``percent`` %."""
    # The recipe's factors come from a float range, whose last bit decides how half a pixel is rounded.
    one_percent = 1.01 - 1
    return mean_zoom(images, (1.0, *(1 + step * one_percent for step in range(int(percent) + 1))))


BLURS: dict[str, Corruption] = {
    "defocus_blur": Corruption(defocus_blur, ((0.3, 0.4), (0.4, 0.5), (0.5, 0.6), (1.0, 0.2), (1.5, 0.1)), "blur"),
    "glass_blur": Corruption(glass_blur, ((0.05, 1, 1), (0.25, 1, 1), (0.4, 1, 1), (0.25, 1, 2), (0.4, 1, 2)), "blur"),
    "motion_blur": Corruption(motion_blur, ((6, 1.0), (6, 1.5), (6, 2.0), (8, 2.0), (9, 2.5)), "blur"),
    "zoom_blur": Corruption(zoom_blur, ((6,), (11,), (15,), (20,), (25,)), "blur"),
    "gaussian_blur": Corruption(gaussian_blur, ((0.4,), (0.6,), (0.7,), (0.8,), (1.0,)), "blur", extra=True),
}


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


def elastic_transform(images: Array, draws: Draws, strength: float, sigma: float, jitter: float) -> Array:
    """Move the corners of a triangle at random (an affine map), then every pixel by a smooth random displacement.

    The triangle's corners lie a third of the short side S from the centre and move by U[−1, 1)·jitter·S in x
    and in y. The displacement is strength·S·(G * u), u ~ U[−1, 1) for each pixel and axis, G a Gaussian of
    sigma·S pixels. All three constants are shares of S, at every size. Both steps are bilinear and mirrored
    at the edges.
    """
    from scipy.ndimage import gaussian_filter

    height, width = images.shape[1:3]
    side = min(height, width)
    centre, arm = np.array([width // 2, height // 2]), side // 3
    corners = centre + arm * np.array([[1, 1], [1, -1], [-1, -1]])
    moved = corners + draws.uniform(-1.0, 1.0, (3, 2)) * (jitter * side)
    ones = np.ones((len(images), 3, 1))
    # The map from the new picture back to the old: the affine map that takes the moved corners to the corners.
    affine = np.linalg.solve(np.concatenate([moved, ones], axis=2), np.broadcast_to(corners, moved.shape))
    rows, cols = (axis.astype(np.float64) for axis in np.indices((height, width)))
    x, y = (
        affine[:, 0, axis, None, None] * cols + affine[:, 1, axis, None, None] * rows + affine[:, 2, axis, None, None]
        for axis in (0, 1)
    )
    tilted = sample(images, y, x, edge="mirror")
    if strength == 0:
        return tilted
    noise = draws.uniform(-1.0, 1.0, (height, width, 2))
    smooth = gaussian_filter(noise, (0.0, sigma * side, sigma * side, 0.0), mode="reflect", truncate=3.0)
    shifts = smooth * (strength * side)
    return sample(tilted, rows + shifts[..., 1], cols + shifts[..., 0], edge="reflect")


def pixelate(images: Array, draws: Draws, ratio: float) -> Array:
    """Shrink the image to ``ratio`` of its side and enlarge it again, both with a box filter.

    What scales with larger images is how much a block's side exceeds one pixel: 1/(1 + (1/ratio − 1)·s) of
    the side is kept, s of :func:`~volta.data.corruptions.common.length_scale` (ratio 0.65 at 224 pixels: 0.21;
    ImageNet-C: 0.25).
    """
    from PIL import Image

    height, width = images.shape[1:3]
    kept = 1 / (1 + (1 / ratio - 1) * length_scale(images)) if length_scale(images) > 1 else ratio
    small = (max(1, int(width * kept)), max(1, int(height * kept)))
    out = np.empty_like(images)
    for source, target in zip(images, out, strict=True):
        reduced = Image.fromarray(source).resize(small, Image.Resampling.BOX)
        target[...] = np.asarray(reduced.resize((width, height), Image.Resampling.BOX))
    return out


def jpeg_compression(images: Array, draws: Draws, quality: float) -> Array:
    """Encode as JPEG at ``quality`` (Pillow's defaults: 4:2:0 chroma) and decode."""
    from PIL import Image

    out = np.empty_like(images)
    for source, target in zip(images, out, strict=True):
        file = BytesIO()
        Image.fromarray(source).save(file, "JPEG", quality=int(quality))
        with Image.open(file) as decoded:
            target[...] = np.asarray(decoded)
    return out


DIGITAL: dict[str, Corruption] = {
    "elastic_transform": Corruption(
        elastic_transform,
        ((0.0, 0.0, 0.08), (0.05, 0.2, 0.07), (0.08, 0.06, 0.06), (0.1, 0.04, 0.05), (0.1, 0.03, 0.03)),
        "digital",
    ),
    "pixelate": Corruption(pixelate, ((0.95,), (0.9,), (0.85,), (0.75,), (0.65,)), "digital"),
    "jpeg_compression": Corruption(jpeg_compression, ((80,), (65,), (58,), (50,), (40,)), "digital"),
}


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
