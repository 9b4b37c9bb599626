"""The numbers behind the page's charts, as JSON small enough to travel inside the page."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence

import numpy as np

from volta.figures import Chart, GroupNumbers, style_of
from volta.figures.chart import Json
from volta.report.run import Group

DIGITS = 5


def group_json(group: Group, charts: Sequence[Chart], numbers: GroupNumbers) -> Json:
    """Return what the page's script needs of one group: its methods, and each chart's kind, choices and numbers."""
    return {
        "id": group.key,
        "networks": group.networks,
        "methods": [_method_json(group, method) for method in group.methods],
        "charts": {chart.name: _chart_json(chart, numbers) for chart in charts},
    }


def script_json(value: object) -> str:
    """Return JSON that cannot end its script element, whatever text it holds: <, >, & and line separators escaped.

    Numbers are rounded to five digits; those that are not finite become null.
    """
    text = json.dumps(_plain(value), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _chart_json(chart: Chart, numbers: GroupNumbers) -> Json:
    return {
        "kind": chart.kind,
        "shared": chart.shared,
        "choices": [
            {"name": choice.name, "label": choice.label, "options": choice.options} for choice in chart.choices(numbers)
        ],
        "switches": [{"name": switch.name, "label": switch.label} for switch in chart.switches],
        "data": chart.data(numbers),
    }


def _method_json(group: Group, method: str) -> Json:
    style = style_of(method)
    return {
        "name": method,
        "title": group.title(method),
        "origin": group.origin(method),
        "ours": group.is_ours(method),
        "hue": style.hue,
        "marker": style.marker,
        "dash": " ".join(f"{part:g}" for part in style.dash),
    }


def _plain(value: object) -> object:
    # Most values are numbers, and a page holds a quarter of a million of them.
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}") if math.isfinite(value) else None
    if isinstance(value, str | int) or value is None:
        return value
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, np.ndarray | np.generic):
        return _plain(value.tolist())
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    return value
