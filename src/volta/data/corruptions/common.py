"""What corruptions share: their type, random numbers per image, length scales, filters, resampling."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from volta.core.seeding import rng
from volta.core.types import Array

if TYPE_CHECKING:
    from scipy.sparse import csr_array


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


class Draws:
    """One stream of random numbers for each image of a batch.

    The severity is no part of the stream: the five severities of an image share their draws wherever the
    number of draws allows it (noise at severity 5 is severity 1's noise, amplified), so severities differ by
    strength alone.
    """

    def __init__(self, seed: int, name: str, indices: Sequence[int] | NDArray[np.int64]) -> None:
        self.seed = seed
        self.name = name
        self.indices = indices

    def __len__(self) -> int:
        return len(self.indices)

    @cached_property
    def _streams(self) -> list[np.random.Generator]:
        return [rng(self.seed, "corruption", self.name, int(index)) for index in self.indices]

    def normal(self, shape: tuple[int, ...]) -> Array:
        """Return N(0, 1) draws of ``shape`` for each image, (n, ...) float32."""
        draws = np.empty((len(self), *shape), dtype=np.float32)
        for stream, row in zip(self._streams, draws, strict=True):
            stream.standard_normal(out=row, dtype=np.float32)
        return draws

    def uniform(self, low: float, high: float, shape: tuple[int, ...] = ()) -> Array:
        """Return U[low, high) draws of ``shape`` for each image, (n, ...) float64."""
        return self._each(lambda stream: stream.uniform(low, high, shape), shape, np.float64)

    def integers(self, high: int, shape: tuple[int, ...] = ()) -> Array:
        """Return integers drawn evenly from 0 .. ``high`` − 1 for each image, (n, ...) int64."""
        return self._each(lambda stream: stream.integers(high, size=shape), shape, np.int64)

    def poisson(self, means: Array) -> Array:
        """Return one Poisson count for each entry of ``means`` (n, ...), as float32."""
        counts = np.empty(means.shape, dtype=np.float32)
        for stream, row, mean in zip(self._streams, counts, means, strict=True):
            row[...] = stream.poisson(mean)
        return counts

    def _each(
        self, draw: Callable[[np.random.Generator], Array], shape: tuple[int, ...], dtype: type[np.generic]
    ) -> Array:
        draws = np.empty((len(self), *shape), dtype=dtype)
        for position, stream in enumerate(self._streams):
            draws[position] = draw(stream)
        return draws


_SLACK = 1 / 256


def to_levels(values: Array) -> NDArray[np.uint8]:
    """Clip to 0..255 and cut to whole levels, as the recipe does: no rounding.

    1/256 of a level of slack keeps a value that is whole but for float error, 254.99999, from losing its
    level.
    """
    if values.dtype == np.uint8:
        return values
    return np.clip(values + _SLACK, 0, 255).astype(np.uint8)


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


_NEGLIGIBLE_WEIGHT = 1e-5


def gaussian(images: Array, sigma: float) -> Array:
    """Return ``images`` under a Gaussian of ``sigma`` pixels, cut at 4 sigma, edge pixels repeated outwards."""
    from scipy.ndimage import gaussian_filter

    spatial = (0.0, sigma, sigma, 0.0)
    return np.asarray(gaussian_filter(images.astype(np.float32), spatial, mode="nearest", truncate=4.0))


def disc_kernel(radius: float, softness: float) -> Array:
    """Return the normalised disc {x² + y² ≤ radius²}, softened by a Gaussian of ``softness`` over 3×3 (5×5 above 8)."""
    from scipy.ndimage import correlate1d

    reach = 1 if radius <= 8 else 2
    half = math.floor(radius) + reach
    offsets = np.arange(-half, half + 1)
    disc = (offsets[:, None] ** 2 + offsets[None, :] ** 2 <= radius**2).astype(np.float64)
    taps = np.exp(-(np.arange(-reach, reach + 1) ** 2) / (2 * softness**2))
    taps /= taps.sum()
    for axis in (0, 1):
        disc = correlate1d(disc, taps, axis=axis, mode="constant")
    return np.asarray(disc / disc.sum())


def correlate(images: Array, kernel: Array) -> Array:
    """Return ``images`` correlated with a small (k, k) kernel, mirrored at the edges without repeating the edge."""
    rows, cols = (size // 2 for size in kernel.shape)
    height, width = images.shape[1:3]
    padded = np.pad(images.astype(np.float32), ((0, 0), (rows, rows), (cols, cols), (0, 0)), mode="reflect")
    out = np.zeros(images.shape, dtype=np.float32)
    for (row, col), weight in np.ndenumerate(kernel):
        if weight != 0:
            out += np.float32(weight) * padded[:, row : row + height, col : col + width]
    return out


def smear(images: Array, radius: float, sigma: float, angles: Array) -> Array:
    """Return ``images`` smeared one way along ``angles`` (n,) in degrees, edge pixels repeated outwards.

    out(p) = Σ_i k_i · image(p + round(i·(cos θ, sin θ))), k_i ∝ exp(−i²/(2σ²)), i = 0 .. 2⌈radius⌉: half a
    Gaussian, which is ImageMagick's motion blur. Taps that weigh less than 1e-5 are left out.
    """
    steps = np.arange(2 * math.ceil(radius) + 1)
    weights = np.exp(-(steps**2) / (2 * sigma**2))
    weights /= weights.sum()
    steps, weights = steps[weights >= _NEGLIGIBLE_WEIGHT], weights[weights >= _NEGLIGIBLE_WEIGHT]
    weights = (weights / weights.sum()).astype(np.float32)

    height, width = images.shape[1:3]
    reach = int(steps[-1])
    padded = np.pad(images.astype(np.float32), ((0, 0), (reach, reach), (reach, reach), (0, 0)), mode="edge")
    radians = np.deg2rad(angles)[:, None]
    # ceil(v − 1/2) rounds halves down, as ImageMagick places its taps.
    rows = np.ceil(steps * np.sin(radians) - 0.5).astype(np.int64) + reach
    cols = np.ceil(steps * np.cos(radians) - 0.5).astype(np.int64) + reach
    out = np.zeros(images.shape, dtype=np.float32)
    for target, source, image_rows, image_cols in zip(out, padded, rows, cols, strict=True):
        for row, col, weight in zip(image_rows, image_cols, weights, strict=True):
            target[...] += weight * source[row : row + height, col : col + width]
    return out


Edge = Literal["mirror", "reflect"]


def mean_zoom(images: Array, factors: tuple[float, ...]) -> Array:
    """Return the mean over ``factors`` ≥ 1 of ``images`` (n, h, w, c) enlarged about their centre and cropped back."""
    return _apply(_mean_zoom_matrix(*images.shape[1:3], factors), images, images.shape[1:3])


def enlarge(images: Array, shape: tuple[int, int]) -> Array:
    """Return ``images`` (n, h, w, c) stretched to ``shape``, corners on corners; the same array where it fits."""
    if images.shape[1:3] == shape:
        return images
    return _apply(_enlarge_matrix(images.shape[1], images.shape[2], *shape), images, shape)


def sample(images: Array, rows: Array, cols: Array, edge: Edge) -> Array:
    """Return ``images`` (n, h, w, c) read at the real positions ``rows``, ``cols`` (n, h', w'), bilinearly.

    Outside, the image is mirrored about the centre of the edge pixel (``mirror``) or its outer side
    (``reflect``).
    """
    n_images, height, width, channels = images.shape
    flat = images.astype(np.float32, copy=False).reshape(-1, channels)
    first_row, first_col = np.floor(rows).astype(np.int64), np.floor(cols).astype(np.int64)
    row_share = (rows - first_row).astype(np.float32)[..., None]
    col_share = (cols - first_col).astype(np.float32)[..., None]
    offsets = np.arange(n_images)[:, None, None] * (height * width)
    row_starts = [_fold(first_row + step, height, edge) * width + offsets for step in (0, 1)]
    col_positions = [_fold(first_col + step, width, edge) for step in (0, 1)]
    upper, lower = (
        (1 - col_share) * flat.take(start + col_positions[0], axis=0)
        + col_share * flat.take(start + col_positions[1], axis=0)
        for start in row_starts
    )
    return np.asarray((1 - row_share) * upper + row_share * lower)


def _fold(positions: Array, size: int, edge: Edge) -> Array:
    if edge == "mirror":
        period = 2 * (size - 1)
        folded = np.abs(positions) % period
        return np.asarray(np.minimum(folded, period - folded))
    folded = positions % (2 * size)
    return np.asarray(np.minimum(folded, 2 * size - 1 - folded))


def _apply(matrix: csr_array, images: Array, shape: tuple[int, ...]) -> Array:
    # Pixels as rows: a sparse product adds up each column on its own and in a fixed order, so that, unlike a dense
    # product, its last bit does not depend on how many images come together.
    n_images, height, width, channels = images.shape
    pixels = np.ascontiguousarray(images.astype(np.float32, copy=False).reshape(n_images, -1, channels).swapaxes(0, 1))
    out = matrix @ pixels.reshape(height * width, -1)
    return np.ascontiguousarray(out.reshape(-1, n_images, channels).swapaxes(0, 1)).reshape(n_images, *shape, channels)


@lru_cache(maxsize=16)
def _mean_zoom_matrix(height: int, width: int, factors: tuple[float, ...]) -> csr_array:
    from scipy.sparse import csr_array, kron

    total = csr_array((height * width, height * width), dtype=np.float32)
    for factor in factors:
        rows, cols = (_interpolation(_zoom_positions(size, factor), size) for size in (height, width))
        total = total + kron(rows, cols, format="csr")
    return csr_array(total / np.float32(len(factors)))


@lru_cache(maxsize=16)
def _enlarge_matrix(height: int, width: int, new_height: int, new_width: int) -> csr_array:
    from scipy.sparse import csr_array, kron

    rows = _interpolation(np.linspace(0, height - 1, new_height), height)
    cols = _interpolation(np.linspace(0, width - 1, new_width), width)
    return csr_array(kron(rows, cols, format="csr"))


def _zoom_positions(size: int, factor: float) -> Array:
    """Return where the ``size`` pixels of the zoomed image lie in the original.

    The central ⌈size/factor⌉ pixels are stretched to round(⌈size/factor⌉·factor) pixels, ends on ends, and
    the surplus is trimmed from both sides.
    """
    crop = math.ceil(size / factor)
    stretched = round(crop * factor)
    positions = np.arange(stretched) * ((crop - 1) / (stretched - 1)) + (size - crop) // 2
    trim = (stretched - size) // 2
    return np.asarray(positions[trim : trim + size])


def _interpolation(positions: Array, size: int) -> csr_array:
    from scipy.sparse import csr_array

    first = np.clip(np.floor(positions).astype(np.int64), 0, size - 2)
    share = positions - first
    rows = np.arange(len(positions))
    weights = np.concatenate([1 - share, share]).astype(np.float32)
    entries = (weights, (np.tile(rows, 2), np.concatenate([first, first + 1])))
    matrix = csr_array(entries, shape=(len(positions), size))
    matrix.eliminate_zeros()
    return matrix
