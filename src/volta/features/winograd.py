"""3×3 convolutions with a quarter of the multiplications: Winograd's F(4×4, 3×3), as matrix products alone."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

Floats = NDArray[np.float64]

# Interpolation at 0, 1, −1, 2, −2 and ∞: y = Aᵀ[(G g) ⊙ (Bᵀ d)] gives 4 outputs of a 3-tap filter g from 6 inputs d.
_BT: Floats = np.array(
    [
        [4, 0, -5, 0, 1, 0],
        [0, -4, -4, 1, 1, 0],
        [0, 4, -4, -1, 1, 0],
        [0, -2, -1, 2, 1, 0],
        [0, 2, -1, -2, 1, 0],
        [0, 4, 0, -5, 0, 1],
    ],
    dtype=np.float64,
)
_G: Floats = np.array([[6, 0, 0], [-4, -4, -4], [-4, 4, -4], [1, 2, 4], [1, -2, 4], [0, 0, 24]]) / 24.0
_AT: Floats = np.array([[1, 1, 1, 1, 1, 0], [0, 1, -1, 2, -2, 0], [0, 1, 1, 4, 4, 0], [0, 1, -1, 8, -8, 1]]) * 1.0
_TILE, _POINTS = _AT.shape


class WinogradConv(nn.Module):
    """A 3×3 convolution, stride 1, padding 1, on (n, height, width, channels) maps of a fixed size.

    Y = Aᵀ[Σ_c (G g_kc Gᵀ) ⊙ (Bᵀ d_c B)]A for each 4×4 tile of outputs and its 6×6 patch of inputs d. Bᵀ and Aᵀ of all
    tiles of an axis are one banded matrix each, padding included, so the whole is seven steps of matrix products, which
    ONNX Runtime runs near the processor's peak; its own convolution has no such algorithm. It pays while the maps are
    small (up to about 32×32): the banded products grow with the side, the saving does not. Results differ from a direct
    convolution by rounding alone, some 1e-6 of the largest value.

    Reference: Lavin & Gray, Fast algorithms for convolutional neural networks, CVPR 2016.
    """

    filters: Tensor
    bias: Tensor
    rows_in: Tensor
    rows_out: Tensor
    columns_in: Tensor
    columns_out: Tensor

    def __init__(self, weight: Tensor, bias: Tensor, height: int, width: int) -> None:
        super().__init__()
        self._n_out, self._n_in = weight.shape[:2]
        self._height, self._width = height, width
        self._tiles = (-(-height // _TILE), -(-width // _TILE))
        for name, side in (("rows", height), ("columns", width)):
            into, out_of = _banded(side)
            self.register_buffer(f"{name}_in", torch.from_numpy(into).float())
            self.register_buffer(f"{name}_out", torch.from_numpy(out_of).float())
        filters = np.einsum("ai,kcij,bj->abck", _G, weight.detach().double().numpy(), _G)
        filters = filters.reshape(_POINTS**2, self._n_in, self._n_out)
        self.register_buffer("filters", torch.from_numpy(filters).float().contiguous())
        self.register_buffer("bias", bias.detach().clone())

    def forward(self, maps: Tensor) -> Tensor:
        """Return (n, height, width, n_out)."""
        n, (down, across) = maps.shape[0], self._tiles
        points = torch.matmul(self.rows_in, maps.reshape(n, self._height, self._width * self._n_in))
        points = torch.matmul(self.columns_in, points.reshape(n, _POINTS * down, self._width, self._n_in))
        points = points.reshape(n, _POINTS, down, _POINTS, across, self._n_in).permute(1, 3, 0, 2, 4, 5)
        points = points.reshape(_POINTS**2, n * down * across, self._n_in)
        products = torch.matmul(points, self.filters)
        products = products.reshape(_POINTS, _POINTS, n, down, across, self._n_out).permute(2, 0, 3, 1, 4, 5)
        products = products.reshape(n, _POINTS * down, _POINTS * across, self._n_out)
        outputs = torch.matmul(self.columns_out, products).reshape(n, _POINTS * down, self._width * self._n_out)
        outputs = torch.matmul(self.rows_out, outputs).reshape(n, self._height, self._width, self._n_out)
        return outputs + self.bias


def _banded(side: int) -> tuple[Floats, Floats]:
    """Return Bᵀ and Aᵀ of all tiles along an axis of ``side`` values: (6t, side), (side, 6t), by point then tile."""
    n_tiles = -(-side // _TILE)
    into = np.zeros((_POINTS, n_tiles, side))
    out_of = np.zeros((side, _POINTS, n_tiles))
    for tile in range(n_tiles):
        first = _TILE * tile - 1
        inside = [place for place in range(_POINTS) if 0 <= first + place < side]
        into[:, tile, [first + place for place in inside]] = _BT[:, inside]
        stop = min(_TILE * (tile + 1), side)
        out_of[_TILE * tile : stop, :, tile] = _AT[: stop - _TILE * tile]
    return into.reshape(-1, side), out_of.reshape(side, -1)
