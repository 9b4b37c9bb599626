"""The comparison of two runs in words: for a terminal, and as Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from volta.figures.names import full_name, metric_key
from volta.metrics.floor_words import show_floor
from volta.report.markdown import markdown_table
from volta.report.table_model import Column, Row, Table, TableCell, show_number, show_p

if TYPE_CHECKING:
    from volta.report.compare import ChangeRow, RunComparison

MAX_LISTED = 10
COLUMNS = ("task", "protocol", "method", "metric", "seeds", "A", "B", "B − A", "p", "Holm", "verdict")


def comparison_text(comparison: RunComparison, titles: tuple[str, str]) -> str:
    """Return the comparison for a terminal."""
    lines = _notes(comparison, titles)
    if comparison.changed:
        lines += ["", f"A: {titles[0]}", f"B: {titles[1]}", "", *_aligned([COLUMNS, *map(_fields, comparison.changed)])]
    return "\n".join([*lines, "", summary(comparison)]).strip() + "\n"


def comparison_markdown(comparison: RunComparison, titles: tuple[str, str]) -> str:
    """Return the comparison as Markdown."""
    columns = tuple(Column(name, name, numeric=name in COLUMNS[4:10]) for name in COLUMNS)
    rows = tuple(Row(row.method, tuple(TableCell(text) for text in _fields(row))) for row in comparison.changed)
    parts = [f"# {titles[1]} (B) against {titles[0]} (A)"]
    if notes := _notes(comparison, titles):
        parts.append("\n".join(f"- {note}" for note in notes))
    if rows:
        parts.append(markdown_table(Table("changes", "What changed", columns, rows)))
    return "\n\n".join([*parts, summary(comparison)]) + "\n"


def summary(comparison: RunComparison) -> str:
    """Return one sentence: how many values moved, how many beyond chance and which way."""
    n_rows, changed = len(comparison.rows), comparison.changed
    if not n_rows:
        return "The runs share no task, protocol, method and seed; there is nothing to compare."
    if not changed:
        return f"All {n_rows} compared values are the same in both runs."
    count = {word: sum(row.verdict == word for row in changed) for word in ("better", "worse", "equivalent")}
    left = len(changed) - sum(count.values())
    return (
        f"{len(changed)} of {n_rows} compared values differ; after Holm’s correction {count['better']} are "
        f"significantly better and {count['worse']} significantly worse in B, {count['equivalent']} differ by less "
        f"than what matters, and {left} cannot be told."
    )


def verdict_words(row: ChangeRow) -> str:
    """Return what the tests say of B, with the interval where they leave it open."""
    if row.identical:
        return "the same predictions"
    known = row.low is not None and row.high is not None
    interval = f" ([{signed(row.low)}, {signed(row.high)}])" if row.low is not None and row.high is not None else ""
    if row.verdict == "equivalent":
        return f"no difference that matters{interval}"
    if row.verdict == "cannot tell":
        return f"cannot tell{interval}, uncorrected" if known else "one seed: no test"
    return f"{row.verdict}{interval}"


def signed(value: float) -> str:
    """Return a difference with its sign: four decimals, or three digits where those would show 0."""
    if value == 0 or abs(value) >= 5e-5:
        return f"{value:+.4f}"
    return f"{'+' if value > 0 else ''}{show_number(value)}"


def _fields(row: ChangeRow) -> tuple[str, ...]:
    return (
        row.task, row.protocol, row.method, full_name(metric_key(row.metric, row.set)), str(row.n),
        f"{row.mean_a:.4f}", f"{row.mean_b:.4f}{_floor(row)}", signed(row.difference),
        show_p(row.p), show_p(row.p_holm), verdict_words(row),
    )  # fmt: skip


def _floor(row: ChangeRow) -> str:
    if row.floor is None or row.floor_low is None or row.floor_high is None:
        return ""
    return f" ({show_floor(row.floor, row.floor_low, row.floor_high)})"


def _notes(comparison: RunComparison, titles: tuple[str, str]) -> list[str]:
    lines = [f"note: {remark}" for remark in comparison.remarks]
    for name, cells in zip(titles, (comparison.only_a, comparison.only_b), strict=True):
        lines += [f"only in {name}: {cell}" for cell in cells[:MAX_LISTED]]
        lines += [f"only in {name}: {len(cells) - MAX_LISTED} cells more"] if len(cells) > MAX_LISTED else []
    return lines


def _aligned(table: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    return ["  ".join(part.ljust(width) for part, width in zip(line, widths, strict=True)).rstrip() for line in table]
