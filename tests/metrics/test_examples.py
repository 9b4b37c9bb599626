"""Every public function and class shows an example, and the example is true."""

import doctest
import sys
import warnings

import pytest

from volta import metrics

PUBLIC = [name for name in metrics.__all__ if name != "METRICS"]


@pytest.mark.parametrize("name", PUBLIC)
def test_example_gives_what_it_says(name):
    documented = getattr(metrics, name)
    module = sys.modules[documented.__module__]
    (found,) = doctest.DocTestFinder(recurse=False).find(documented, name, module=module, globs=dict(vars(module)))
    assert found.examples, f"{name} has no example"
    report = []
    with warnings.catch_warnings():
        runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
        failed = runner.run(found, out=report.append).failed
    assert not failed, "".join(report)
