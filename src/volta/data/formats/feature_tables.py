"""Which columns of a table are features, labels and identifiers, and the rows of features that follow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from volta.core.errors import InputError
from volta.core.labels import refuse_blanks
from volta.core.types import Array
from volta.data.formats.labelled_arrays import INPUT_NAMES, LABEL_NAMES
from volta.data.formats.table import (
    Chunk,
    ReadAs,
    Table,
    as_labels,
    check_cells,
    joined,
    labels_like,
    naming_ids,
    read_columns,
    shortened,
)
from volta.data.formats.tabular_files import open_table

FEATURE_NAME_ARRAYS = ("feature_names", "columns")
"""What an npz calls the names of its matrix's columns."""


@dataclass(frozen=True)
class Roles:
    """Which columns are no features: ``label``, None where there is none, and ``ids``, which are carried through.

    ``known`` may be there and is left alone, such as the column that was the label when the model was fitted.
    """

    label: str | None = None
    ids: tuple[str, ...] = ()
    known: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class FeatureChunk:
    """Rows (n, d), their labels as stored and their identifiers, and the chunk of the file they come from."""

    rows: Array
    labels: Array | None
    ids: dict[str, Array]
    chunk: Chunk


@dataclass(frozen=True, eq=False)
class FeatureTable:
    """A table with its roles: ``columns`` are read, in this order; ``names`` are those of the features, or None.

    ``n_features`` is how many there have to be, None where any number will do.
    """

    table: Table
    columns: tuple[str, ...]
    names: tuple[str, ...] | None
    label: str | None
    ids: tuple[str, ...]
    n_features: int | None = None

    def chunks(self) -> Iterator[FeatureChunk]:
        """Walk the rows."""
        asked: dict[str, ReadAs] = dict.fromkeys(self.columns, "number")
        asked |= dict.fromkeys((*self.ids, *((self.label,) if self.label else ())), "any")
        for chunk in naming_ids(self.table.chunks(asked)):
            parts = [chunk.columns[name] for name in self.columns]
            rows = parts[0].reshape(len(chunk), -1) if len(parts) == 1 else np.column_stack(parts)
            if rows.shape[1] != (self.n_features or rows.shape[1]):
                raise InputError(f"{self.table.path} has {rows.shape[1]} features, the model {self.n_features}")
            labels = None
            if self.label is not None:
                labels = chunk.columns[self.label]
                _check_labels(chunk, self.label, labels)
            yield FeatureChunk(rows, labels, {name: chunk.columns[name] for name in self.ids}, chunk)

    def read_labelled(self, classes: Array | None = None) -> tuple[Array, Array]:
        """Return all rows and their labels, in the type of ``classes`` where those are known."""
        if self.label is None:
            raise InputError(f"{self.table.path} has no label column; name it with --label")
        pieces = [(part.rows, part.labels) for part in self.chunks()]
        labels = joined(self.table, [part for _, part in pieces if part is not None])
        where = f"{self.table.path} column {self.label!r}"
        if classes is None:
            typed = as_labels(labels)
            refuse_blanks(np.unique(typed), where)
        else:
            typed = labels_like(labels, classes, where)
        return np.concatenate([part for part, _ in pieces]), typed


def open_features(
    path: Path,
    roles: Roles,
    *,
    names: Sequence[str] | None = None,
    n_features: int | None = None,
    labelled: bool = False,
) -> FeatureTable:
    """Open a table of features.

    Without ``names`` every column that has no role is a feature, or, in an npz or a Parquet file, the one array that
    holds a row of numbers a row (``x`` or ``features``). With ``names``, those of a fitted model, columns are taken by
    name in the model's order; a column that is missing, or that neither the model nor ``roles`` know, is an error.
    ``labelled``: a label is needed; in an npz it is found by its usual names.
    """
    table = open_table(path)
    for name in roles.ids:
        table.column(name, "--id")
    matrix = _matrix_of(table)
    label = _label_of(table, roles, labelled, guess=matrix is not None)
    if matrix is not None:
        found = FeatureTable(table, (matrix,), _names_of(table), label, roles.ids, n_features)
    else:
        others = {label, *roles.ids}
        columns = tuple(name for name in table.names if name not in others)
        if names is not None:
            columns = _by_name(table, columns, tuple(names), label, roles)
        else:
            columns = tuple(name for name in columns if name not in roles.known)
        if not columns:
            raise InputError(f"{path} has no feature columns; it has {shortened(table.names)}")
        if n_features is not None and len(columns) != n_features:
            raise InputError(
                f"{path} has {len(columns)} feature columns ({shortened(columns)}), the model {n_features}; name those "
                "that are none with --id or --label"
            )
        found = FeatureTable(table, columns, columns, label, roles.ids, n_features)
    if matrix is not None and names is not None and found.names is not None and found.names != tuple(names):
        raise InputError(f"{path} names its features otherwise than the model; the model has {shortened(tuple(names))}")
    return found


def _matrix_of(table: Table) -> str | None:
    """Return the column that holds whole rows of features, where there is one."""
    wide = {column.name.lower(): column.name for column in table.columns if column.wide and column.numeric}
    for name in INPUT_NAMES:
        if name in wide:
            return wide[name]
    if len(wide) > 1:
        raise InputError(f"{table.path} holds several matrices ({shortened(tuple(wide))}); call that of the features x")
    return next(iter(wide.values()), None)


def _names_of(table: Table) -> tuple[str, ...] | None:
    for name in FEATURE_NAME_ARRAYS:
        if name in table.names:
            return tuple(str(value) for value in read_columns(table, {name: "any"})[name])
    return None


def _label_of(table: Table, roles: Roles, labelled: bool, guess: bool) -> str | None:
    if roles.label is not None:
        return table.column(roles.label, "--label").name
    if not labelled:
        return None
    lower = {column.name.lower(): column.name for column in table.columns if not column.wide}
    thin_names = [column.name for column in table.columns if not column.wide and column.name not in roles.ids]
    guessed = [name for name in thin_names if guess and name.lower() in LABEL_NAMES]
    if len(guessed) > 1:
        raise InputError(
            f"{table.path} has several arrays that may be labels: {', '.join(guessed)}; name one with --label"
        )
    if guessed:
        return guessed[0]
    thin = next((lower[name] for name in INPUT_NAMES if name in lower), None)
    if table.path.suffix.lower() == ".npz" and thin is not None:
        raise InputError(f"{table.path} has one number a row in {thin!r}; save its features as (n, d), n rows of d")
    raise InputError(
        f"--label is missing; name the column of {table.path} that holds the classes: {shortened(table.names)}"
    )


def _by_name(
    table: Table, columns: tuple[str, ...], names: tuple[str, ...], label: str | None, roles: Roles
) -> tuple[str, ...]:
    for option, taken in (("--id", roles.ids), ("--label", (label,))):
        if found := next((name for name in taken if name in names), None):
            raise InputError(f"{option} is {found!r}, which is a feature of the model; leave that {option} out")
    there, asked = set(columns), {*names, *roles.known}
    missing = tuple(name for name in names if name not in there)
    if missing:
        raise InputError(
            f"{table.path} lacks columns that the model was fitted on: {shortened(missing)}; it has "
            f"{shortened(table.names)}"
        )
    extra = tuple(name for name in columns if name not in asked)
    if extra:
        raise InputError(
            f"{table.path} has columns that the model does not know: {shortened(extra)}; carry them through with --id, "
            "name the label with --label, or leave them out of the file"
        )
    return names


def _check_labels(chunk: Chunk, name: str, labels: Array) -> None:
    check_cells(chunk, name, "number")
    if labels.ndim != 1:
        raise InputError(f"{chunk.path} column {name!r} has {labels.shape[1]} values a row; pass one class a row")
    if labels.dtype.kind == "U" and (empty := np.char.str_len(np.char.strip(labels)) == 0).any():
        row = int(np.argmax(empty))
        raise InputError(f"{chunk.where(row, name)} is empty; drop rows without a label")
