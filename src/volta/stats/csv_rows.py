"""Rows of a frozen dataclass as CSV text with fixed columns."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import fields
from typing import TYPE_CHECKING, TypeVar

from volta.bench.results_csv import csv_text
from volta.core.errors import InputError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

RowT = TypeVar("RowT", bound="DataclassInstance")


def columns_of(row_type: type[DataclassInstance]) -> list[str]:
    """Return the column names of a row type, in order."""
    return [field.name for field in fields(row_type)]


def rows_to_csv(row_type: type[RowT], rows: Iterable[RowT]) -> str:
    """Return a header and one line a row; None is an empty field, bools are true and false, NaN is refused."""
    columns = columns_of(row_type)
    return csv_text(columns, ([_value(getattr(row, name), name) for name in columns] for row in rows))


def _value(value: object, column: str) -> object:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and not math.isfinite(value):
        raise InputError(f"column {column} holds {value}; leave it None and say why in the note column")
    return value


def joined_notes(*notes: str) -> str:
    """Return the notes that say something, each once, in order."""
    return "; ".join(dict.fromkeys(note for note in notes if note))
