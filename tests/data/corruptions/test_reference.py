"""Each corruption against its formula, computed some other way: plain loops, SciPy, Pillow, colorsys, moments."""

import colorsys
import math
from io import BytesIO

import numpy as np
import pytest
from PIL import Image
from scipy import ndimage, stats

from volta.core.seeding import rng
from volta.data.corruptions import CORRUPTIONS, SEVERITIES, corrupt
from volta.data.corruptions.common import Draws, disc_kernel, length_scale, recipe_grid, to_levels
from volta.data.corruptions.recipes import equalise, ice_texture, outlines, plasma, water_mask


@pytest.fixture(scope="module")
def images():
    noise = np.random.default_rng(3).standard_normal((6, 32, 32, 3))
    fields = ndimage.gaussian_filter(noise, (0, 1.5, 1.5, 0), mode="wrap")
    return np.clip(120 + 60 * fields / fields.std(), 0, 255).astype(np.uint8)


def constants(name, severity):
    return CORRUPTIONS[name].severities[severity - 1]


def flat(level, n_images=60):
    return np.full((n_images, 32, 32, 3), level, dtype=np.uint8)


def stream(name, index=0, seed=0):
    return rng(seed, "corruption", name, index)


def assert_levels_close(found, expected, levels=1, share=0.02):
    """Cutting turns a rounding error into one level; more than a few of them would be a different formula."""
    off = np.abs(found.astype(int) - to_levels(np.asarray(expected)).astype(int))
    assert off.max() <= levels
    assert (off > 0).mean() <= share


@pytest.mark.parametrize("severity", SEVERITIES)
def test_gaussian_noise_moments(severity):
    (std,) = constants("gaussian_noise", severity)
    noise = corrupt(flat(128), "gaussian_noise", severity) - 128.0
    # Cutting to whole levels shifts by half a level and adds the variance of a uniform, 1/12.
    assert noise.mean() == pytest.approx(-0.5, abs=0.3)
    assert noise.std() == pytest.approx(math.hypot(255 * std, 12**-0.5), rel=0.01)


@pytest.mark.parametrize("severity", SEVERITIES)
def test_shot_noise_moments(severity):
    (photons,) = constants("shot_noise", severity)
    values = corrupt(flat(100), "shot_noise", severity).astype(float)
    counts = np.arange(photons + 1)
    chances = stats.poisson.pmf(counts, 100 * photons / 255)
    levels = np.floor(counts * 255 / photons + 1e-6)
    mean = chances @ levels
    assert values.mean() == pytest.approx(mean, abs=0.2)
    assert values.std() == pytest.approx(math.sqrt(chances @ (levels - mean) ** 2), rel=0.01)
    assert (corrupt(flat(0, 2), "shot_noise", severity) == 0).all()


@pytest.mark.parametrize("severity", SEVERITIES)
def test_speckle_noise_moments(severity):
    (std,) = constants("speckle_noise", severity)
    values = corrupt(flat(100), "speckle_noise", severity).astype(float)
    assert values.mean() == pytest.approx(99.5, abs=0.3)
    assert values.std() == pytest.approx(math.hypot(100 * std, 12**-0.5), rel=0.01)
    assert (corrupt(flat(0, 2), "speckle_noise", severity) == 0).all()


@pytest.mark.parametrize("severity", SEVERITIES)
def test_impulse_noise_shares(severity):
    (share,) = constants("impulse_noise", severity)
    values = corrupt(flat(100), "impulse_noise", severity)
    assert set(np.unique(values)) == {0, 100, 255}
    deviation = 4 * math.sqrt(share / 2 / values.size)
    assert (values == 0).mean() == pytest.approx(share / 2, abs=deviation)
    assert (values == 255).mean() == pytest.approx(share / 2, abs=deviation)


@pytest.mark.parametrize("severity", SEVERITIES)
def test_gaussian_blur_is_scipys(images, severity):
    (sigma,) = constants("gaussian_blur", severity)
    expected = np.empty(images.shape)
    for i, image in enumerate(images):
        for channel in range(3):
            expected[i, ..., channel] = ndimage.gaussian_filter(image[..., channel] / 255, sigma, mode="nearest")
    assert_levels_close(corrupt(images, "gaussian_blur", severity), 255 * expected)


def test_gaussian_blur_scales_with_the_image(images):
    large = images.repeat(3, axis=1).repeat(3, axis=2)
    expected = ndimage.gaussian_filter(large.astype(float), (0, 3.0, 3.0, 0), mode="nearest")
    assert_levels_close(corrupt(large, "gaussian_blur", 5), expected)


def test_defocus_discs_by_hand():
    box = disc_kernel(1.5, 0.1)
    np.testing.assert_allclose(box[1:-1, 1:-1], np.full((3, 3), 1 / 9), atol=1e-12)
    assert box.sum() == pytest.approx(1)
    edge = math.exp(-1 / (2 * 0.4**2))
    taps = np.array([edge, 1, edge]) / (1 + 2 * edge)
    np.testing.assert_allclose(disc_kernel(0.3, 0.4), np.outer(taps, taps), atol=1e-12)


def test_defocus_blur_at_severity_5_is_a_box_mean(images):
    expected = ndimage.uniform_filter(images.astype(float), (1, 3, 3, 1), mode="mirror")
    assert_levels_close(corrupt(images, "defocus_blur", 5), expected)


def test_glass_blur_copies_as_the_recipes_loop_does(images):
    image = images[0].copy()
    delta = stream("glass_blur").integers(2, size=(2, 30, 30)) - 1
    for row in range(31, 1, -1):
        for col in range(31, 1, -1):
            image[row, col] = image[row + delta[0, row - 2, col - 2], col + delta[1, row - 2, col - 2]]
    # At severity 1 the Gaussian is so narrow that it has one tap.
    np.testing.assert_array_equal(corrupt(images[:1], "glass_blur", 1)[0], image)


@pytest.mark.parametrize("severity", SEVERITIES)
def test_motion_blur_by_plain_loops(images, severity):
    radius, sigma = constants("motion_blur", severity)
    angle = math.radians(stream("motion_blur").uniform(-45, 45))
    steps = range(2 * radius + 1)
    weights = np.exp([-(step**2) / (2 * sigma**2) for step in steps])
    expected = np.zeros((32, 32, 3))
    for row in range(32):
        for col in range(32):
            for step, weight in zip(steps, weights / weights.sum(), strict=True):
                source_row = min(max(row + math.ceil(step * math.sin(angle) - 0.5), 0), 31)
                source_col = min(max(col + math.ceil(step * math.cos(angle) - 0.5), 0), 31)
                expected[row, col] += weight * images[0, source_row, source_col]
    assert_levels_close(corrupt(images[:1], "motion_blur", severity)[0], np.rint(expected))


@pytest.mark.parametrize(("severity", "stop"), list(enumerate((1.06, 1.11, 1.16, 1.21, 1.26), start=1)))
def test_zoom_blur_is_scipys_zoom(images, severity, stop):
    factors = np.arange(1, stop, 0.01)
    total = images[0].astype(float)
    for factor in factors:
        crop = math.ceil(32 / factor)
        start = (32 - crop) // 2
        centre = images[0, start : start + crop, start : start + crop].astype(float)
        zoomed = ndimage.zoom(centre, (factor, factor, 1), order=1)
        trim = (len(zoomed) - 32) // 2
        total += zoomed[trim : trim + 32, trim : trim + 32]
    assert_levels_close(corrupt(images[:1], "zoom_blur", severity)[0], total / (len(factors) + 1))


@pytest.mark.parametrize("severity", SEVERITIES)
def test_snow_only_brightens_and_is_even_under_half_turns(images, severity):
    assert (corrupt(images, "snow", severity) >= images).all()
    on_black = corrupt(flat(0, 5), "snow", severity)
    np.testing.assert_array_equal(on_black, on_black[:, ::-1, ::-1])
    assert (on_black.min(axis=3) == on_black.max(axis=3)).all()
    # Where no flake falls, black is whitened to half of 1 − kept.
    kept = constants("snow", severity)[-1]
    assert on_black.min() >= math.floor(127.5 * (1 - kept))


@pytest.mark.parametrize("severity", SEVERITIES)
def test_frost_mixes_image_and_ice(images, severity):
    kept, added = constants("frost", severity)
    dark = images // 4
    ice = corrupt(np.zeros_like(dark), "frost", severity)
    frosted = corrupt(dark, "frost", severity)
    expected = kept * dark.astype(float) + ice
    clear = frosted < 255
    assert np.abs(frosted - expected)[clear].max() < 1.01
    assert ice.max() <= math.ceil(255 * added)
    assert ice.std() > 10 * added


def test_ice_is_the_same_every_time_and_uses_all_levels_evenly():
    ice = ice_texture(0)
    np.testing.assert_array_equal(ice, ice_texture(0))
    shares = np.bincount(ice.ravel(), minlength=256) / ice.size
    assert shares.max() < 2 / 256
    assert np.abs(np.cumsum(shares) - np.arange(1, 257) / 256).max() < 0.01


@pytest.mark.parametrize("severity", SEVERITIES)
def test_fog_by_formula(images, severity):
    thickness, decay = constants("fog", severity)
    cloud = plasma(Draws(0, "fog", range(len(images))), 32, decay)
    assert cloud.shape == (len(images), 32, 32)
    np.testing.assert_array_equal(cloud.min(axis=(1, 2)), 0)
    np.testing.assert_array_equal(cloud.max(axis=(1, 2)), 1)
    pixels = images / 255
    largest = pixels.max(axis=(1, 2, 3), keepdims=True)
    expected = (pixels + thickness * cloud[..., None]) * largest / (largest + thickness)
    assert_levels_close(corrupt(images, "fog", severity), 255 * expected)


def test_plasma_is_rougher_with_less_decay_and_midpoints_are_means():
    smooth, rough = (np.abs(np.diff(plasma(Draws(0, "fog", range(20)), 32, decay))).mean() for decay in (3.0, 1.75))
    assert rough > 1.3 * smooth
    # With the noise of the finer levels gone, points between are means of their neighbours on the torus.
    cloud = plasma(Draws(0, "fog", range(1)), 8, 1e6)[0]
    centre = (cloud[0, 0] + cloud[0, 4] + cloud[4, 0] + cloud[4, 4]) / 4
    assert cloud[2, 2] == pytest.approx(centre, abs=1e-6)


def test_plasma_covers_odd_sides():
    assert plasma(Draws(0, "fog", range(1)), 33, 2.0).shape == (1, 64, 64)


@pytest.mark.parametrize("severity", SEVERITIES)
def test_brightness_and_saturate_are_colorsys(images, severity):
    (shift,) = constants("brightness", severity)
    factor, offset = constants("saturate", severity)
    pixels = images[:1].copy()
    pixels[0, 0, :3] = [[0, 0, 0], [90, 90, 90], [255, 255, 255]]
    bright, saturated = np.empty(pixels.shape), np.empty(pixels.shape)
    for position in np.ndindex(pixels.shape[:3]):
        hue, saturation, value = colorsys.rgb_to_hsv(*(pixels[position] / 255))
        bright[position] = colorsys.hsv_to_rgb(hue, saturation, min(value + shift, 1))
        saturated[position] = colorsys.hsv_to_rgb(hue, min(saturation * factor + offset, 1), value)
    assert_levels_close(corrupt(pixels, "brightness", severity), 255 * bright)
    assert_levels_close(corrupt(pixels, "saturate", severity), 255 * saturated)


@pytest.mark.parametrize("severity", SEVERITIES)
def test_contrast_by_formula(images, severity):
    (factor,) = constants("contrast", severity)
    means = images.astype(float).mean(axis=(1, 2))[:, None, None, :]
    expected = (images - means) * factor + means
    assert_levels_close(corrupt(images, "contrast", severity), expected, share=0.001)


@pytest.mark.parametrize("severity", SEVERITIES)
def test_elastic_transform_is_scipys_map_coordinates(images, severity):
    strength, sigma, jitter = (32 * constant for constant in constants("elastic_transform", severity))
    source = stream("elastic_transform")
    corners = np.array([[26, 26], [26, 6], [6, 6]], dtype=float)
    moved = corners + jitter * source.uniform(-1, 1, (3, 2))
    forward = np.linalg.solve(np.column_stack([corners, np.ones(3)]), moved)
    rows, cols = np.indices((32, 32)).astype(float)
    # Back from the moved picture: invert the linear part after taking off the shift.
    back = (np.stack([cols, rows], axis=-1) - forward[2]) @ np.linalg.inv(forward[:2])
    channels = np.moveaxis(images[0].astype(float), 2, 0)
    out = [ndimage.map_coordinates(c, [back[..., 1], back[..., 0]], order=1, mode="mirror") for c in channels]
    if strength:
        noise = source.uniform(-1, 1, (32, 32, 2))
        dx, dy = (strength * ndimage.gaussian_filter(noise[..., i], sigma, truncate=3.0) for i in (0, 1))
        out = [ndimage.map_coordinates(c, [rows + dy, cols + dx], order=1, mode="reflect") for c in out]
    assert_levels_close(corrupt(images[:1], "elastic_transform", severity)[0], np.stack(out, axis=-1))


@pytest.mark.parametrize("severity", SEVERITIES)
def test_pixelate_is_pillows_box_resize(images, severity):
    (ratio,) = constants("pixelate", severity)
    small = Image.fromarray(images[0]).resize((int(32 * ratio), int(32 * ratio)), Image.Resampling.BOX)
    expected = np.asarray(small.resize((32, 32), Image.Resampling.BOX))
    np.testing.assert_array_equal(corrupt(images[:1], "pixelate", severity)[0], expected)


@pytest.mark.parametrize("severity", SEVERITIES)
def test_jpeg_compression_is_pillows(images, severity):
    file = BytesIO()
    Image.fromarray(images[0]).save(file, format="JPEG", quality=constants("jpeg_compression", severity)[0])
    expected = np.asarray(Image.open(BytesIO(file.getvalue())))
    np.testing.assert_array_equal(corrupt(images[:1], "jpeg_compression", severity)[0], expected)


@pytest.mark.parametrize("severity", [1, 2, 3])
def test_water_brightens_towards_turquoise(severity):
    added = corrupt(flat(0), "spatter", severity).astype(float)
    amount = constants("spatter", severity)[4]
    np.testing.assert_allclose(added.max(axis=(1, 2, 3)), math.floor(amount * 238), atol=1)
    np.testing.assert_allclose(added[..., 0], added[..., 1] * 175 / 238, atol=1)
    np.testing.assert_array_equal(added[..., 1], added[..., 2])


@pytest.mark.parametrize("severity", [4, 5])
def test_mud_covers_in_brown(severity):
    on_black, on_white = (corrupt(flat(level), "spatter", severity).astype(float) for level in (0, 255))
    cover = 1 - (on_white[..., 1] - on_black[..., 1]) / 255
    touched = cover > 0.01
    assert 0.005 < touched.mean() < 0.3
    assert cover[touched].min() > 0.79
    np.testing.assert_allclose(on_black[touched] / cover[touched][:, None], [[63, 42, 20]] * touched.sum(), atol=2)


def test_outlines_of_a_square():
    levels = np.zeros((2, 16, 16))
    levels[0, 4:12, 4:12] = 200
    edges = outlines(levels)
    assert not edges[1].any()
    assert not edges[0, 6:10, 6:10].any()
    assert not edges[0, :3].any()
    for line in range(5, 11):
        assert edges[0, line].sum() == 2
        assert edges[0, :, line].sum() == 2


def test_outlines_keep_weak_edges_only_beside_strong_ones():
    levels = np.zeros((1, 12, 12))
    levels[0, :, 6:] = 30
    assert not outlines(levels).any()
    levels[0, :3, 6:] = 200
    assert outlines(levels)[0, 8].any()


def test_equalise_by_hand():
    levels = np.array([[0, 0, 1, 3], [2, 2, 2, 2]], dtype=np.uint8).reshape(2, 2, 2, 1)
    expected = [[0, 0, 128, 255], [2, 2, 2, 2]]
    np.testing.assert_array_equal(equalise(levels).reshape(2, 4), expected)


def test_water_without_drops_is_no_water():
    assert (water_mask(np.zeros((2, 16, 16, 1), dtype=np.float32)) == 0).all()


def test_levels_are_cut_with_slack():
    values = np.array([-3.0, 0.9, 1.0 - 1e-4, 254.99999, 255.0, 300.0])
    np.testing.assert_array_equal(to_levels(values), [0, 0, 1, 255, 255, 255])


@pytest.mark.parametrize(
    ("shape", "scale", "grid"),
    [((8, 8), 1, (8, 8)), ((32, 40), 1, (32, 40)), ((64, 128), 2, (32, 64)), ((224, 224), 7, (32, 32))],
)
def test_lengths_grow_with_the_short_side_from_32_pixels_on(shape, scale, grid):
    images = np.empty((0, *shape, 3), dtype=np.uint8)
    assert length_scale(images) == scale
    assert recipe_grid(images) == grid
