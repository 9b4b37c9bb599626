"""Elastic distortion, pixelation and JPEG compression."""

from __future__ import annotations

from io import BytesIO

import numpy as np

from volta.core.types import Array
from volta.data.corruptions.corruption import Corruption
from volta.data.corruptions.draws import Draws
from volta.data.corruptions.resample import sample
from volta.data.corruptions.sizes import length_scale


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
    the side is kept, s of :func:`~volta.data.corruptions.sizes.length_scale` (ratio 0.65 at 224 pixels: 0.21;
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
