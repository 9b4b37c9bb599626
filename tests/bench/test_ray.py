"""A real Ray cluster of two nodes on this machine, one of which is lost on the way."""

from __future__ import annotations

import threading
import time

import pytest

from tests.bench.running import results
from volta.bench.progress import Listener
from volta.bench.records import RunConfig
from volta.bench.runner import Execution, run
from volta.bench.store import RunStore, write_results
from volta.networks.recipe import Budget

pytest.importorskip("ray", reason="Ray is not installed: pip install 'volta-uq[ray]'")
pytestmark = [
    pytest.mark.ray,
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]

CONFIG = RunConfig(("digits",), ("volta", "softmax", "temperature"), seeds=(1, 2), budget=Budget(max_epochs=3))


class Count(Listener):
    def __init__(self):
        self.done, self.failed = [], []
        self.event = threading.Event()

    def cell_done(self, cell, record):
        self.done.append(cell)
        self.event.set()

    def cell_failed(self, cell, reason, path):
        self.failed.append((cell, reason))


# Over two seconds: only a real cluster shows that Ray gives equal bytes and that a lost node costs nothing.
def test_a_lost_node_costs_nothing(tmp_path, monkeypatch):
    import ray
    from ray.cluster_utils import Cluster

    # By default a busy machine leaves nothing to Ray's workers.
    monkeypatch.setenv("RAY_worker_niceness", "0")
    local, remote = RunStore(tmp_path / "local"), RunStore(tmp_path / "ray")
    run(CONFIG, local, Listener(), execution=Execution("local"))
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    doomed = cluster.add_node(num_cpus=1)
    try:
        cluster.wait_for_nodes()
        count = Count()

        def lose_a_node():
            count.event.wait(120)
            time.sleep(0.2)
            cluster.remove_node(doomed, allow_graceful=False)

        killer = threading.Thread(target=lose_a_node)
        killer.start()
        plan = run(CONFIG, remote, count, execution=Execution("ray", address=cluster.address))
        killer.join()
        assert count.failed == []
        assert plan.missing == []
        assert len(count.done) == 6
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and sum(node["Alive"] for node in ray.nodes()) > 1:
            time.sleep(0.5)
        assert sum(node["Alive"] for node in ray.nodes()) == 1
    finally:
        ray.shutdown()
        cluster.shutdown()
    for store in (local, remote):
        write_results(store, store.records())
    assert results(remote.root) == results(local.root)
