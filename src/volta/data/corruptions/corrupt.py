"""The nineteen corruptions of CIFAR-10-C: their table, corrupted test sets of a task, and a contact sheet.

The constants are the public recipe's, kept where its severities are no ladder, so that results stay
comparable with published ones. Measured as distance to the clean image: ``elastic_transform`` grows gentler
from 1 to 5 (each severity distorts more finely, and shears less); ``glass_blur`` falls from 1 to 3 and from 4
to 5 (the blur smooths what the shuffle has roughened); ``saturate`` fades at 1 and 2 and strengthens from 3
on; ``spatter`` changes from water to mud at 4; ``frost`` darkens the image as it adds ice from 3 on, so there
the correlation with the clean image falls steadily and the distance does not grow; ``motion_blur`` is the
same at 3 and 4 but for its last, negligible taps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from volta.core.cache import ArrayCache
from volta.core.errors import InputError
from volta.core.files import hash_array, write_rows
from volta.core.fingerprints import fingerprint
from volta.core.seeding import SPLIT_SEED
from volta.core.types import Array, Split
from volta.data.arrays import read_npy
from volta.data.corruptions.common import SEVERITIES, Corruption, Draws, to_levels
from volta.data.corruptions.recipes import BLURS, COLOURS, DIGITAL, FOG, FROST, NOISES, SNOW, SPATTER
from volta.data.task_builder import LazyMapping, RawSets

_FAMILIES = NOISES | BLURS | SNOW | FROST | FOG | COLOURS | DIGITAL | SPATTER

CORRUPTIONS: dict[str, Corruption] = dict(sorted(_FAMILIES.items(), key=lambda item: item[1].extra))
"""By name, the fifteen of the benchmark first, then the extra ones."""

CORRUPTION_NAMES = tuple(CORRUPTIONS)
"""``NAME-SEVERITY`` names a corrupted test set."""


SMALLEST_SIDE = 8

_VALUES_AT_ONCE = 1 << 20


def corrupt(
    images: Array,
    name: str,
    severity: int,
    *,
    seed: int = 0,
    indices: Sequence[int] | NDArray[np.int64] | None = None,
) -> NDArray[np.uint8]:
    """Return ``images`` under one corruption of CIFAR-10-C; ``images`` itself is left as it is.

    Parameters
    ----------
    images
        uint8 RGB images (n, h, w, 3), h and w at least 8. Lengths of the recipe, which is made for 32×32,
        scale with the short side (:mod:`volta.data.corruptions.common`).
    name
        A key of ``CORRUPTIONS``.
    severity
        1 (mild) to 5 (strong).
    seed
        Seeds the random part. The same seed, index and image give the same bytes, however the images are
        batched.
    indices
        Index of each image in its set, (n,); 0, 1, … unless given.

    References
    ----------
    Hendrycks & Dietterich (2019), Benchmarking Neural Network Robustness to Common Corruptions and Perturbations.
    """
    if min(images.shape[1:3]) < SMALLEST_SIDE:
        raise InputError(
            f"images is {images.shape[1]}×{images.shape[2]} pixels; pass at least {SMALLEST_SIDE}×{SMALLEST_SIDE}"
        )
    corruption = CORRUPTIONS[name]
    constants = corruption.severities[severity - 1]
    numbers = range(len(images)) if indices is None else indices
    out = np.empty_like(images)
    n_at_once = max(1, _VALUES_AT_ONCE // int(np.prod(images.shape[1:])))
    for start in range(0, len(images), n_at_once):
        part = slice(start, start + n_at_once)
        values = corruption.apply(images[part], Draws(seed, name, numbers[part]), *constants)
        out[part] = to_levels(values)
    return out


GAP = 1
GAP_LEVEL = 255


def contact_sheet(image: Array, *, seed: int = 0) -> NDArray[np.uint8]:
    """Return a uint8 image (h, w, 3) under the 19 corruptions (rows) at the 5 severities (columns), with white gaps."""
    return lay_out(
        [[corrupt(image[None], name, severity, seed=seed)[0] for severity in SEVERITIES] for name in CORRUPTION_NAMES]
    )


def lay_out(rows: Sequence[Sequence[Array]]) -> NDArray[np.uint8]:
    """Return tiles (h, w, 3) of one size as one image, row by row, with 1-pixel white gaps."""
    height, width = rows[0][0].shape[0] + GAP, rows[0][0].shape[1] + GAP
    sheet = np.full((len(rows) * height - GAP, len(rows[0]) * width - GAP, 3), GAP_LEVEL, dtype=np.uint8)
    for row, tiles in enumerate(rows):
        for column, tile in enumerate(tiles):
            sheet[row * height :, column * width :][: len(tile), : tile.shape[1]] = tile
    return sheet


_CHUNK_ROWS = 1000

Labels = NDArray[np.int64]


def official_shifts(folder: Path, severities: tuple[int, ...], test: Split) -> LazyMapping[Split]:
    """Return the shifts of an unpacked CIFAR-10-C: per corruption one npy of 5 × n images, the mildest severity first.

    n is the number of test rows, and ``labels.npy`` must repeat the test labels five times.
    """
    labels = _open(folder / "labels.npy")
    if labels.shape != (5 * len(test),) or not np.array_equal(labels.reshape(5, -1), np.tile(test.labels, (5, 1))):
        raise InputError(f"{folder / 'labels.npy'} does not hold the test labels five times; fetch the archive again")
    return _each(partial(_read_official, folder, test.labels), severities)


def generated_shifts(
    test: Split, severities: tuple[int, ...], cache_root: Path, rows: NDArray[np.int64] | None = None
) -> LazyMapping[Split]:
    """Return the shifts made from the test pixels by :func:`~volta.data.corruptions.corrupt`, each cached once made.

    With ``rows`` only those are made, each as it is in the whole set. The cache is keyed by the pixels, their places,
    the corruption, the severity and the code that makes it.
    """
    numbers = np.arange(len(test)) if rows is None else rows
    made_of = test if rows is None else test.take(rows)
    places = hash_array(made_of.inputs) + ("" if rows is None else hash_array(numbers))
    return _each(partial(_generate, ArrayCache(cache_root / "corrupted"), places, made_of, numbers), severities)


def sheet_of(sets: RawSets) -> NDArray[np.uint8] | None:
    """Return the first test image under all 19 corruptions at all 5 severities, or None if the task has none.

    ``sets`` must have been asked for with every severity; generated images are made here for the one row.
    """
    if sets.corruptions == "none":
        return None
    if sets.corruptions == "generated":
        return contact_sheet(sets.parts["test"].inputs[0].transpose(1, 2, 0), seed=SPLIT_SEED)
    return lay_out(
        [
            [sets.shifts[f"{name}-{severity}"].inputs[0].transpose(1, 2, 0) for severity in SEVERITIES]
            for name in CORRUPTION_NAMES
        ]
    )


def _read_official(folder: Path, labels: Labels, name: str, severity: int) -> Split:
    path = folder / f"{name}.npy"
    images = _open(path)
    n_rows = len(labels)
    if images.shape != (5 * n_rows, 32, 32, 3) or images.dtype != np.uint8:
        raise InputError(
            f"{path} has shape {images.shape} and {images.dtype}, expected ({5 * n_rows}, 32, 32, 3) uint8; "
            "fetch the archive again"
        )
    rows = images[(severity - 1) * n_rows : severity * n_rows]
    return Split(rows.transpose(0, 3, 1, 2), labels)


def _generate(
    arrays: ArrayCache, images_hash: str, test: Split, numbers: NDArray[np.int64], name: str, severity: int
) -> Split:
    parts = {
        "what": "corrupted images",
        "images": images_hash,
        "corruption": name,
        "severity": severity,
        "seed": SPLIT_SEED,
        "code": fingerprint([_corrupted]),
    }

    def write(path: Path) -> Mapping[str, Any]:
        write_rows(path, np.dtype(np.uint8), test.inputs.shape, _corrupted(test.inputs, numbers, name, severity))
        return {}

    return Split(arrays.obtain(parts, write).array, test.labels)


def _each(make: Callable[[str, int], Split], severities: tuple[int, ...]) -> LazyMapping[Split]:
    return LazyMapping(
        {f"{name}-{severity}": partial(make, name, severity) for name in CORRUPTION_NAMES for severity in severities}
    )


def _corrupted(images: Array, numbers: NDArray[np.int64], name: str, severity: int) -> Iterator[Array]:
    for start in range(0, len(images), _CHUNK_ROWS):
        rows = np.ascontiguousarray(images[start : start + _CHUNK_ROWS].transpose(0, 2, 3, 1))
        changed = corrupt(rows, name, severity, seed=SPLIT_SEED, indices=numbers[start : start + _CHUNK_ROWS])
        yield changed.transpose(0, 3, 1, 2)


def _open(path: Path) -> Array:
    if not path.is_file():
        raise InputError(f"{path} is missing from the archive's folder; fetch the archive again")
    try:
        return read_npy(path)
    except InputError as error:
        raise InputError(f"{path} is not a whole npy file ({error}); fetch the archive again") from error
