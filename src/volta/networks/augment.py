"""Training augmentation of image batches, for the whole batch at once."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

PADDING = 4


def flip_and_crop(pixels: Tensor, random: np.random.Generator) -> Tensor:
    """Return each image flipped left to right with probability ½, padded by 4 zeros and cropped at random to its size.

    ``pixels`` is (n, channels, h, w); every image draws its own flip and offset. One gather moves all pixels.
    """
    n_rows, _, height, width = pixels.shape
    offsets = torch.from_numpy(random.integers(0, 2 * PADDING + 1, size=(2, n_rows, 1)))
    flipped = torch.from_numpy(random.random((n_rows, 1)) < 0.5)
    rows = torch.arange(height) + offsets[0]
    columns = torch.arange(width)
    columns = torch.where(flipped, width - 1 - columns, columns) + offsets[1]
    padded = torch.nn.functional.pad(pixels, (PADDING,) * 4).permute(0, 2, 3, 1)
    device = pixels.device
    images = torch.arange(n_rows, device=device)[:, None, None]
    cropped = padded[images, rows.to(device)[:, :, None], columns.to(device)[:, None, :]]
    return cropped.permute(0, 3, 1, 2)
