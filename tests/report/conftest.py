from __future__ import annotations

from pathlib import Path

import pytest

from volta.bench.store import RunStore
from volta.networks.recipe import Budget
from volta.report import build_report

from .synthetic import ABLATION, Plan, write_run

NASTY = '</script><img src=x onerror="problems.push(1)"> & $x_{'

SMALL = Plan(
    methods=(
        ("volta", "VOLTA", "volta"),
        ("softmax", f"Soft {NASTY}", "extra"),
        ("temperature", "Temperature scaling", "paper"),
        ("mahalanobis", "Mahalanobis", "paper"),
        *((name, title, "ablation") for name, title in ABLATION[:3]),
    ),
    budget=Budget(max_epochs=5),
    notes=(f"a note {NASTY}",),
    floored={"test": 2},
    failed=frozenset({("mahalanobis", 456)}),
)


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> RunStore:
    """A run with a failed cell, an ablation and hostile names, its report built."""
    store = write_run(tmp_path_factory.mktemp("small") / "run", SMALL)
    build_report(store, 500)
    return store


@pytest.fixture(scope="session")
def page(small: RunStore) -> str:
    return (small.root / "report.html").read_text(encoding="utf-8")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "run"
