"""VOLTA+'s body: which columns are rooted, how all are scaled, and what the network sees of them."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from volta.networks.modules import LARGEST_INPUT, Encoder, EvenEncoder, Linear, Wide, fit_even, prepared
from volta.networks.spec import NetworkSpec, spec_from_json


def wide(rows):
    return Wide(**vars(fit_even(rows)), hidden=4, dropout=0.5)


def test_prepared_rows_by_hand():
    body = Wide(low=(1.0, 0.0), rooted=(True, False), centre=(1.0, 2.0), scale=(0.5, 4.0), hidden=4)
    rows = np.array([[5.0, 6.0], [1.0, 2.0], [-3.0, -2.0]])
    assert np.allclose(prepared(body, rows), [[2.0, 1.0], [-2.0, 0.0], [-6.0, -1.0]])


def test_skewed_columns_are_rooted_from_their_least_value_and_others_are_not():
    random = np.random.default_rng(0)
    rows = np.column_stack([random.exponential(size=2000), random.normal(size=2000), -random.exponential(size=2000)])
    body = wide(rows)
    assert body.rooted == (True, False, False)
    roots = np.sqrt(rows[:, 0] - rows[:, 0].min())
    assert body.centre == pytest.approx((roots.mean(), *rows[:, 1:].mean(axis=0)))
    deviations = np.array([roots.std(), *rows[:, 1:].std(axis=0)])
    assert body.scale == pytest.approx(deviations + 0.1 * deviations.mean())


def test_prepared_rows_do_not_depend_on_the_columns_scale_and_offset():
    rows = np.random.default_rng(0).exponential(size=(500, 3))
    assert np.allclose(prepared(wide(rows), rows), prepared(wide(7.0 * rows - 3.0), 7.0 * rows - 3.0), atol=1e-4)


def test_columns_that_do_not_vary_and_huge_values_stay_finite():
    rows = np.random.default_rng(0).exponential(size=(50, 3))
    rows[:, 1] = 7.0
    found = prepared(wide(rows), np.array([[1e30, 7.0, -1e30], [3e38, -3e38, 0.0]]))
    assert np.abs(found).max() == LARGEST_INPUT
    assert np.isfinite(found).all()
    assert np.isfinite(prepared(wide(np.ones((5, 3))), np.ones((2, 3)))).all()


def test_the_penultimate_vector_ends_with_the_prepared_rows_and_the_spec_survives_json():
    rows = np.random.default_rng(0).exponential(size=(50, 3)).astype(np.float32)
    spec = NetworkSpec(wide(rows), Linear(), (3,), 2)
    assert spec_from_json(spec.to_json()) == spec
    assert spec.body.width == 7
    vectors = spec.build(seed=0).eval().body(torch.from_numpy(rows)).detach().numpy()
    assert vectors.shape == (50, 7)
    assert np.array_equal(vectors[:, 4:], prepared(spec.body, rows))


def test_voltas_encoder_sees_the_prepared_rows():
    rows = np.random.default_rng(0).exponential(size=(50, 3)).astype(np.float32)
    encoder = Encoder(hidden=(5,), dropout=0.0, projection=2, residual=True)
    spec = NetworkSpec(EvenEncoder(**vars(fit_even(rows)), **vars(encoder)), Linear(), (3,), 2)
    assert spec_from_json(spec.to_json()) == spec
    vectors, plain = spec.build(seed=0).eval().body, NetworkSpec(encoder, Linear(), (3,), 2).build(seed=0).eval().body
    assert torch.equal(vectors(torch.from_numpy(rows)), plain(torch.from_numpy(prepared(spec.body, rows))))
