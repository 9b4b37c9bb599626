import doctest
import importlib
import pkgutil
import subprocess
import sys

import pytest

from volta import decisions

MODULES = [module.name for module in pkgutil.iter_modules(decisions.__path__)]


@pytest.mark.parametrize("name", MODULES)
def test_examples_run(name):
    found = doctest.testmod(importlib.import_module(f"volta.decisions.{name}"))
    assert found.attempted > 0
    assert found.failed == 0


def test_public_names_are_there_and_documented():
    assert sorted(decisions.__all__) == list(decisions.__all__)
    assert all(getattr(decisions, name).__doc__ for name in decisions.__all__)


def test_importing_decisions_needs_numpy_alone():
    code = "import sys, volta.decisions; print([m for m in ('torch', 'scipy', 'sklearn', 'matplotlib') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
