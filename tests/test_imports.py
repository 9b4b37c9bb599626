"""What an import loads. Over two seconds: it shows in new processes alone."""

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
    assert loaded_after("import volta.cli.main") == set()
    assert loaded_after("import volta.metrics") == set()


def test_the_commands_help_loads_neither_numpy_nor_rich():
    code = (
        "import sys\nfrom volta.cli import main\nsys.argv = ['volta', '--help']\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "print([name for name in ('numpy', 'rich') if name in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "Usage: volta" in done.stdout
    assert done.stderr == "[]\n"


def test_importing_the_classifier_loads_no_torch():
    assert "torch" not in loaded_after("from volta import VoltaClassifier; VoltaClassifier()")


def test_reading_and_reporting_runs_needs_no_torch():
    assert "torch" not in loaded_after(
        "import volta.bench.store, volta.bench.cell_metrics, volta.bench.store, volta.stats, volta.paper, volta.report"
    )


WITHOUT_THE_BENCHMARK = """
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("jinja2", "matplotlib", "rich", "typer"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Absent())
"""


def run_without_the_benchmarks_packages(code):
    return subprocess.run(
        [sys.executable, "-c", WITHOUT_THE_BENCHMARK + code], capture_output=True, text=True, check=False
    )


def test_the_library_works_without_the_benchmarks_packages():
    done = run_without_the_benchmarks_packages(
        "import numpy as np, volta, volta.metrics\n"
        "random = np.random.default_rng(0)\n"
        "labels = np.arange(120) % 2\n"
        "rows = random.normal(size=(120, 3)) + 3.0 * labels[:, None]\n"
        "classifier = volta.VoltaClassifier(max_epochs=3).fit(rows, labels)\n"
        "print(volta.metrics.accuracy(classifier.predict_proba(rows), labels) > 0.5)\n"
    )
    assert done.stdout.strip() == "True", done.stderr


def test_the_command_says_which_packages_it_lacks():
    done = run_without_the_benchmarks_packages("from volta.cli import main; main()")
    assert done.returncode == 2
    assert done.stderr == "error: the volta command needs typer; install it with: pip install 'volta-uq[bench]'\n"
