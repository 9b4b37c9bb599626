"""``volta explain``: why a row is classified as it is."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from volta.cli.model_files import load_model, model_rows
from volta.cli.options import INPUT_PANEL, OUTPUT_PANEL, DataArgument, IdOption, LabelOption, ModelArgument
from volta.cli.printing import echo
from volta.cli.warning_lines import warnings_as_lines
from volta.core.errors import InputError

if TYPE_CHECKING:
    import numpy as np

    from volta.data.formats.feature_tables import FeatureChunk, FeatureTable
    from volta.estimators.explanation import Explanation

FIRST_ROWS = 10


def explain(
    model: ModelArgument,
    data: DataArgument,
    rows: Annotated[
        str | None,
        typer.Option(help=f"Row numbers from 0: 0,5,7 or 0-9; the first {FIRST_ROWS}.", rich_help_panel=INPUT_PANEL),
    ] = None,
    ids: IdOption = None,
    label: LabelOption = None,
    most: Annotated[
        int, typer.Option(help="At most so many classes, columns, rows.", rich_help_panel=OUTPUT_PANEL)
    ] = 3,
    as_json: Annotated[
        bool, typer.Option("--json", help="A JSON object a line instead of text.", rich_help_panel=OUTPUT_PANEL)
    ] = False,
) -> None:
    """Say what stands behind a prediction: the nearest classes, columns out of range, the most alike training rows."""
    wanted = None if rows is None else parse_rows(rows)
    classifier = load_model(model)
    table = model_rows(classifier, data, label, ids)
    lines: list[str] = []
    with warnings_as_lines():
        for part, places in _picked(table, wanted):
            found = classifier.explain(part.rows[places], most=most)
            for place, explanation in zip(places.tolist(), found, strict=True):
                row = part.chunk.start + place
                known = {name: values[place].item() for name, values in part.ids.items()}
                lines.append(_json(row, known, explanation) if as_json else _text(row, known, explanation))
    # Only now: a row that is not there is told before anything is said.
    for line in lines:
        echo(line)


def parse_rows(text: str) -> tuple[int, ...]:
    """Return the row numbers of ``0,5,7`` or ``0-9``, in rising order.

    >>> parse_rows("7,0-2")
    (0, 1, 2, 7)
    """
    found: set[int] = set()
    for part in text.split(","):
        first, _, last = part.strip().partition("-")
        if not first.isdigit() or (last and not last.isdigit()):
            raise InputError(f"--rows is {text!r}; pass row numbers from 0, as in 0,5,7 or 0-9")
        if last and int(last) < int(first):
            raise InputError(f"--rows has {part.strip()!r}, which runs backwards; write {last}-{first}")
        found |= set(range(int(first), int(last or first) + 1))
    return tuple(sorted(found))


def _picked(table: FeatureTable, wanted: tuple[int, ...] | None) -> Iterator[tuple[FeatureChunk, np.ndarray]]:
    """Give chunks with the places of the rows wanted, and stop after the last of them."""
    import numpy as np

    n_rows = 0
    asked = np.array(range(FIRST_ROWS) if wanted is None else wanted)
    for part in table.chunks():
        end = n_rows + len(part.rows)
        places = asked[(asked >= n_rows) & (asked < end)] - n_rows
        if len(places):
            yield part, places
        n_rows = end
        if asked[-1] < end:
            return
    if wanted is not None:
        raise InputError(f"--rows asks for row {wanted[-1]}, but {table.table.path} has {n_rows} rows, from 0")


def _text(row: int, known: dict[str, Any], explanation: Explanation) -> str:
    names = "".join(f", {name} {value}" for name, value in known.items())
    return f"row {row}{names}: {explanation}"


def _json(row: int, known: dict[str, Any], explanation: Explanation) -> str:
    value = {"row": row, **known, **dataclasses.asdict(explanation)}
    return json.dumps(value, default=lambda array: array.tolist(), ensure_ascii=False)
