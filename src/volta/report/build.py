"""From a run folder to its tables, figures and page."""

from __future__ import annotations

import base64
from collections.abc import Callable
from pathlib import Path
from typing import Any

from volta.bench.results_csv import write_results
from volta.bench.store import RunStore
from volta.core.files import write_text
from volta.report.across import across_part
from volta.report.charts import PrintFigure
from volta.report.curves import read_curves
from volta.report.drawings import draw_group
from volta.report.page import page
from volta.report.payload import group_payload
from volta.report.run import Group, Run, load_run
from volta.report.sections import group_section, own_statistics
from volta.report.sheet import sheet_part
from volta.stats import Statistics, compute_statistics
from volta.stats.bootstrap import N_RESAMPLES

REPORT = "report.html"
FIGURES = "figures"
EMBEDDED_BYTES = 4_000_000
"""PDFs travel inside the page up to this much; beyond it the page links to the folder beside it."""
OPTIONAL_TABLES = ("ablation.csv", "corruptions.csv", "paper.csv", "claims.csv", "ranks.csv")


def build_report(store: RunStore, n_resamples: int = N_RESAMPLES, say: Callable[[str], object] | None = None) -> Path:
    """Write ``results.csv``, the statistics, every figure and ``report.html``; return the page's path.

    ``n_resamples`` 0 leaves the bootstrap intervals out; ``say`` hears of metrics that had to be computed again.
    """
    run = load_run(store, say)
    write_results(store, run.records)
    stats = compute_statistics(store, run.tables, n_resamples)
    write_tables(store, stats)
    path = store.root / REPORT
    write_text(path, make_page(run, stats, draw=True))
    return path


def make_page(run: Run, stats: Statistics, *, draw: bool) -> str:
    """Return the page; ``draw`` also writes the figures for print and offers them on it."""
    sections, payloads = [], []
    room = EMBEDDED_BYTES
    for group in run.groups:
        own = own_statistics(group, stats)
        payload, pdfs = _group(run, group, own, draw)
        printed, room = _offer(pdfs, room)
        stored = run.store.sheet_path(group.task)
        sheet = sheet_part(group, stored, run.store.root / FIGURES, _prefix(run, group)) if draw else ""
        sections.append(group_section(group, own, printed, charts_of(payload), sheet))
        payloads.append(payload)
    across = across_part(run, run.store.root / FIGURES if draw else None)
    return page(run, sections, {"groups": payloads}, across)


def write_tables(store: RunStore, stats: Statistics) -> None:
    """Write the tables of statistics; those that would be empty are left out, and old ones removed."""
    for name, content in stats.to_csv().items():
        if name in OPTIONAL_TABLES and content.count("\n") < 2:
            (store.root / name).unlink(missing_ok=True)
        else:
            write_text(store.root / name, content)


def charts_of(payload: dict[str, Any]) -> list[str]:
    """Return the charts that a group's numbers allow."""
    if not payload.get("methods"):
        return []
    values = payload["values"]
    wanted = {
        "scatter": "accuracy" in values and "ece" in values,
        "risk": payload["risk"],
        "parallel": len(payload["headline"]) > 1,
        "reliability": payload["reliability"],
        "calibration": "ece" in values,
        "efficiency": "latency_ms" in values and "size_mb" in values,
        "ood": payload["ood"],
        "ablation": payload["ablation"],
        "histograms": payload["histograms"],
        "summary": payload["summary"],
        "shifts": payload["shifts"],
    }
    return [name for name, present in wanted.items() if present]


def _group(run: Run, group: Group, own: Statistics, draw: bool) -> tuple[dict[str, Any], dict[str, Path]]:
    if group.table is None:
        return {"id": group.key, "methods": []}, {}
    curves = read_curves(run.store, group)
    payload = group_payload(group, curves, own.ablation)
    if not draw:
        return payload, {}
    pdfs = draw_group(group, curves, own.ablation, run.store.root / FIGURES, _prefix(run, group))
    return payload, pdfs


def _prefix(run: Run, group: Group) -> str:
    """Return what the names of a group's figures begin with, where a run has several groups."""
    return f"{_file_name(group.key)}-" if len(run.groups) > 1 else ""


def _offer(pdfs: dict[str, Path], room: int) -> tuple[dict[str, PrintFigure], int]:
    offered = {}
    for name, path in pdfs.items():
        size = path.stat().st_size
        if size <= room:
            room -= size
            href = f"data:application/pdf;base64,{base64.b64encode(path.read_bytes()).decode()}"
        else:
            href = f"{FIGURES}/{path.name}"
        offered[name] = PrintFigure(path.stem, href)
    return offered, room


def _file_name(words: str) -> str:
    return "".join(letter if letter.isalnum() or letter in "-_." else "_" for letter in words)
