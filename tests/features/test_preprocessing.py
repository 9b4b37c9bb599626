from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from volta.core.errors import InputError
from volta.features.backbones.backbone import (
    IMAGENET_MEAN,
    IMAGENET_STD,
    Pipeline,
    Preprocessing,
    as_rows,
    check_pixels,
    prepare,
    resize_matrix,
)


@pytest.mark.parametrize(("n_in", "n_out"), [(32, 224), (64, 224), (7, 7), (1, 5), (300, 224), (500, 32), (9, 4)])
def test_resize_is_torchs_antialiased_bilinear(n_in: int, n_out: int) -> None:
    image = torch.rand(1, 3, n_in, 40, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    expected = nn.functional.interpolate(image, (n_out, 30), mode="bilinear", antialias=True)
    got = resize_matrix(n_in, n_out) @ image.numpy() @ resize_matrix(40, 30).T
    np.testing.assert_allclose(got, expected.numpy(), atol=2e-6)


def test_enlarging_is_plain_bilinear() -> None:
    image = torch.rand(1, 3, 32, 20, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    rows, columns = Preprocessing().matrices(32, 20)
    expected = nn.functional.interpolate(image, (224, 224), mode="bilinear", align_corners=False, antialias=False)
    np.testing.assert_allclose(rows @ image.numpy() @ columns, expected.numpy(), atol=1e-6)


def test_resize_by_hand() -> None:
    expected = [[1, 0], [0.75, 0.25], [0.25, 0.75], [0, 1]]
    np.testing.assert_array_equal(resize_matrix(2, 4), np.array(expected, dtype=np.float32))
    np.testing.assert_allclose(resize_matrix(4, 1), np.array([[5, 7, 7, 5]]) / 24, rtol=1e-6)


def test_pipeline_follows_the_written_order() -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (3, 3, 16, 12), dtype=np.uint8)
    preprocessing = Preprocessing(size=(30, 28))
    scaled = torch.from_numpy(pixels).double() / 255.0
    resized = nn.functional.interpolate(scaled, (30, 28), mode="bilinear")
    mean, std = torch.tensor(IMAGENET_MEAN).view(3, 1, 1), torch.tensor(IMAGENET_STD).view(3, 1, 1)
    expected = ((resized - mean) / std).numpy()
    np.testing.assert_allclose(prepare(pixels, preprocessing), expected, atol=1e-5)
    matrices = [torch.tensor(matrix) for matrix in preprocessing.matrices(16, 12)]
    pipeline = Pipeline(nn.Flatten(), preprocessing)
    got = pipeline(torch.from_numpy(pixels), *matrices)
    np.testing.assert_allclose(got.numpy(), expected.reshape(3, -1), atol=1e-5)


def test_maps_are_averaged_and_other_shapes_refused() -> None:
    maps = torch.arange(8.0).view(1, 2, 2, 2)
    assert as_rows(maps).tolist() == [[1.5, 5.5]]
    with pytest.raises(InputError, match=r"gives \(1, 2, 2\); expected"):
        as_rows(torch.zeros(1, 2, 2))
    with pytest.raises(InputError, match="gives dict"):
        as_rows({})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "bad", [np.zeros((2, 3, 4, 4)), np.zeros((2, 4, 4, 3), np.uint8), np.zeros((3, 4, 4), np.uint8)]
)
def test_pixels_of_another_kind_are_refused(bad: np.ndarray) -> None:
    with pytest.raises(InputError, match="pass uint8 images of shape"):
        check_pixels(bad)


def test_impossible_settings_are_refused() -> None:
    with pytest.raises(InputError, match="size is"):
        Preprocessing(size=(0, 224))
    with pytest.raises(InputError, match="std is"):
        Preprocessing(std=(1.0, 0.0, 1.0))
