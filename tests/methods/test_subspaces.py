"""The minor half of principal directions: as exact from float32 rows as from float64 ones, wherever it matters."""

from __future__ import annotations

import numpy as np
import pytest

from volta.methods import vim
from volta.methods.vim import fit_minor_space

N_COLUMNS = 12


def rows_of(minor_scale: float, offset: float = 0.0, factor: float = 1.0) -> np.ndarray:
    """Return rows whose minor directions have so small a spread, turned so that no column is a direction."""
    random = np.random.default_rng(0)
    scales = np.r_[np.full(6, minor_scale), np.linspace(1.0, 3.0, 6)]
    turned = np.linalg.qr(random.normal(size=(N_COLUMNS, N_COLUMNS)))[0]
    return (factor * (random.normal(size=(5000, N_COLUMNS)) * scales @ turned + offset)).astype(np.float32)


def lengths_by_hand(rows: np.ndarray, centre: np.ndarray) -> np.ndarray:
    centred = rows.astype(np.float64) - centre
    directions = np.linalg.svd(centred, full_matrices=False)[2][N_COLUMNS - N_COLUMNS // 2 :]
    return np.linalg.norm(centred @ directions.T, axis=1)


@pytest.mark.parametrize("minor_scale", [0.3, 1e-3, 1e-6])
@pytest.mark.parametrize("offset", [0.0, 50.0])
@pytest.mark.parametrize("factor", [1.0, 1e22])
def test_lengths_are_those_of_a_singular_value_decomposition(minor_scale: float, offset: float, factor: float) -> None:
    rows = rows_of(minor_scale, offset, factor)
    centre = np.full(N_COLUMNS, 0.5 * factor)
    space = fit_minor_space(rows, centre)
    expected = lengths_by_hand(rows, centre)
    np.testing.assert_allclose(space.lengths(rows), expected, rtol=1e-4, atol=1e-5 * expected.mean())
    assert space.mean_length(rows) == pytest.approx(expected.mean(), rel=1e-4)
    assert space.directions.shape == (N_COLUMNS, 6)


def test_float32_does_where_it_can_and_not_where_it_cannot(monkeypatch: pytest.MonkeyPatch) -> None:
    used: list[object] = []
    whole = vim._second_moment

    def noted(rows: np.ndarray, centre: np.ndarray, working: object) -> np.ndarray:
        used.append(working)
        return whole(rows, centre, working)

    monkeypatch.setattr(vim, "_second_moment", noted)
    for rows, expected in (
        (rows_of(0.3), [np.float32]),
        (rows_of(1e-6), [np.float32, np.float64]),
        (rows_of(0.3, factor=1e22), [np.float32, np.float64]),
        (rows_of(0.3).astype(np.float64), [np.float64]),
    ):
        used.clear()
        fit_minor_space(rows, np.zeros(N_COLUMNS))
        assert used == expected


def test_a_mean_length_is_finite_where_only_late_rows_are_too_large_for_float32() -> None:
    rows = rows_of(minor_scale=0.3)
    centre = np.zeros(N_COLUMNS)
    space = fit_minor_space(rows, centre)
    rows[-1] *= np.float32(1e25)
    assert np.isfinite(rows).all()
    assert space.mean_length(rows) == space.lengths(rows).mean() < np.inf
