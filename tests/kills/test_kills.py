from __future__ import annotations

import sys

import pytest

from tests.kills.__main__ import n_bad, run_scenario

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="processes are found through /proc"),
]


def test_killed_imports_lose_and_leave_nothing() -> None:
    counts = run_scenario("import", 3, seed=0)
    assert counts["kills"] == 3
    assert n_bad(counts) == 0
