from __future__ import annotations

import pytest

from volta.figures.draw import log_ticks
from volta.figures.style import beaten_by, dwarfed_reach, pareto_front, rank_among, rank_scale, unit_scale


def test_a_place_between_worst_and_best():
    assert unit_scale([1, 2, 3], True) == [0, 0.5, 1]
    assert unit_scale([1, 2, 3], False) == [1, 0.5, 0]
    assert unit_scale([2, 2], True) == [1, 1]
    assert unit_scale([0, 2, 9], True, among=[1, 3]) == [0, 0.5, 1]


def test_ranks_share_ties_and_follow_the_direction():
    assert rank_scale([0.1, 0.2, 100.0], False) == [1, 0.5, 0]
    assert rank_scale([1, 1, 2], True) == [0.25, 0.25, 1]
    assert rank_among(2, [1, 2, 3, 4], True) == 0.375
    assert rank_among(2, [1, 2, 3, 4], False) == 0.625
    assert rank_among(2, [], True) == 1


def test_points_that_none_beats_on_both():
    assert beaten_by([1, 2, 3, 3], [1, 2, 3, 2.5]) == [[], [], [3], []]
    assert beaten_by([1, 1], [1, 1]) == [[], []]
    assert pareto_front([1, 2, 3, 3], [1, 2, 3, 2.5]) == [0, 1, 3]


def test_an_axis_bends_only_where_one_bar_dwarfs_the_middle_one():
    assert dwarfed_reach([1.0, 2.0, 40.0]) == 2
    assert dwarfed_reach([1.0, 2.0, 30.0]) is None
    assert dwarfed_reach([]) is None


def test_log_ticks_are_round_numbers():
    assert log_ticks(0.004, 0.3) == pytest.approx([0.005, 0.01, 0.02, 0.05, 0.1, 0.2])
