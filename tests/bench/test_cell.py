"""What cells of one process share, and for how long."""

from __future__ import annotations

from contextlib import contextmanager

from volta.bench.cell import CellRunner, DiskNetworkStore
from volta.bench.config import TaskLoader, plan_cells
from volta.bench.records import RunConfig
from volta.networks.recipe import Budget


def test_networks_of_one_block_are_let_go_at_the_next(tmp_path):
    asked, held = [], []

    class Watched(DiskNetworkStore):
        @contextmanager
        def claim(self, key, device):
            with super().claim(key, device) as network:
                yield network
            asked.append(key)
            held.append(len(self._networks))

    config = RunConfig(tasks=("digits",), methods=("softmax", "energy"), seeds=(1, 2, 3), budget=Budget(max_epochs=1))
    tasks = TaskLoader(config)
    runner = CellRunner(config, Watched(tmp_path), tasks.load, tasks.method)
    for cell in plan_cells(tasks):
        runner.run(cell)
    assert len(set(asked)) == 3
    assert set(held) == {1}
