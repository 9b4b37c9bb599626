"""The numbers behind the page's charts, as JSON small enough to travel inside the page."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from volta.bench.records import EvalSet
from volta.figures import style_of
from volta.figures.names import metric_label, metric_of, set_name
from volta.report.curves import Curves
from volta.report.drawings import headline_keys, shift_columns, summary_keys
from volta.report.run import Group
from volta.report.tables import SHIFT_METRICS
from volta.stats import AblationRow

DIGITS = 5
PLOTTED = (
    "accuracy",
    "ece",
    "mce",
    "ece_equal_mass",
    "ece_classwise",
    "nll",
    "brier",
    "aurc",
    "latency_ms",
    "size_mb",
    "train_s",
)


def group_payload(group: Group, curves: Curves, ablation: list[AblationRow]) -> dict[str, Any]:
    """Return what the page's charts of one group are drawn from."""
    keys = dict.fromkeys([*PLOTTED, *headline_keys(group), *summary_keys(group), *_ood_keys(group)])
    present = [key for key in keys if any(group.values(method, key) for method in group.methods)]
    metrics = {key: {"label": metric_label(key), "up": metric_of(key).higher_is_better} for key in present}
    seeds = sorted({seed for _, seed in group.records})
    return {
        "id": group.key,
        "context": group.context.line,
        "seeds": seeds,
        "methods": [_method(group, method) for method in group.methods],
        "metrics": metrics,
        "headline": headline_keys(group),
        "summary": summary_keys(group),
        "values": {
            key: {method: _numbers(group.values(method, key)) for method in group.methods if group.values(method, key)}
            for key in present
        },
        "ood": [{"key": name, "label": set_name(name), "near": _is_near(group, name)} for name in group.near_first],
        "reliability": _reliability(curves),
        "risk": _risk(curves),
        "histograms": _histograms(curves),
        "shifts": _shifts(group),
        "ablation": _ablation(group, ablation),
    }


def script_json(value: Any) -> str:
    """Return JSON that cannot end its script element, whatever text it holds: <, >, & and line separators escaped."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _method(group: Group, method: str) -> dict[str, Any]:
    style = style_of(method)
    return {
        "name": method,
        "title": group.title(method),
        "origin": group.origin(method),
        "hue": style.hue,
        "marker": style.marker,
        "dash": " ".join(f"{part:g}" for part in style.dash),
    }


def _reliability(curves: Curves) -> dict[str, Any]:
    return {
        name: {
            method: {
                "n": [int(count) for count in bins.count],
                "conf": _numbers(bins.confidence),
                "acc": _numbers(bins.accuracy),
                "ece": _number(bins.ece),
            }
            for method, bins in by_method.items()
        }
        for name, by_method in curves.reliability.items()
    }


def _risk(curves: Curves) -> dict[str, Any]:
    if not curves.risk_coverage:
        return {}
    first = next(iter(curves.risk_coverage.values()))
    lines = {
        method: {
            "mean": _numbers(curve.mean),
            "low": _numbers(curve.low),
            "high": _numbers(curve.high),
            "area": _number(curve.area),
        }
        for method, curve in curves.risk_coverage.items()
    }
    return {"x": _numbers(first.x), "lines": lines}


def _histograms(curves: Curves) -> dict[str, Any]:
    result: dict[str, dict[str, Any]] = {}
    for (method, seed), histogram in curves.histograms.items():
        result.setdefault(method, {})[str(seed)] = {
            "edges": _numbers(histogram.edges),
            "shares": {name: _numbers(shares, 4) for name, shares in histogram.shares.items()},
            "auroc": {name: _number(value) for name, value in histogram.auroc.items()},
        }
    return result


def _shifts(group: Group) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for metric in SHIFT_METRICS:
        rows = {method: shift_columns(group, metric, method) for method in group.methods}
        columns = list(dict.fromkeys(name for row in rows.values() for name in row))
        if columns:
            result[metric] = {
                "label": metric_label(metric),
                "up": metric_of(metric).higher_is_better,
                "columns": [{"key": name, "label": set_name(name)} for name in columns],
                "rows": {method: [_mean(row.get(name)) for name in columns] for method, row in rows.items() if row},
            }
    return result


def _ablation(group: Group, rows: list[AblationRow]) -> list[dict[str, Any]]:
    return [
        {
            "row": row.row,
            "reference": row.reference,
            "metric": row.metric if row.set == "test" else f"{row.metric}@{row.set}",
            "difference": _number(row.difference),
            "std": _number(row.std or 0.0),
            "p": _number(row.p) if row.p is not None else None,
            "significant": bool(row.significant),
        }
        for row in rows
        if row.difference is not None
    ]


def _ood_keys(group: Group) -> list[str]:
    return [f"{metric}@{name}" for name in group.near_first for metric in ("auroc", "fpr95", "aupr_out")]


def _is_near(group: Group, name: str) -> bool:
    return group.first_record is not None and EvalSet.parse(name) in group.first_record.near_ood


def _mean(values: list[float] | None) -> float | None:
    return _number(float(np.mean(values))) if values else None


def _numbers(values: Any, digits: int = DIGITS) -> list[float | None]:
    return [_number(value, digits) for value in values]


def _number(value: Any, digits: int = DIGITS) -> float | None:
    number = float(value)
    return float(f"{number:.{digits}g}") if math.isfinite(number) else None


Payload = Mapping[str, Any]
