"""Which cell a worker takes next."""

from __future__ import annotations

from volta.bench.executors import _next_cell
from volta.bench.records import Cell


def cell(method, seed):
    return Cell("digits", "fair", method, seed, key="0" * 64)


def test_cells_that_would_wait_for_a_network_come_last():
    pending = [cell("gmm", 1), cell("energy", 1), cell("hyperbolic", 1), cell("softmax", 2), cell("enn", 1)]
    running = {"one": cell("swag", 1)}
    taken = [_next_cell(pending, running) for _ in range(5)]
    assert [(one.method, one.seed) for one in taken] == [
        ("softmax", 2),
        ("hyperbolic", 1),
        ("enn", 1),
        ("gmm", 1),
        ("energy", 1),
    ]


def test_beside_a_network_of_its_own_cells_keep_their_order():
    pending = [cell("gmm", 1), cell("enn", 1)]
    assert _next_cell(pending, {"one": cell("hyperbolic", 1)}).method == "gmm"
