"""Names of other packages' things, and what is said of names that are not there."""

from __future__ import annotations

import pytest

from volta.core.errors import InputError, unknown_name
from volta.core.plugins import is_address, load_address, package_version, plugins


def test_an_address_is_a_module_and_a_name():
    assert is_address("package.module:Class")
    assert not any(map(is_address, ("knn", "package.module", "a:b:c", "hf:resnet-18", ":x")))
    assert load_address("volta.core.errors:InputError") is InputError
    with pytest.raises(InputError, match="there is no module 'nowhere'; install its package"):
        load_address("nowhere.at:all")
    with pytest.raises(InputError, match=r"volta\.core\.errors has no 'Nope'"):
        load_address("volta.core.errors:Nope")


def test_a_package_outside_is_known_by_its_version():
    assert package_version("volta.methods.knn") == ""
    assert package_version("numpy.linalg").startswith("numpy ")
    assert package_version("no_such_module") == ""


def test_groups_without_plugins_are_empty():
    assert plugins("volta.metrics") == {} or all(found.package for found in plugins("volta.metrics").values())


def test_near_misses_are_suggested():
    assert "did you mean temperature?" in str(unknown_name("method", "temprature", ["temperature", "volta"]))
    assert "did you mean Volta" not in str(unknown_name("method", "zzz", ["temperature", "volta"]))
    assert str(unknown_name("task", "zzz", ["a"], "see: x")) == "there is no task 'zzz'; the tasks are: a (see: x)"
