from __future__ import annotations

import pytest

from volta.figures.style import DASHES, PALETTE, style_of
from volta.methods import ABLATION, METHODS

NAMES = [*METHODS, *ABLATION]


def luminance(color: str) -> float:
    parts = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(a: str, b: str) -> float:
    high, low = sorted((luminance(a), luminance(b)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_every_method_of_the_package_can_be_told_apart_by_line_and_by_point():
    lines = {(style_of(name).color, style_of(name).dash) for name in NAMES}
    points = {(style_of(name).color, style_of(name).marker) for name in NAMES}
    assert len(lines) == len(points) == len(NAMES)


def test_volta_has_a_colour_of_its_own():
    assert style_of("volta").color == PALETTE[0][0]
    assert all(style_of(name).color != PALETTE[0][0] for name in [*NAMES, "unheard-of", "x"] if name != "volta")


def test_a_look_does_not_depend_on_what_else_is_drawn_nor_on_underscores():
    assert style_of("mc_dropout") == style_of("mc-dropout")
    assert style_of("my own method") == style_of("my own method")


@pytest.mark.parametrize("light_and_dark", PALETTE)
def test_colours_stand_out_on_their_background(light_and_dark):
    light, dark = light_and_dark
    assert contrast(light, "#ffffff") >= 3
    assert contrast(dark, "#1b1e24") >= 4.5


def test_a_solid_line_is_named_and_a_dash_is_a_pattern():
    assert style_of("volta").line == "-"
    assert style_of("gmm").line == (0, DASHES[1])
