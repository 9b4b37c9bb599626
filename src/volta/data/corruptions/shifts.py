"""Test images under the nineteen corruptions: CIFAR-10-C read in place, or generated here and kept in the cache."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from volta.core.cache import ArrayCache
from volta.core.errors import InputError
from volta.core.files import hash_array, hash_text, write_rows
from volta.core.seeding import SPLIT_SEED
from volta.core.types import Array, Split
from volta.data.corruptions.corrupt import corrupt
from volta.data.corruptions.corruption import SEVERITIES
from volta.data.corruptions.families import CORRUPTION_NAMES
from volta.data.corruptions.sheet import contact_sheet, lay_out
from volta.data.formats.array_files import read_npy
from volta.data.raw_sets import LazyMapping, RawSets

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
        "code": _code_stamp(),
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


@cache
def _code_stamp() -> str:
    files = sorted(Path(__file__).parent.rglob("*.py"))
    return hash_text("".join(path.read_text(encoding="utf-8") for path in files))


def _open(path: Path) -> Array:
    if not path.is_file():
        raise InputError(f"{path} is missing from the archive's folder; fetch the archive again")
    try:
        return read_npy(path)
    except InputError as error:
        raise InputError(f"{path} is not a whole npy file ({error}); fetch the archive again") from error
