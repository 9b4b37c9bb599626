"""What is promised to users: the names, where they are listed, and an example of each function that runs."""

from __future__ import annotations

import doctest
import importlib
import inspect
import re
from pathlib import Path

import pytest

import volta

MODULES = ("volta", "volta.methods", "volta.metrics", "volta.decisions")
PAGE = Path(__file__).parents[1] / "docs" / "api.md"


def public(module_name):
    """Return (name, object) of what a public module promises."""
    module = importlib.import_module(module_name)
    return [(name, getattr(module, name)) for name in sorted(module.__all__)]


def listed(module_name):
    """Return the names that the documentation lists under the heading of a module."""
    _, _, rest = PAGE.read_text(encoding="utf-8").partition(f"\n## `{module_name}`\n")
    section = rest.partition("\n## ")[0]
    return re.findall(r"^\| `(\w+)` \|", section, flags=re.MULTILINE)


@pytest.mark.parametrize("module_name", MODULES)
def test_the_page_lists_every_public_name_and_no_other(module_name):
    assert sorted(listed(module_name)) == [name for name, _ in public(module_name)]


def test_a_name_that_is_not_public_is_not_there():
    with pytest.raises(AttributeError, match="module 'volta' has no attribute 'shelf'"):
        _ = volta.shelf
    assert dir(volta) == sorted(volta.__all__)


def functions():
    for module_name in MODULES:
        for name, value in public(module_name):
            if inspect.isfunction(value):
                yield pytest.param(value, id=f"{module_name}.{name}")


@pytest.mark.parametrize("function", list(functions()))
def test_every_public_function_has_an_example_that_runs(function):
    run_examples(function, least=1)


def test_the_classifiers_example_runs():
    run_examples(volta.VoltaClassifier, least=4)


@pytest.mark.parametrize(("value", "least"), [(volta.Run, 3), (volta.Table, 2), (volta.Task.from_arrays, 3)])
def test_the_examples_of_the_benchmarks_values_run(value, least):
    run_examples(value, least)


def test_the_image_classifiers_example_runs(monkeypatch, tmp_path):
    monkeypatch.setenv("VOLTA_CACHE", str(tmp_path))
    run_examples(volta.VoltaImageClassifier, least=4)


def run_examples(value, least):
    home = inspect.getmodule(value)
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
    tests = doctest.DocTestFinder(recurse=False).find(value, value.__name__, globs=dict(vars(home)))
    assert sum(len(test.examples) for test in tests) >= least, f"{value.__name__} has no example"
    said = []
    for test in tests:
        runner.run(test, out=said.append)
    assert runner.summarize(verbose=False).failed == 0, "".join(said)
