"""Sampled passes share what lies before the first dropout layer, and are the passes they would be without that."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

from volta.networks.modules import AnyEncoder, Cnn, Encoder, EvenEncoder, Identity, Linear, Mlp, Wide, sampled_from
from volta.networks.network import Network
from volta.networks.recipe import TrainingLog
from volta.networks.spec import NetworkSpec
from volta.networks.training import EVAL_ROWS

N_COLUMNS = 6
EVEN = {"low": (0.0,) * 6, "rooted": (True,) * 6, "centre": (0.1,) * 6, "scale": (2.0,) * 6}
BODIES: dict[str, AnyEncoder] = {
    "mlp": Mlp((8, 5)),
    "residual encoder": Encoder((8, 5)),
    "deep encoder": Encoder((8, 5), projection=7, residual=False),
    "even encoder": EvenEncoder(**EVEN, hidden=(8,), dropout=0.3, projection=None, residual=True),
    "wide": Wide(**EVEN, hidden=8),
    "no dropout": Identity(N_COLUMNS),
}


def network_of(body: AnyEncoder, shape: tuple[int, ...]) -> Network:
    spec = NetworkSpec(body, Linear(), shape, 3)
    log = TrainingLog(1, None, 0.0, (1.0,), 0.0)
    return Network(spec, spec.build(0).eval(), log, "key", torch.device("cpu"))


def inputs_of(shape: tuple[int, ...], n_rows: int) -> np.ndarray:
    return np.random.default_rng(1).normal(size=(n_rows, *shape)).astype(np.float32)


def generators() -> list[np.random.Generator]:
    return [np.random.default_rng(index) for index in range(3)]


def whole_pass(network: Network, inputs: np.ndarray, random: np.random.Generator) -> np.ndarray:
    with sampled_from(random):
        return network.outputs(inputs).logits


def check_equal(network: Network, inputs: np.ndarray) -> None:
    found = [np.empty((len(inputs), 3)) for _ in range(3)]
    for rows, passes in network.sampled_logits(inputs, generators()):
        for logits, drawn in zip(found, passes, strict=True):
            logits[rows] = drawn
    for logits, random in zip(found, generators(), strict=True):
        np.testing.assert_array_equal(logits, whole_pass(network, inputs, random))


@pytest.mark.parametrize("body", BODIES.values(), ids=list(BODIES))
def test_passes_over_several_pieces_are_those_of_the_whole_network(body: AnyEncoder) -> None:
    network = network_of(body, (N_COLUMNS,))
    check_equal(network, inputs_of((N_COLUMNS,), EVAL_ROWS + 7))


def test_passes_on_pixels_are_those_of_the_whole_network() -> None:
    check_equal(network_of(Cnn(dropout=0.2), (3, 8, 8)), inputs_of((3, 8, 8), 70))


@pytest.mark.parametrize(
    ("body", "shape"), [(Mlp((8, 5)), (6,)), (Encoder((8, 5)), (6,)), (Cnn(dropout=0.2), (3, 8, 8))]
)
def test_what_lies_before_dropout_is_computed_once(body: AnyEncoder, shape: tuple[int, ...]) -> None:
    network = network_of(body, shape)
    calls: list[int] = []
    layers = [
        layer for layer in network.classifier.body.modules() if isinstance(layer, torch.nn.Linear | torch.nn.Conv2d)
    ]
    layers[0].register_forward_hook(lambda *_: calls.append(1))
    layers[-2 if isinstance(body, Encoder) else -1].register_forward_hook(lambda *_: calls.append(2))
    list(network.sampled_logits(inputs_of(shape, 5), generators()))
    assert calls == [1, 2, 2, 2]


def test_a_walk_that_is_left_leaves_dropout_off() -> None:
    network, inputs = network_of(BODIES["mlp"], (N_COLUMNS,)), inputs_of((N_COLUMNS,), EVAL_ROWS + 7)
    before = network.outputs(inputs).logits
    walk = network.sampled_logits(inputs, generators())
    _, passes = next(walk)
    assert not np.array_equal(passes[0], before[:EVAL_ROWS])
    np.testing.assert_array_equal(network.outputs(inputs).logits, before)


def test_threads_do_not_disturb_one_another() -> None:
    network, inputs = network_of(BODIES["mlp"], (N_COLUMNS,)), inputs_of((N_COLUMNS,), 500)
    expected, plain = next(network.sampled_logits(inputs, generators()))[1], network.outputs(inputs).logits

    def call(sample: bool) -> bool:
        if sample:
            return np.array_equal(next(network.sampled_logits(inputs, generators()))[1], expected)
        return np.array_equal(network.outputs(inputs).logits, plain)

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(call, [True, False, True] * 40))


def test_no_rows_give_no_pieces() -> None:
    assert not list(network_of(BODIES["mlp"], (N_COLUMNS,)).sampled_logits(inputs_of((N_COLUMNS,), 0), generators()))
