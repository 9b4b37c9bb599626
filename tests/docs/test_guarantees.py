"""The page on guarantees says what its script computes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tools import guarantee_pictures

PAGE = (Path(__file__).parents[2] / "docs" / "guarantees.md").read_text(encoding="utf-8")


def table(name):
    return re.search(rf"<!-- {name} -->\n(.*?)\n<!-- end -->", PAGE, flags=re.DOTALL)[1]


def test_the_table_of_sample_sizes_is_what_the_functions_say():
    assert table("sizes") == guarantee_pictures.size_table()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["coverage", "failures", "policies"])
def test_simulated_tables_come_out_again(name):
    """To a hundredth: other processors round otherwise."""
    found = {
        "coverage": guarantee_pictures.coverage_table,
        "failures": lambda: guarantee_pictures.failure_table(guarantee_pictures.failures()),
        "policies": guarantee_pictures.policy_table,
    }[name]()
    numbers = [[float(text) for text in re.findall(r"\d+\.?\d*", each)] for each in (table(name), found)]
    assert numbers[0] == pytest.approx(numbers[1], abs=1 if name == "policies" else 0.01)
