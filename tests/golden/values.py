"""Frozen values: a number for each (table, row, metric), in a CSV file of its own for each part."""

from __future__ import annotations

import csv
import io
import lzma
from collections.abc import Iterable, Mapping
from pathlib import Path

Key = tuple[str, str, str]
Values = dict[Key, str]

HERE = Path(__file__).parent
# What a row of a result table is of, and its numbers. Words (verdicts, notes, titles) may change and are not frozen.
KEYS = ("task", "protocol", "row", "method", "reference", "corruption", "severity", "seed", "set", "metric")
NUMBERS = (
    *("value", "n", "n_reference", "n_method", "n_shared", "n_ranked", "n_methods"),
    *("mean", "std", "mean_reference", "mean_method", "difference", "gain", "low", "high", "boot_low", "boot_high"),
    *("p", "p_holm", "p_welch", "p_equivalence", "p_best", "hedges_g", "detectable_difference", "margin", "rank"),
)
# These differ from run to run.
COSTS = frozenset({"train_s", "latency_ms", "latency_p95_ms", "latency_features_ms", "peak_mb"})


def text_of(value: object) -> str:
    """Return a number with all of its digits, or nothing for no number."""
    if value is None or value == "":
        return ""
    return repr(float(value))  # type: ignore[arg-type]


def table_values(table: str, rows: Iterable[Mapping[str, object]]) -> Values:
    """Return the numbers of a result table, costs aside."""
    found: Values = {}
    for row in rows:
        if row["metric"] in COSTS:
            continue
        name = " ".join(str(row[key]) for key in KEYS if key in row)
        found |= {(table, name, number): text_of(row[number]) for number in NUMBERS if number in row}
    return found


def csv_values(path: Path) -> Values:
    """Return the numbers of a result table in a CSV file."""
    with path.open(encoding="utf-8", newline="") as file:
        return table_values(path.name, csv.DictReader(file))


def array_values(table: str, arrays: Mapping[str, Iterable[object]]) -> Values:
    """Return the numbers of arrays, those of two dimensions column by column."""
    found: Values = {}
    for name, array in arrays.items():
        for row, cells in enumerate(array):
            if isinstance(cells, Iterable):
                found |= {(table, str(row), f"{name}_{column}"): text_of(cell) for column, cell in enumerate(cells)}
            else:
                found[table, str(row), name] = text_of(cells)
    return found


def path_of(folder: Path, part: str) -> Path:
    """Return the file of a part; `xzcat` shows what is in it."""
    return folder / f"{part}.csv.xz"


def write_values(path: Path, values: Values) -> None:
    """Write values in their order; equal values give equal bytes."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("table", "row", "metric", "value"))
    writer.writerows((*key, value) for key, value in values.items())
    path.write_bytes(lzma.compress(text.getvalue().encode(), preset=9 | lzma.PRESET_EXTREME))


def read_values(path: Path) -> Values:
    """Return the values of a file that `write_values` wrote."""
    rows = csv.reader(io.StringIO(lzma.decompress(path.read_bytes()).decode()))
    next(rows)
    return {(table, row, metric): value for table, row, metric, value in rows}
