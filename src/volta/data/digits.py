"""The embedded task: scikit-learn's 8×8 handwritten digits, classes 0-7 known, 8-9 OOD."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from volta.core.seeding import SPLIT_SEED, rng
from volta.core.types import Array, FitData, InputKind, OodSet, Split, Task
from volta.data.splits import stratified_take

N_KNOWN = 8
PIXEL_MAX = 16.0
SEVERITIES = (1, 2, 3, 4, 5)
NOISE_STD = (1.0, 2.0, 3.0, 4.5, 6.0)
BLUR_SIGMA = (0.4, 0.6, 0.8, 1.0, 1.3)
CONTRAST_FACTOR = (0.75, 0.6, 0.45, 0.3, 0.15)


def load(kind: InputKind = "features") -> Task:
    """Return the ``digits`` task: 64 pixel intensities in 0..16 as features, split 60/20/20.

    The middle 20 are halved into ``val`` and ``cal``.

    OOD sets: digits 8 and 9 (near), uniform noise over the pixel range, and test digits with their pixels shuffled.
    Shifts: additive noise, blur and lost contrast at severities 1-5, on the test rows.
    """
    features, labels = _read()
    known = labels < N_KNOWN
    inputs, targets = features[known], labels[known]

    split_rng = rng(SPLIT_SEED, "digits", "splits")
    fifth = round(len(targets) * 0.2)
    test, rest = stratified_take(targets, fifth, split_rng)
    held_out, train = _of(rest, stratified_take(targets[rest], fifth, split_rng))
    val, cal = _of(held_out, stratified_take(targets[held_out], len(held_out) // 2, split_rng))

    whole = Split(inputs, targets)
    test_split = whole.take(test)
    return Task(
        name="digits",
        fit=FitData(whole.take(train), whole.take(val), whole.take(cal), n_classes=N_KNOWN),
        test=test_split,
        ood={
            "digits_8_9": OodSet(features[~known], near=True),
            "uniform_noise": OodSet(_uniform_noise(test_split.inputs)),
            "shuffled_pixels": OodSet(_shuffle_pixels(test_split.inputs)),
        },
        shifts=_shifts(test_split),
        class_names=tuple(str(digit) for digit in range(N_KNOWN)),
    )


def _read() -> tuple[Array, Array]:
    """Return the pixels, shape (1797, 64), and the digits, from the file that scikit-learn carries.

    Importing scikit-learn takes longer than all the rest of the task, so its file is read where it lies.
    """
    package = find_spec("sklearn")
    places = package.submodule_search_locations if package is not None else None
    file = Path(places[0]) / "datasets" / "data" / "digits.csv.gz" if places else None
    if file is not None and file.is_file():
        rows = np.loadtxt(file, delimiter=",", dtype=np.float32)
        return np.ascontiguousarray(rows[:, :-1]), rows[:, -1].astype(np.int64)
    from sklearn.datasets import load_digits

    features, labels = load_digits(return_X_y=True)
    return features.astype(np.float32), labels.astype(np.int64)


def _of(rows: Array, parts: tuple[Array, Array]) -> tuple[Array, Array]:
    return rows[parts[0]], rows[parts[1]]


def _uniform_noise(like: Array) -> Array:
    draws = rng(SPLIT_SEED, "digits", "uniform_noise").uniform(0.0, PIXEL_MAX, like.shape)
    return draws.astype(np.float32)


def _shuffle_pixels(inputs: Array) -> Array:
    return rng(SPLIT_SEED, "digits", "shuffled_pixels").permuted(inputs, axis=1)


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
