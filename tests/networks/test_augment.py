from __future__ import annotations

import numpy as np
import torch

from volta.networks.training import PADDING, flip_and_crop


def test_every_image_gets_its_own_flip_and_crop():
    pixels = torch.from_numpy(np.random.default_rng(0).random((6, 3, 8, 8), dtype=np.float32))
    augmented = flip_and_crop(pixels, np.random.default_rng(1))
    draws = np.random.default_rng(1)
    offsets = draws.integers(0, 2 * PADDING + 1, size=(2, 6, 1))[:, :, 0]
    flipped = draws.random((6, 1))[:, 0] < 0.5
    assert flipped.any()
    assert not flipped.all()
    for index in range(6):
        top, left = offsets[:, index]
        image = np.pad(pixels[index].numpy(), ((0, 0), (PADDING,) * 2, (PADDING,) * 2))[
            :, top : top + 8, left : left + 8
        ]
        expected = image[:, :, ::-1] if flipped[index] else image
        assert np.array_equal(augmented[index].numpy(), expected)


def test_flips_and_offsets_have_the_right_shares():
    ramp = torch.arange(16.0).repeat(16, 1).expand(4000, 1, 16, 16)
    augmented = flip_and_crop(ramp, np.random.default_rng(0))
    centre = augmented[:, 0, 8, 7:9]
    flips = (centre[:, 0] > centre[:, 1]).float().mean().item()
    assert 0.47 < flips < 0.53
    column = augmented[:, 0, 8, 8]
    assert len(column.unique()) >= 9


def test_shapes_and_seeds():
    pixels = torch.rand(5, 3, 32, 32)
    first = flip_and_crop(pixels, np.random.default_rng(3))
    assert first.shape == pixels.shape
    assert torch.equal(first, flip_and_crop(pixels, np.random.default_rng(3)))
    assert not torch.equal(first, flip_and_crop(pixels, np.random.default_rng(4)))
