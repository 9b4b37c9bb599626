"""Spatter: drops of water, or of mud, on the lens."""

from __future__ import annotations

import numpy as np

from volta.core.types import Array
from volta.data.corruptions.corruption import Corruption
from volta.data.corruptions.draws import Draws
from volta.data.corruptions.filters import correlate, gaussian
from volta.data.corruptions.levels import to_levels
from volta.data.corruptions.resample import enlarge
from volta.data.corruptions.sizes import recipe_grid

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
