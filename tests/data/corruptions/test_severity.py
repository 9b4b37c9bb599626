"""Severities as a ladder, on synthetic images with the spectrum of natural ones."""

from itertools import pairwise

import numpy as np
import pytest

from volta.data.corruptions import CORRUPTIONS, SEVERITIES, corrupt

# Where the recipe's own constants are no ladder of distances; each has its test below.
NO_LADDER = {"glass_blur", "frost", "elastic_transform", "saturate", "spatter"}


@pytest.fixture(scope="module")
def images():
    return natural_images(150, 32)


def natural_images(n_images, side, seed=0):
    """Amplitude 1/f, as in photographs, channels strongly correlated; levels around 120 with deviation 50."""
    rng = np.random.default_rng(seed)
    frequency = np.hypot(np.fft.fftfreq(side)[:, None], np.fft.fftfreq(side)[None, :])
    frequency[0, 0] = 1 / side

    def field(*shape):
        noise = np.fft.fft2(rng.standard_normal((*shape, side, side)))
        values = np.fft.ifft2(noise / frequency).real
        return values / values.std()

    grey, tint = field(n_images, 1), field(n_images, 3)
    return np.clip(120 + 50 * (0.9 * grey + 0.4 * tint), 0, 255).astype(np.uint8).transpose(0, 2, 3, 1).copy()


def distances(images, name):
    """Root mean squared distance to the clean image, mean over images, at each severity."""
    clean = images.astype(float)
    differences = [corrupt(images, name, severity) - clean for severity in SEVERITIES]
    return [float(np.sqrt((difference**2).mean(axis=(1, 2, 3))).mean()) for difference in differences]


def rises(values):
    return all(later >= earlier for earlier, later in pairwise(values))


@pytest.mark.parametrize("name", [name for name in CORRUPTIONS if name not in NO_LADDER])
def test_distance_never_falls_with_severity(images, name):
    found = distances(images, name)
    assert found[0] > 0
    assert rises(found), found
    assert found[4] > 1.3 * found[0]


@pytest.mark.parametrize("side", [24, 64])
@pytest.mark.parametrize("name", [name for name in CORRUPTIONS if name not in NO_LADDER])
def test_distance_never_falls_at_other_sizes(name, side):
    found = distances(natural_images(40, side), name)
    assert rises(found), found


def test_glass_blur_rises_with_its_rounds(images):
    found = distances(images, "glass_blur")
    assert min(found[3:]) > max(found[:3])


def test_frost_hides_ever_more_of_the_image(images):
    clean = images.reshape(len(images), -1)
    hidden = []
    for severity in SEVERITIES:
        frosted = corrupt(images, "frost", severity).reshape(len(images), -1)
        hidden.append(1 - np.mean([np.corrcoef(a, b)[0, 1] for a, b in zip(clean, frosted, strict=True)]))
    assert rises(hidden), hidden


def test_elastic_transform_distorts_ever_more_finely():
    side = 32
    ramp = np.broadcast_to(np.linspace(0, 255, side)[None, None, :, None], (40, side, side, 3)).astype(np.uint8)
    roughness = []
    for severity in SEVERITIES:
        out = corrupt(ramp, "elastic_transform", severity)[:, 8:-8, 8:-8, 0].astype(float)
        # A second difference is blind to the affine part.
        roughness.append(np.abs(np.diff(out, n=2, axis=1)).mean())
    assert rises(roughness), roughness


def test_saturate_fades_then_strengthens(images):
    def saturation(batch):
        value = batch.max(axis=3).astype(float)
        return ((value - batch.min(axis=3)) / np.maximum(value, 1)).mean()

    clean = saturation(images)
    found = [saturation(corrupt(images, "saturate", severity)) for severity in SEVERITIES]
    assert found[1] < found[0] < clean < found[2] < found[3] < found[4]


def test_spatter_rises_within_water_and_within_mud(images):
    found = distances(images, "spatter")
    assert rises(found[:3])
    assert rises(found[3:])


def test_motion_blur_3_and_4_differ_by_negligible_taps_only(images):
    third, fourth = (corrupt(images, "motion_blur", severity).astype(int) for severity in (3, 4))
    assert np.abs(third - fourth).max() <= 1
