"""CIFAR's binary versions: fixed-size records of one or two label bytes and 3×32×32 pixels, red plane first."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from volta.core.errors import InputError
from volta.core.types import Split

BATCH_ROWS = 10_000
CIFAR10_TRAIN_FILES = tuple(f"data_batch_{batch}.bin" for batch in range(1, 6))
_PIXEL_BYTES = 3 * 32 * 32

CIFAR10_CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")


def read_cifar10(folder: Path, names: tuple[str, ...]) -> Split:
    """Return the rows of the named batch files of ``cifar-10-batches-bin``, 10,000 each."""
    batches = [read_records(folder / name, 1, BATCH_ROWS, n_classes=10) for name in names]
    return Split(
        np.concatenate([batch.inputs for batch in batches]),
        np.concatenate([batch.labels for batch in batches]),
    )


def read_cifar100(folder: Path, part: str) -> Split:
    """Return ``train`` (50,000 rows) or ``test`` (10,000) of ``cifar-100-binary``, with the fine labels."""
    n_rows = BATCH_ROWS * (5 if part == "train" else 1)
    return read_records(folder / f"{part}.bin", 2, n_rows, n_classes=100)


def class_names(path: Path, n_classes: int) -> tuple[str, ...]:
    """Return the class names of ``batches.meta.txt`` or ``fine_label_names.txt``."""
    if not path.is_file():
        raise InputError(f"{path} is not there; fetch the archive again")
    try:
        names = tuple(path.read_text(encoding="ascii").split())
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not a list of class names: {error}; fetch the archive again") from error
    if len(names) != n_classes:
        raise InputError(f"{path} names {len(names)} classes, expected {n_classes}; fetch the archive again")
    return names


def read_records(path: Path, n_label_bytes: int, n_rows: int, n_classes: int) -> Split:
    """Return ``n_rows`` records as (n, 3, 32, 32) uint8 and the last label byte of each.

    A record is ``n_label_bytes`` labels (CIFAR-100: coarse, fine), then 3,072 pixels.
    """
    record = n_label_bytes + _PIXEL_BYTES
    actual = path.stat().st_size
    if actual != n_rows * record:
        raise InputError(
            f"{path} has {actual:,} bytes, expected {n_rows * record:,} ({n_rows:,} records of {record}); "
            "it is damaged or not CIFAR's binary version, fetch it again"
        )
    records = np.fromfile(path, np.uint8).reshape(n_rows, record)
    labels = records[:, n_label_bytes - 1].astype(np.int64)
    if labels.max(initial=0) >= n_classes:
        row = int(np.argmax(labels >= n_classes))
        raise InputError(f"{path} record {row} has label {labels[row]}, expected 0 to {n_classes - 1}; fetch it again")
    return Split(np.ascontiguousarray(records[:, n_label_bytes:]).reshape(n_rows, 3, 32, 32), labels)
