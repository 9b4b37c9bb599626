"""The embedded task: scikit-learn's 8×8 handwritten digits, classes 0-7 known, 8-9 OOD."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from volta.core.seeding import SPLIT_SEED, rng
from volta.core.splits import split_fit_rows, stratified_folds
from volta.core.types import Array, OodSet, Split, SplitDraw
from volta.data.task import SEVERITIES, LoadOptions, TaskDefinition
from volta.data.task_builder import Preparation, RawSets

N_KNOWN = 8
N_FOLDS = 5
_FILE = Path("datasets", "data", "digits.csv.gz")
PIXEL_MAX = 16.0
NOISE_STD = (1.0, 2.0, 3.0, 4.5, 6.0)
BLUR_SIGMA = (0.4, 0.6, 0.8, 1.0, 1.3)
CONTRAST_FACTOR = (0.75, 0.6, 0.45, 0.3, 0.15)


@dataclass(frozen=True)
class EmbeddedDigits:
    """64 pixel intensities in 0..16 as features, split 60/20/20, the middle 20 halved into ``val`` and ``cal``.

    The rows are divided once into 5 stratified folds. Test rows are fold ``seed`` modulo 5, so that five seeds in a row
    test every row once, and the other rows are split into train, val and cal by the seed: two seeds with one fold still
    differ in those. Without a seed the test rows are fold 0 and the rest is split by the split seed.
    OOD sets: digits 8 and 9, uniform noise over the pixel range, and test digits with their pixels shuffled.
    Shifts: additive noise, blur and lost contrast at severities 1-5, on the test rows.
    """

    def is_there(self, root: Path) -> bool:
        """Return True: scikit-learn carries the digits."""
        return True

    def read(self, options: LoadOptions) -> RawSets:
        """Return the four parts with all OOD sets and shifts."""
        features, labels = _read()
        known = labels < N_KNOWN
        inputs, targets = features[known], labels[known]

        draw = SplitDraw() if options.seed is None else SplitDraw(options.seed, options.seed % N_FOLDS, N_FOLDS)
        test = stratified_folds(targets, N_FOLDS, rng(SPLIT_SEED, "digits", "splits"))[draw.fold or 0]
        rest = np.setdiff1d(np.arange(len(targets)), test)
        n_held_out = round(len(targets) * 0.2)
        split_rng = rng(SPLIT_SEED if draw.seed is None else draw.seed, "digits", "fit rows")
        rows = split_fit_rows(targets[rest], n_held_out // 2, n_held_out - n_held_out // 2, split_rng)

        whole = Split(inputs, targets)
        test_split = whole.take(test)
        noise = rng(SPLIT_SEED, "digits", "uniform_noise").uniform(0.0, PIXEL_MAX, test_split.inputs.shape)
        shuffled = rng(SPLIT_SEED, "digits", "shuffled_pixels").permuted(test_split.inputs, axis=1)
        return RawSets(
            parts={name: whole.take(rest[part]) for name, part in rows._asdict().items()} | {"test": test_split},
            ood={
                "digits_8_9": OodSet(features[~known]),
                "uniform_noise": OodSet(noise.astype(np.float32)),
                "shuffled_pixels": OodSet(shuffled),
            },
            shifts=_shifts(test_split),
            class_names=tuple(str(digit) for digit in range(N_KNOWN)),
            split=draw,
        )


DIGITS = TaskDefinition(
    name="digits",
    title="scikit-learn digits, classes 0-7; OOD: 8-9, uniform noise, shuffled pixels",
    preparation=Preparation("tabular", 0.2),
    features=EmbeddedDigits(),
    near=("digits_8_9",),
    far=("uniform_noise", "shuffled_pixels"),
    rotates=True,
)


def _read() -> tuple[Array, Array]:
    """Return the pixels, shape (1797, 64), and the digits: from scikit-learn's file, or by it where that is elsewhere.

    A benchmark needs nothing else of scikit-learn, whose import takes longer than many a cell.
    """
    found = find_spec("sklearn")
    path = Path(found.origin).parent / _FILE if found is not None and found.origin else None
    if path is not None and path.is_file():
        rows = np.loadtxt(path, delimiter=",")
        features, labels = rows[:, :-1], rows[:, -1]
    else:
        from sklearn.datasets import load_digits

        features, labels = load_digits(return_X_y=True)
    return np.ascontiguousarray(features, dtype=np.float32), labels.astype(np.int64)


def _shifts(test: Split) -> dict[str, Split]:
    corruptions: dict[str, tuple[Callable[[Array, float], Array], tuple[float, ...]]] = {
        "noise": (_add_noise, NOISE_STD),
        "blur": (_blur, BLUR_SIGMA),
        "contrast": (_lower_contrast, CONTRAST_FACTOR),
    }
    return {
        f"{name}-{severity}": Split(corrupt(test.inputs, strength), test.labels)
        for name, (corrupt, strengths) in corruptions.items()
        for severity, strength in zip(SEVERITIES, strengths, strict=True)
    }


def _add_noise(inputs: Array, std: float) -> Array:
    noise = rng(SPLIT_SEED, "digits", "noise").normal(0.0, std, inputs.shape)
    return np.clip(inputs + noise, 0.0, PIXEL_MAX).astype(np.float32)


def _blur(inputs: Array, sigma: float) -> Array:
    from scipy.ndimage import gaussian_filter

    images = inputs.reshape(-1, 8, 8)
    blurred: Array = gaussian_filter(images, sigma=(0.0, sigma, sigma))
    return blurred.reshape(inputs.shape)


def _lower_contrast(inputs: Array, factor: float) -> Array:
    mean = inputs.mean(axis=1, keepdims=True)
    return np.asarray(mean + factor * (inputs - mean), dtype=np.float32)
