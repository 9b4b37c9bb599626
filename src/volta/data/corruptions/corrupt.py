"""Apply a corruption of the table to a batch of images."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from volta.core.errors import InputError
from volta.core.types import Array
from volta.data.corruptions.corruption import SEVERITIES, Corruption
from volta.data.corruptions.draws import Draws
from volta.data.corruptions.families import CORRUPTIONS
from volta.data.corruptions.levels import to_levels

SMALLEST_SIDE = 8

_VALUES_AT_ONCE = 1 << 20


def corrupt(
    images: Array,
    name: str,
    severity: int,
    *,
    seed: int = 0,
    first_index: int = 0,
    indices: ArrayLike | None = None,
) -> NDArray[np.uint8]:
    """Return ``images`` under one corruption of CIFAR-10-C; ``images`` itself is left as it is.

    Parameters
    ----------
    images
        uint8 RGB images (n, h, w, 3), h and w at least 8. Lengths of the recipe, which is made for 32×32,
        scale with the short side (:mod:`volta.data.corruptions.sizes`).
    name
        A key of ``CORRUPTIONS``.
    severity
        1 (mild) to 5 (strong).
    seed
        Seeds the random part. The same seed, index and image give the same bytes, however the images are
        batched.
    first_index
        Index of ``images[0]`` in its set, for images that follow one another.
    indices
        Index of each image in its set, (n,), for images that do not; ``first_index`` is then not used.

    References
    ----------
    Hendrycks & Dietterich (2019), Benchmarking Neural Network Robustness to Common Corruptions and Perturbations.
    """
    images = np.asarray(images)
    check_images(images)
    corruption = find_corruption(name)
    constants = corruption.severities[_check_severity(severity) - 1]
    numbers = _check_indices(len(images), first_index, indices)
    out = np.empty_like(images)
    n_at_once = max(1, _VALUES_AT_ONCE // int(np.prod(images.shape[1:])))
    for start in range(0, len(images), n_at_once):
        part = slice(start, start + n_at_once)
        values = corruption.apply(images[part], Draws(seed, name, numbers[part]), *constants)
        out[part] = to_levels(values)
    return out


def find_corruption(name: str) -> Corruption:
    """Return the corruption called ``name``, or say which names there are."""
    if name not in CORRUPTIONS:
        raise InputError(f"there is no corruption {name!r}; the corruptions are: {', '.join(CORRUPTIONS)}")
    return CORRUPTIONS[name]


def check_images(images: Array) -> None:
    """Refuse what is not a batch of uint8 RGB images of at least 8×8 pixels."""
    if images.dtype != np.uint8:
        raise InputError(
            f"images has dtype {images.dtype}; pass uint8 levels 0..255 (from [0, 1]: np.uint8(np.rint(255 * images)))"
        )
    if images.ndim != 4 or images.shape[3] != 3:
        raise InputError(
            f"images has shape {images.shape}; pass RGB images as (n, h, w, 3)"
            " (from (n, 3, h, w): images.transpose(0, 2, 3, 1))"
        )
    if min(images.shape[1:3]) < SMALLEST_SIDE:
        raise InputError(
            f"images is {images.shape[1]}×{images.shape[2]} pixels; pass at least {SMALLEST_SIDE}×{SMALLEST_SIDE}"
        )


def _check_severity(severity: int) -> int:
    if isinstance(severity, bool) or severity not in SEVERITIES:
        raise InputError(f"severity is {severity!r}; pass a whole number from 1 (mild) to 5 (strong)")
    return int(severity)


def _check_indices(n_images: int, first_index: int, indices: ArrayLike | None) -> Sequence[int]:
    if indices is None:
        if not isinstance(first_index, int | np.integer) or first_index < 0:
            raise InputError(
                f"first_index is {first_index!r}; pass the position of the first image in its set, 0 or more"
            )
        return range(first_index, first_index + n_images)
    numbers = np.asarray(indices)
    if numbers.shape != (n_images,) or (n_images and not np.issubdtype(numbers.dtype, np.integer)):
        raise InputError(
            f"indices is {numbers.dtype} of shape {numbers.shape}; pass one whole number an image ({n_images})"
        )
    if (numbers < 0).any():
        raise InputError(f"indices holds {numbers.min()}; pass positions in the set, 0 or more")
    return [int(number) for number in numbers]
