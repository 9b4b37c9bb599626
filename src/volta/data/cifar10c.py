"""CIFAR-10-C: the official archive read through memory maps, or the same corruptions generated here and cached."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from volta.core.errors import InputError
from volta.core.files import atomic_path, hash_array, hash_text
from volta.core.seeding import SPLIT_SEED
from volta.core.types import Array, Split
from volta.data.options import SEVERITIES
from volta.data.rows import LazyMapping, RawSets

CORRUPTION_NAMES = (
    "gaussian_noise",
    "shot_noise",
    "impulse_noise",
    "defocus_blur",
    "glass_blur",
    "motion_blur",
    "zoom_blur",
    "snow",
    "frost",
    "fog",
    "brightness",
    "contrast",
    "elastic_transform",
    "pixelate",
    "jpeg_compression",
    "speckle_noise",
    "gaussian_blur",
    "saturate",
    "spatter",
)
"""The 19 corruptions in the order of the table that makes them; «NAME-SEVERITY» names a shift."""

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


def generated_shifts(test: Split, severities: tuple[int, ...], cache: Path) -> LazyMapping[Split]:
    """Return the shifts made from the test pixels by :mod:`volta.data.corruptions`, each cached as npy once made.

    The cache is keyed by the pixels, the corruption, the severity and the code that makes it.
    """
    base = hash_text(hash_array(test.inputs) + _code_stamp())[:24]

    return _each(partial(_generate, cache / "corrupted", base, test), severities)


def sheet_of(sets: RawSets) -> NDArray[np.uint8] | None:
    """Return the first test image under all 19 corruptions at all 5 severities, or None if the task has none.

    ``sets`` must have been asked for with every severity; generated images are made here for the one row.
    """
    from volta.data.corruptions.sheet import contact_sheet, lay_out

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


def _generate(folder: Path, base: str, test: Split, name: str, severity: int) -> Split:
    path = folder / f"{name}-{severity}-{base}.npy"
    if not path.is_file():
        _write_corrupted(path, test.inputs, name, severity)
    return Split(_open(path), test.labels)


def _each(make: Callable[[str, int], Split], severities: tuple[int, ...]) -> LazyMapping[Split]:
    return LazyMapping(
        {f"{name}-{severity}": partial(make, name, severity) for name in CORRUPTION_NAMES for severity in severities}
    )


def _write_corrupted(path: Path, images: Array, name: str, severity: int) -> None:
    from volta.data.corruptions import corrupt

    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_path(path) as temporary:
        out = np.lib.format.open_memmap(temporary, mode="w+", dtype=np.uint8, shape=images.shape)
        for start in range(0, len(images), _CHUNK_ROWS):
            rows = np.ascontiguousarray(images[start : start + _CHUNK_ROWS].transpose(0, 2, 3, 1))
            changed = corrupt(rows, name, severity, seed=SPLIT_SEED, first_index=start)
            out[start : start + _CHUNK_ROWS] = changed.transpose(0, 3, 1, 2)
        out.flush()


def _code_stamp() -> str:
    from volta.data import corruptions

    folder = Path(inspect.getfile(corruptions)).parent
    return hash_text("".join(path.read_text(encoding="utf-8") for path in sorted(folder.rglob("*.py"))))


def _open(path: Path) -> Array:
    try:
        array: Array = np.load(path, mmap_mode="r", allow_pickle=False)
    except FileNotFoundError as error:
        raise InputError(f"{path} is missing from the archive's folder; fetch the archive again") from error
    except (ValueError, EOFError, OSError) as error:
        raise InputError(f"{path} is not a whole npy file ({error}); fetch the archive again") from error
    return array
