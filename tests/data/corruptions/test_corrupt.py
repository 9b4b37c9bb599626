"""The contract of every corruption: bytes that depend on seed, index and image alone; inputs checked and untouched."""

import inspect
from pathlib import Path

import numpy as np
import pytest

import volta
from volta.core.errors import InputError
from volta.data.corruptions import CORRUPTIONS, SEVERITIES, contact_sheet, corrupt

NAMES = [
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
]
RANDOM = {
    "gaussian_noise",
    "shot_noise",
    "impulse_noise",
    "glass_blur",
    "motion_blur",
    "snow",
    "frost",
    "fog",
    "elastic_transform",
    "speckle_noise",
    "spatter",
}
# These average or displace pixels, so an image of one level stays as it is.
KEEPS_FLAT_IMAGES = {
    "defocus_blur",
    "glass_blur",
    "motion_blur",
    "zoom_blur",
    "contrast",
    "elastic_transform",
    "pixelate",
    "gaussian_blur",
}


def random_images(n_images, height=32, width=32, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (n_images, height, width, 3), dtype=np.uint8)


def test_the_table_holds_the_nineteen_in_order():
    assert list(CORRUPTIONS) == NAMES
    assert sum(corruption.extra for corruption in CORRUPTIONS.values()) == 4


@pytest.mark.parametrize("name", NAMES)
def test_table_entries_fit_their_functions(name):
    corruption = CORRUPTIONS[name]
    constants = list(inspect.signature(corruption.apply).parameters)[2:]
    assert corruption.apply.__name__ == name
    assert len(corruption.severities) == len(SEVERITIES) == 5
    assert all(len(values) == len(constants) for values in corruption.severities)


@pytest.mark.parametrize("name", NAMES)
def test_output_is_pure_and_deterministic(name):
    images = random_images(4)
    before = images.copy()
    images.flags.writeable = False
    first, second = corrupt(images, name, 3, seed=5), corrupt(images, name, 3, seed=5)
    assert first.dtype == np.uint8
    assert first.shape == images.shape
    assert not np.shares_memory(first, images)
    np.testing.assert_array_equal(first, second)
    np.testing.assert_array_equal(images, before)
    assert (first != images).any()


@pytest.mark.parametrize("severity", SEVERITIES)
@pytest.mark.parametrize("name", NAMES)
def test_batching_changes_no_byte(name, severity):
    images = random_images(7)
    whole = corrupt(images, name, severity, indices=100 + np.arange(len(images)))
    singles = [corrupt(images[i : i + 1], name, severity, indices=[100 + i]) for i in range(len(images))]
    np.testing.assert_array_equal(np.concatenate(singles), whole)
    order = np.array([4, 0, 6])
    np.testing.assert_array_equal(corrupt(images[order], name, severity, indices=100 + order), whole[order])


@pytest.mark.parametrize("name", ["gaussian_noise", "zoom_blur", "contrast", "elastic_transform", "spatter"])
def test_batches_longer_than_one_piece_change_no_byte(name):
    images = random_images(700)
    whole = corrupt(images, name, 2)
    np.testing.assert_array_equal(corrupt(images[650:], name, 2, indices=np.arange(650, len(images))), whole[650:])


@pytest.mark.parametrize("name", NAMES)
def test_seed_and_index_matter_exactly_where_there_is_chance(name):
    images = np.repeat(random_images(1), 2, axis=0)
    out = corrupt(images, name, 5, seed=1)
    other = corrupt(images, name, 5, seed=2)
    assert (out[0] != out[1]).any() == (name in RANDOM)
    assert (out != other).any() == (name in RANDOM)


def test_corruptions_do_not_share_their_noise():
    grey = np.full((1, 32, 32, 3), 128, dtype=np.uint8)
    gaussian = corrupt(grey, "gaussian_noise", 5).astype(float) - 128
    speckle = corrupt(grey, "speckle_noise", 5).astype(float) - 128
    assert abs(np.corrcoef(gaussian.ravel(), speckle.ravel())[0, 1]) < 0.1


@pytest.mark.parametrize("severity", SEVERITIES)
@pytest.mark.parametrize("level", [0, 255])
@pytest.mark.parametrize("name", NAMES)
def test_black_and_white_images(name, level, severity):
    images = np.full((2, 32, 32, 3), level, dtype=np.uint8)
    out = corrupt(images, name, severity)
    assert out.dtype == np.uint8
    if name in KEEPS_FLAT_IMAGES:
        np.testing.assert_array_equal(out, images)


@pytest.mark.parametrize("shape", [(8, 8), (9, 40), (50, 33), (64, 96)])
@pytest.mark.parametrize("name", NAMES)
def test_any_size_from_8_pixels(name, shape):
    images = random_images(2, *shape)
    for severity in (1, 5):
        out = corrupt(images, name, severity)
        assert out.shape == images.shape
        np.testing.assert_array_equal(corrupt(images[1:], name, severity, indices=np.arange(1, len(images))), out[1:])


def test_no_images_give_no_images():
    for name in NAMES:
        assert corrupt(random_images(0), name, 1).shape == (0, 32, 32, 3)
    assert corrupt(random_images(0), "fog", 1, indices=[]).shape == (0, 32, 32, 3)


def test_rejected_inputs():
    images = random_images(2)
    with pytest.raises(InputError, match="7×32 pixels; pass at least 8×8"):
        corrupt(images[:, :7], "fog", 1)


def test_contact_sheet_of_one_image():
    image = random_images(1, 10, 12)[0]
    sheet = contact_sheet(image, seed=3)
    assert sheet.dtype == np.uint8
    assert sheet.shape == (19 * 11 - 1, 5 * 13 - 1, 3)
    assert (sheet[10::11] == 255).all()
    assert (sheet[:, 12::13] == 255).all()
    row = NAMES.index("contrast")
    expected = corrupt(image[None], "contrast", 4, seed=3)[0]
    np.testing.assert_array_equal(sheet[row * 11 : row * 11 + 10, 3 * 13 : 3 * 13 + 12], expected)


def test_a_corruption_is_one_entry_in_one_file():
    package = Path(volta.__file__).parent
    texts = {path: path.read_text(encoding="utf-8") for path in package.rglob("*.py")}
    for name in CORRUPTIONS:
        holders = [path.name for path, text in texts.items() if f'"{name}": Corruption(' in text]
        assert len(holders) == 1
        mentions = [path for path, text in texts.items() if f'"{name}"' in text and "tasks" not in path.parts]
        assert [path.name for path in mentions] == holders
