"""Rows of a frozen dataclass as CSV text with fixed columns."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable
from dataclasses import fields
from typing import Any

from volta.core.errors import InputError


def columns_of(row_type: type) -> list[str]:
    """Return the column names of a row type, in order."""
    return [field.name for field in fields(row_type)]


def csv_text(row_type: type, rows: Iterable[Any]) -> str:
    """Return a header and one line a row; None is an empty field, floats keep every digit, NaN is refused."""
    columns = columns_of(row_type)
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(columns)
    for row in rows:
        writer.writerow([_field(getattr(row, name), name) for name in columns])
    return buffer.getvalue()


def _field(value: Any, column: str) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        if not math.isfinite(value):
            raise InputError(f"column {column} holds {value}; leave it None and say why in the note column")
        return repr(float(value))
    return str(value)


def joined_notes(*notes: str) -> str:
    """Return the notes that say something, each once, in order."""
    return "; ".join(dict.fromkeys(note for note in notes if note))
