from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

from tests.conftest import blobs
from volta.core.seeding import derive_seed
from volta.networks.modules import (
    Cnn,
    Dropout,
    Encoder,
    Epinet,
    Epistemic,
    Hyperbolic,
    Linear,
    Mlp,
    Prototypes,
    hyperbolic_logits,
    normalise,
    seed_layers,
)
from volta.networks.recipe import Recipe
from volta.networks.spec import NetworkSpec, spec_from_json
from volta.networks.trainer import TABULAR_ENCODER, VISION_ENCODER, Trainer


@pytest.mark.parametrize("p", [0.1, 0.2, 0.5])
def test_dropout_drops_with_probability_p_and_keeps_the_mean(p):
    layer = Dropout(p).train()
    layer.random = np.random.default_rng(0)
    ones = torch.ones(1000, 1000)
    dropped = layer(ones)
    assert (dropped == 0).float().mean().item() == pytest.approx(p, abs=3e-3)
    assert dropped.mean().item() == pytest.approx(1.0, abs=3e-3)
    assert dropped.max().item() == pytest.approx(1 / (1 - p), rel=1e-4)


def test_dropout_is_off_in_evaluation_and_draws_from_its_generator():
    layer = Dropout(0.5)
    ones = torch.ones(8, 8)
    assert torch.equal(layer.eval()(ones), ones)
    layer.train()
    seed_layers(layer, np.random.default_rng(3))
    first = layer(ones)
    seed_layers(layer, np.random.default_rng(3))
    assert torch.equal(layer(ones), first)
    state = torch.random.get_rng_state()
    layer(ones)
    assert torch.equal(torch.random.get_rng_state(), state)


def test_normalise_survives_a_zero_row():
    assert normalise(torch.tensor([[3.0, 4.0], [0.0, 0.0]])).tolist() == [
        [pytest.approx(0.6), pytest.approx(0.8)],
        [0, 0],
    ]


def parameters(module):
    return sum(parameter.numel() for parameter in module.parameters())


def test_bodies_have_the_specified_sizes():
    vision = VISION_ENCODER.build((512,))
    assert parameters(vision) == (512 * 512 + 512) + 2 * 512 + (512 * 256 + 256) + 2 * 256 + (512 * 256 + 256)
    assert vision(torch.zeros(2, 512)).shape == (2, 256)
    tabular = TABULAR_ENCODER.build((64,))
    widths = [(64, 256), (256, 128), (128, 64)]
    assert parameters(tabular) == sum(a * b + b + 2 * b for a, b in widths) + 64 * 128 + 128
    assert tabular(torch.zeros(2, 64)).shape == (2, 128)
    assert Mlp().build((10,))(torch.zeros(3, 10)).shape == (3, 64)
    cnn = Cnn().build((3, 32, 32))
    convolutions = 3 * 64 * 9 + 64 + 64 * 64 * 9 + 64 + 64 * 128 * 9 + 128 + 128 * 128 * 9 + 128
    norms = 2 * (64 + 64 + 128 + 128)
    assert parameters(cnn) == convolutions + norms + 8192 * 256 + 256
    assert cnn(torch.zeros(2, 3, 32, 32)).shape == (2, 256)


def test_bodies_refuse_rows_of_the_wrong_shape():
    with pytest.raises(ValueError, match="needs flat feature rows"):
        Encoder().build((3, 32, 32))
    with pytest.raises(ValueError, match="divisible by 4"):
        Cnn().build((3, 30, 32))


def test_specs_survive_json_and_build_the_same_weights_from_the_same_seed():
    for body in (Mlp(), VISION_ENCODER, Encoder((16,), 0.0, projection=8, residual=False)):
        for head in (Linear(), Prototypes(), Hyperbolic(mobius=True), Epistemic(4), Epinet(4)):
            spec = NetworkSpec(body, head, (12,), 5)
            assert spec_from_json(spec.to_json()) == spec
            state = torch.random.get_rng_state()
            first, again, other = (spec.build(seed).state_dict() for seed in (1, 1, 2))
            assert torch.equal(torch.random.get_rng_state(), state)
            assert all(torch.equal(first[name], again[name]) for name in first)
            assert any(not torch.equal(first[name], other[name]) for name in first)


def mobius_add(x, y):
    """x ⊕ y in the ball of curvature −1, straight from the definition."""
    xy, xx, yy = x @ y, x @ x, y @ y
    return ((1 + 2 * xy + yy) * x + (1 - xx) * y) / (1 + 2 * xy + xx * yy)


def test_hyperbolic_logits_match_mobius_arithmetic():
    random = np.random.default_rng(0)
    for _ in range(50):
        z, p = (vector / np.linalg.norm(vector) for vector in random.normal(size=(2, 6)))
        x, y = np.tanh(1.0) * z, np.tanh(1.0) * p
        difference = np.linalg.norm(mobius_add(-x, y))
        cosine = torch.tensor([[float(z @ p)]], dtype=torch.float64)
        assert hyperbolic_logits(cosine, mobius=True).item() == pytest.approx(-(difference**2), rel=1e-9)
        assert hyperbolic_logits(cosine, mobius=False).item() == pytest.approx(
            -((2 * np.arctanh(difference)) ** 2), rel=1e-9
        )


def test_hyperbolic_gradients_are_finite_where_points_coincide():
    cosines = torch.tensor([[1.0, -1.0]], requires_grad=True)
    hyperbolic_logits(cosines, mobius=False).sum().backward()
    assert torch.isfinite(cosines.grad).all()


def test_the_epinet_sees_features_through_a_stop_gradient_and_its_prior_is_fixed():
    head = Epinet(n_indices=3, prior_scale=0.5).build(4, 5)
    rows = torch.randn(6, 4, requires_grad=True)
    indices, labels = torch.tensor([0, 1, 2, 0, 1, 2]), torch.arange(6) % 5
    logits = head.logits_at(rows, indices)
    parts = head.base(rows) + head.epinet(rows, indices) + 0.5 * head.prior(rows, indices)
    assert torch.allclose(logits, parts)
    torch.nn.functional.cross_entropy(logits, labels).backward()
    residual = (logits.softmax(1) - torch.eye(5)[labels]).detach() / 6
    assert torch.allclose(rows.grad, residual @ head.base.weight.detach(), atol=1e-7)
    assert all(parameter.grad is None for parameter in head.prior.parameters())
    assert all(parameter.grad is not None for parameter in head.epinet.parameters())
    before = {name: value.clone() for name, value in head.state_dict().items()}
    optimiser = torch.optim.AdamW([p for p in head.parameters() if p.requires_grad], lr=0.1, weight_decay=0.5)
    optimiser.step()
    moved = {name.split(".")[0] for name, value in head.state_dict().items() if not torch.equal(value, before[name])}
    assert moved == {"base", "epinet"}
    hidden = torch.relu(head.prior.features(rows) + head.prior.indices(head.prior.index(indices)))
    assert torch.equal(head.prior(rows, indices), head.prior.logits(hidden))
    assert (head.prior(rows, indices) - head.prior(rows, indices.flip(0))).abs().max() > 0.01


def test_a_prior_function_survives_training_as_it_was_drawn():
    data, _ = blobs()
    spec = NetworkSpec(Mlp((16,), 0.2), Epinet(), data.input_shape, data.n_classes)
    trainer = Trainer(seed=1)
    network = trainer.network(data, spec, Recipe("adamw", 1e-2, 1e-1, "onecycle", 64, 2, None))
    drawn = spec.build(derive_seed(1, "weights", 0)).head
    for name, value in drawn.prior.state_dict().items():
        assert torch.equal(value, network.classifier.head.prior.state_dict()[name])
    assert not torch.equal(drawn.base.weight, network.classifier.head.base.weight)


def test_the_plain_epistemic_head_is_an_mlp_on_features_joined_to_the_embedding_of_the_index():
    head = Epistemic(n_indices=3, embedding=2, hidden=7).build(4, 5)
    rows, indices = torch.randn(6, 4, requires_grad=True), torch.tensor([0, 1, 2, 0, 1, 2])
    mlp = head.mlp
    joined = torch.cat([rows, mlp.index(indices)], dim=1)
    weight = torch.cat([mlp.features.weight, mlp.indices.weight], dim=1)
    by_hand = torch.relu(joined @ weight.T + mlp.features.bias) @ mlp.logits.weight.T + mlp.logits.bias
    assert torch.allclose(head.logits_at(rows, indices), by_hand, atol=1e-6)
    head.logits_at(rows, indices).sum().backward()
    assert rows.grad.abs().sum() > 0, "the body learns through the head"
    assert all(parameter.grad is not None for parameter in head.parameters())


@pytest.mark.parametrize("kind", [Epistemic, Epinet])
def test_a_head_with_an_index_averages_probabilities_over_all_indices(kind):
    head = kind(n_indices=3).build(4, 5)
    rows = torch.randn(6, 4)
    each = torch.stack([head.logits_at(rows, torch.full((6,), index)).softmax(1) for index in range(3)])
    averaged = head.eval()(rows).exp()
    assert torch.allclose(averaged, each.mean(0), atol=1e-6)
    head.train()
    seed_layers(head, np.random.default_rng(0))
    drawn = head(rows)
    expected = np.random.default_rng(0).integers(3, size=6)
    assert torch.equal(drawn, head.logits_at(rows, torch.from_numpy(expected)))


def test_weights_drawn_in_several_threads_are_those_drawn_alone():
    spec = NetworkSpec(Encoder(hidden=(32, 16)), Linear(), (8,), 3)
    alone = [spec.build(seed).state_dict() for seed in range(40)]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda seed: spec.build(seed).state_dict(), range(40)))
    for first, second in zip(alone, together, strict=True):
        assert all(torch.equal(first[name], second[name]) for name in first)
