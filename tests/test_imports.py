from __future__ import annotations

import subprocess
import sys

HEAVY = ("torch", "matplotlib", "ray", "sklearn", "scipy", "onnxruntime", "pyarrow")


def loaded_after(statement):
    code = f"import sys; {statement}; print(' '.join(m for m in {HEAVY!r} if m in sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_importing_volta_loads_nothing_heavy():
    assert loaded_after("import volta") == set()
    assert loaded_after("import volta.cli") == set()
    assert loaded_after("import volta.metrics") == set()


def test_reading_and_reporting_runs_needs_no_torch():
    assert "torch" not in loaded_after(
        "import volta.bench.store, volta.bench.scoring, volta.bench.status, volta.stats, volta.report"
    )
