from __future__ import annotations

import math
import os
from dataclasses import replace

import numpy as np
import pytest
import torch

from tests.conftest import blobs
from volta.core.errors import InputError
from volta.core.types import Split
from volta.networks import modules, objectives
from volta.networks import training as rows_module
from volta.networks.modules import Encoder, Identity, Linear, Mlp, Prototypes
from volta.networks.objectives import (
    CrossEntropy,
    FilmDecoder,
    VariancePenalty,
    VoltaLosses,
    contrastive_loss,
    diversity_loss,
    margin_loss,
)
from volta.networks.recipe import Budget, Recipe
from volta.networks.spec import NetworkSpec
from volta.networks.trainer import (
    FAIR_EPOCHS,
    FAIR_MIN_STEPS,
    PAPER_RECIPE,
    TABULAR_RECIPE,
    VISION_RECIPE,
    Trainer,
    baseline_setup,
    pick_device,
    volta_setup,
)
from volta.networks.training import InputRows, TrainingError, epoch_order, train

CPU = torch.device("cpu")
RECIPE = Recipe("adamw", 1e-2, 1e-3, "onecycle", batch_size=64, max_epochs=12, patience=3)


def fresh(head=None, seed=0):
    data, test = blobs()
    spec = NetworkSpec(Mlp((16,), 0.2), head or Linear(), data.input_shape, data.n_classes)
    return spec.build(seed), data, test


def test_training_learns_and_repeats_bit_for_bit():
    states = []
    for _ in range(2):
        classifier, data, test = fresh()
        log = train(classifier, data, RECIPE, CrossEntropy(), seed=7, device=CPU)
        states.append(classifier.state_dict())
    accuracy = (classifier(torch.from_numpy(test.inputs)).argmax(1).numpy() == test.labels).mean()
    assert accuracy > 0.95
    assert log.epochs <= 12
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])
    assert not classifier.training


def test_early_stopping_restores_the_best_weights():
    classifier, data, _ = fresh()
    seen = []
    noisy = replace(RECIPE, lr=0.5, patience=4, max_epochs=50)
    log = train(classifier, data, noisy, CrossEntropy(), seed=0, device=CPU, on_epoch=seen.append)
    assert log.val_loss == min(report.val_loss for report in seen)
    assert seen[log.best_epoch - 1].val_loss == log.val_loss
    logits = classifier(torch.from_numpy(data.val.inputs))
    loss = torch.nn.functional.cross_entropy(logits, torch.from_numpy(data.val.labels)).item()
    assert loss == pytest.approx(log.val_loss, rel=1e-5)
    assert log.epochs == min(50, log.best_epoch + 4)


def test_without_patience_the_last_weights_stay():
    classifier, data, _ = fresh()
    log = train(classifier, data, replace(RECIPE, patience=None), CrossEntropy(), seed=0, device=CPU)
    assert log.epochs == log.max_epochs == log.kept_epoch == 12
    assert log.marks == ()
    logits = classifier(torch.from_numpy(data.val.inputs))
    loss = torch.nn.functional.cross_entropy(logits, torch.from_numpy(data.val.labels)).item()
    assert loss == pytest.approx(log.val_losses[-1], rel=1e-5)
    assert log.val_loss == log.val_losses[-1]


def test_a_complete_cycle_ends_at_the_bottom_of_its_schedule(digits):
    data = replace(digits.fit, train=digits.fit.train.take(np.arange(60)))
    network = Trainer(seed=1).network(data)
    assert network.log.epochs == FAIR_MIN_STEPS
    assert network.log.patience is None
    reduced = Trainer(seed=1, budget=Budget(max_epochs=5)).network(data)
    assert reduced.log.epochs == reduced.log.max_epochs == 5


def test_small_batches_need_no_more_epochs():
    cycle = Recipe("adamw", 1e-3, 0.0, "onecycle", batch_size=10, max_epochs=8, patience=None, min_steps=100)
    assert cycle.for_rows(130).max_epochs == 8
    assert cycle.for_rows(121).max_epochs == 8
    assert cycle.for_rows(120).max_epochs == 9
    assert cycle.for_rows(3).max_epochs == 100
    assert Budget(batch_size=100).apply(cycle, 130).max_epochs == 50
    assert Budget(max_epochs=20).apply(cycle, 3).max_epochs == 20


def test_divergence_is_an_error_and_not_a_result():
    classifier, data, _ = fresh()
    exploding = replace(RECIPE, optimiser="sgd", lr=1e30, schedule="constant")
    with pytest.raises(TrainingError, match="training diverged: validation loss"):
        train(classifier, data, exploding, CrossEntropy(), seed=0, device=CPU)


def test_prototypes_stay_on_the_sphere_and_tau_is_learned_without_decay():
    classifier, data, _ = fresh(Prototypes(0.1))
    train(classifier, data, replace(RECIPE, weight_decay=10.0, lr=1e-3), CrossEntropy(), seed=0, device=CPU)
    lengths = classifier.head.prototypes.norm(dim=1)
    assert torch.allclose(lengths, torch.ones_like(lengths), atol=1e-6)
    assert classifier.head.temperature != pytest.approx(0.1, rel=1e-6)
    assert 0.05 < classifier.head.temperature < 0.2
    fixed, data, _ = fresh(Prototypes(1.0, learn_temperature=False))
    train(fixed, data, RECIPE, CrossEntropy(), seed=0, device=CPU)
    assert fixed.head.temperature == 1.0


@pytest.mark.parametrize("objective", [CrossEntropy(), VoltaLosses()])
def test_every_closed_form_of_the_paper_is_what_the_head_differentiates_to(monkeypatch, objective):
    torch.manual_seed(0)
    n_rows, width, n_classes = 7, 5, 4
    classifier = NetworkSpec(Identity(width), Prototypes(0.3), (width,), n_classes).build(0).double()
    head = classifier.head
    with torch.no_grad():  # p̃ of any length: training renormalises them, the formulas hold without that
        head.prototypes.mul_(torch.tensor([0.5, 1.0, 2.0, 3.0], dtype=torch.float64)[:, None])
    raw = torch.randn(n_rows, width, dtype=torch.float64, requires_grad=True)
    labels = torch.arange(n_rows) % n_classes
    unit = []

    def watched(vectors, normalise=modules.normalise):
        unit.append(normalise(vectors))
        unit[-1].retain_grad()
        return unit[-1]

    for module in (modules, objectives):
        monkeypatch.setattr(module, "normalise", watched)
    objective.build(classifier)(classifier, raw, labels).backward()

    tau, tilde = head.temperature, head.prototypes.detach()
    z, p = (rows / rows.norm(dim=1, keepdim=True) for rows in (raw.detach(), tilde))
    assert len(unit) == 2
    assert torch.equal(unit[0], z)
    assert torch.equal(unit[1], p)
    similarities = z @ p.T
    shares = (similarities / tau).softmax(1)
    residual = shares - torch.eye(n_classes, dtype=torch.float64)[labels]
    eye = torch.eye(width, dtype=torch.float64)
    by_z = (shares @ p - p[labels]) / tau / n_rows
    by_raw = [(eye - torch.outer(z[i], z[i])) @ by_z[i] / raw[i].detach().norm() for i in range(n_rows)]
    by_tilde = [
        (eye - torch.outer(p[k], p[k])) @ (residual[:, k, None] * z).sum(0) / (tau * tilde[k].norm() * n_rows)
        for k in range(n_classes)
    ]
    true = similarities[torch.arange(n_rows), labels]
    by_tau = (true - (shares * similarities).sum(1)).sum() / (tau**2 * n_rows)
    for closed, automatic in (
        (by_z, unit[0].grad),
        (residual.T @ z / tau / n_rows, unit[1].grad),
        (torch.stack(by_raw), raw.grad),
        (torch.stack(by_tilde), head.prototypes.grad),
        (by_tau * tau, head.log_temperature.grad),  # τ = exp(φ)
    ):
        assert torch.allclose(closed, automatic, rtol=1e-10, atol=1e-14)
    assert (head.prototypes.grad * tilde).sum(1).abs().max() < 1e-15, "no gradient along a prototype"


def test_auxiliary_losses_by_hand():
    similarities = torch.tensor([[0.9, 0.1, 0.0], [0.3, 0.25, 0.1]])
    assert margin_loss(similarities, 0.2).item() == pytest.approx((0.0 + 0.15) / 2)
    half = math.sqrt(0.5)
    prototypes = torch.tensor([[1.0, 0.0], [half, half], [0.0, 1.0]])
    assert diversity_loss(prototypes).item() == pytest.approx(4 * 0.5 / 6, rel=1e-6)
    vectors = torch.tensor([[1.0, 0.0], [0.6, 0.8], [0.0, 1.0], [-1.0, 0.0]])
    labels = torch.tensor([0, 0, 1, 1])
    values = []
    for i in range(4):
        others = [k for k in range(4) if k != i]
        total = sum(math.exp(float(vectors[i] @ vectors[k]) / 0.5) for k in others)
        partner = next(k for k in others if labels[k] == labels[i])
        values.append(-math.log(math.exp(float(vectors[i] @ vectors[partner]) / 0.5) / total))
    assert contrastive_loss(vectors, labels, temperature=0.5).item() == pytest.approx(np.mean(values), rel=1e-6)
    lonely = contrastive_loss(vectors, torch.arange(4))
    assert lonely.item() == 0.0
    decoder = FilmDecoder(3, 4, hidden=2)
    with torch.no_grad():
        decoder.scale.weight[1] = torch.tensor([2.0, 0.0])
        decoder.shift.weight[1] = torch.tensor([0.0, 1.0])
        row = torch.randn(1, 4)
        hidden = torch.relu(decoder.inner(row)) * torch.tensor([2.0, 0.0]) + torch.tensor([0.0, 1.0])
        assert torch.allclose(decoder(row, torch.tensor([1])), decoder.outer(hidden))


def test_objectives_add_up():
    classifier, data, _ = fresh(Prototypes(0.1))
    classifier.eval()
    inputs, labels = torch.from_numpy(data.train.inputs[:50]), torch.from_numpy(data.train.labels[:50])
    plain = CrossEntropy().build(classifier)(classifier, inputs, labels)
    nothing = VoltaLosses().build(classifier)(classifier, inputs, labels)
    assert nothing.item() == pytest.approx(plain.item(), rel=1e-6)
    margin = VoltaLosses(margin=2.0).build(classifier)(classifier, inputs, labels)
    similarities = classifier.head.similarities(classifier.body(inputs))
    assert margin.item() == pytest.approx(plain.item() + 2.0 * margin_loss(similarities, 0.2).item(), rel=1e-5)
    linear, *_ = fresh()
    linear.eval()
    logits = linear(inputs)
    penalised = VariancePenalty(0.1).build(linear)(linear, inputs, labels)
    expected = torch.nn.functional.cross_entropy(logits, labels) + 0.1 * logits.detach().numpy().var(axis=1).mean()
    assert penalised.item() == pytest.approx(expected.item(), rel=1e-5)


def test_protocols_are_as_specified(digits):
    body, recipe = baseline_setup(digits.fit, "paper")
    assert body == Mlp((256, 128, 64), 0.2)
    assert recipe == Recipe("adam", 1e-3, 1e-4, "cosine", 128, 100, 10)
    pixels = replace(digits.fit, kind="pixels", encoder="vision", paper_epochs=80)
    body, recipe = baseline_setup(pixels, "paper")
    assert body.dropout == 0.0
    assert recipe == replace(PAPER_RECIPE, max_epochs=80)
    assert recipe.batch_size == 256
    assert baseline_setup(digits.fit, "fair") == volta_setup(digits.fit, "fair")
    assert volta_setup(digits.fit, "paper")[1] == TABULAR_RECIPE
    assert Recipe("adamw", 3e-3, 1e-3, "onecycle", 1024, 80, 20) == TABULAR_RECIPE
    encoder, recipe = volta_setup(replace(digits.fit, encoder="vision"), "paper")
    assert encoder == Encoder((512, 256), 0.1, None, True)
    assert recipe == VISION_RECIPE == Recipe("adamw", 2e-3, 1e-3, "onecycle", 512, 100, 20)
    with pytest.raises(InputError, match="VOLTA works on frozen features"):
        volta_setup(pixels, "fair")


@pytest.mark.parametrize("kind", ["vision", "tabular"])
def test_the_fair_recipe_is_a_complete_cycle_without_a_checkpoint(digits, kind):
    data = replace(digits.fit, encoder=kind)
    encoder, fair = volta_setup(data, "fair")
    paper_encoder, paper = volta_setup(data, "paper")
    assert encoder == paper_encoder
    assert fair == replace(paper, max_epochs=FAIR_EPOCHS[kind], patience=None, min_steps=FAIR_MIN_STEPS)
    assert fair.schedule == "onecycle"


def test_budgets_limit_and_are_checked():
    assert Budget(max_epochs=3).apply(PAPER_RECIPE, 9).max_epochs == 3
    assert Budget(max_epochs=500).apply(PAPER_RECIPE, 9).max_epochs == 100
    assert Budget(batch_size=7).apply(PAPER_RECIPE, 9).batch_size == 7
    with pytest.raises(InputError, match="max_epochs is 0; pass a whole number of at least 1"):
        Budget(max_epochs=0)


def test_equal_requests_train_once_and_different_ones_do_not_mix():
    data, _ = blobs()
    trainer = Trainer(seed=1, budget=Budget(max_epochs=2))
    first = trainer.network(data)
    assert trainer.network(data) is first
    assert trainer.n_trained == 1
    assert trainer.seconds_reused == pytest.approx(first.log.seconds, abs=0.05)
    assert trainer.network(data, member=1).key != first.key
    assert trainer.network(data, dropout=0.5).key != first.key
    other = Trainer(seed=2, budget=Budget(max_epochs=2), store=trainer.store)
    assert other.network(data).key != first.key
    assert trainer.n_trained == 3
    assert list(other.trainings.values()) == [other.network(data).log]
    assert len(trainer.trainings) == 3
    trainer.snapshots(first, data, replace(RECIPE, patience=None))
    assert [log.epochs for log in trainer.trainings.values()] == [2, 2, 2, 2]


@pytest.mark.parametrize("n_in_memory", [1 << 28, 8])
def test_rows_come_as_float32_from_memory_and_from_disk(tmp_path, monkeypatch, n_in_memory):
    monkeypatch.setattr(rows_module, "IN_MEMORY_VALUES", n_in_memory)
    array = np.random.default_rng(0).normal(size=(10, 3)).astype(np.float16)
    np.save(tmp_path / "a.npy", array)
    order = np.array([3, 1, 7, 4, 2])
    mapped = np.load(tmp_path / "a.npy", mmap_mode="r")
    for source, whole in ((array, array), (mapped, array), (mapped[2:], array[2:]), (mapped[::-1], array[::-1])):
        rows = InputRows(source, CPU)
        assert len(rows) == len(whole)
        walked = list(rows.walk(order, 2))
        assert np.array_equal(np.concatenate([index for index, _ in walked]), order)
        got = torch.cat([batch for _, batch in walked])
        assert got.dtype == torch.float32
        assert np.array_equal(got.numpy(), whole[order].astype(np.float32))
        assert np.array_equal(torch.cat(list(rows.batches(4))).numpy(), whole.astype(np.float32))
    pixels = InputRows(np.array([[[[0, 255]]]], dtype=np.uint8), CPU)
    assert next(pixels.batches(1)).flatten().tolist() == [0.0, 1.0]


def test_a_file_cut_short_while_training_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr(rows_module, "IN_MEMORY_VALUES", 8)
    np.save(tmp_path / "a.npy", np.zeros((10, 3), dtype=np.float32))
    rows = InputRows(np.load(tmp_path / "a.npy", mmap_mode="r"), CPU)
    os.truncate(tmp_path / "a.npy", 160)
    with pytest.raises(OSError, match="ended before row 9"):
        list(rows.walk(np.arange(10), 4))


def test_large_sets_are_shuffled_in_blocks_within_windows(monkeypatch):
    random = np.random.default_rng(0)
    small = epoch_order(1000, 1000, 32, np.random.default_rng(0))
    assert np.array_equal(small, random.permutation(1000))
    monkeypatch.setattr(rows_module, "IN_MEMORY_VALUES", 8)
    order = epoch_order(10_005, 10_005 * 4, 8, np.random.default_rng(0))
    assert np.array_equal(np.sort(order), np.arange(10_005))
    window = order[:512]
    blocks, sizes = np.unique(window // 16, return_counts=True)
    assert len(blocks) in (32, 33, 34)
    assert np.median(sizes) == 16
    assert np.ptp(blocks) > 400
    assert np.mean(np.abs(np.diff(window)) == 1) < 0.05


def test_a_memory_map_trains_as_its_array_does(tmp_path, monkeypatch):
    monkeypatch.setattr(rows_module, "IN_MEMORY_VALUES", 8)
    data, test = blobs()
    np.save(tmp_path / "a.npy", data.train.inputs)
    mapped = replace(data, train=Split(np.load(tmp_path / "a.npy", mmap_mode="r"), data.train.labels))
    first, second = (
        Trainer(seed=1, budget=Budget(max_epochs=2)).network(part).outputs(test.inputs) for part in (data, mapped)
    )
    assert np.array_equal(first.logits, second.logits)


def test_devices_are_named_or_refused():
    assert pick_device("cpu").type == "cpu"
    assert pick_device("auto").type in {"cpu", "cuda", "mps"}
    with pytest.raises(InputError, match="device is 'tpu'; pass auto, cpu, cuda or mps"):
        pick_device("tpu")
    if not torch.cuda.is_available():
        with pytest.raises(InputError, match="device 'cuda' is not available"):
            pick_device("cuda")


@pytest.mark.parametrize("n_epochs", range(1, 14))
def test_any_number_of_steps_can_be_scheduled(n_epochs):
    classifier, data, _ = fresh()
    recipe = replace(RECIPE, max_epochs=n_epochs, batch_size=1000, patience=None)
    assert train(classifier, data, recipe, CrossEntropy(), seed=0, device=CPU).epochs == n_epochs


def test_bytes_are_scaled_as_images_and_kept_as_features():
    flat = InputRows(np.array([[0, 255]], dtype=np.uint8), CPU)
    assert next(flat.batches(1)).tolist() == [[0.0, 255.0]]
    big_endian = InputRows(np.array([[1.5, 2.5]], dtype=">f8"), CPU)
    assert next(big_endian.batches(1)).tolist() == [[1.5, 2.5]]
