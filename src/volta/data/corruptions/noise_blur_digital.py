"""Noise, blur, colour and digital corruptions."""

from __future__ import annotations

from io import BytesIO

import numpy as np

from volta.core.types import Array
from volta.data.corruptions.common import (
    Corruption,
    Draws,
    correlate,
    disc_kernel,
    gaussian,
    length_scale,
    mean_zoom,
    sample,
    smear,
    to_levels,
)


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
    shifts = _smooth(noise, sigma * side) * (strength * side)
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


def _smooth(noise: Array, sigma: float) -> Array:
    from scipy.ndimage import gaussian_filter

    return np.asarray(gaussian_filter(noise, (0.0, sigma, sigma, 0.0), mode="reflect", truncate=3.0))


DIGITAL: dict[str, Corruption] = {
    "elastic_transform": Corruption(
        elastic_transform,
        ((0.0, 0.0, 0.08), (0.05, 0.2, 0.07), (0.08, 0.06, 0.06), (0.1, 0.04, 0.05), (0.1, 0.03, 0.03)),
        "digital",
    ),
    "pixelate": Corruption(pixelate, ((0.95,), (0.9,), (0.85,), (0.75,), (0.65,)), "digital"),
    "jpeg_compression": Corruption(jpeg_compression, ((80,), (65,), (58,), (50,), (40,)), "digital"),
}
