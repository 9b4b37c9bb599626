"""The same rows in the same order for every method: matched by id where there is one, refused where they disagree."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from volta.bench.own.predictions import OwnModel, RowSet
from volta.core.errors import InputError
from volta.core.types import Array


@dataclass(frozen=True, eq=False)
class Reference:
    """The rows of a set that every model has to have: how many, their labels and ids where known, and who said so.

    ``numbered``: the rows have no ids of their own, so that ids that are 0 … n − 1 count as their numbers.
    """

    who: str
    n_rows: int
    labels: Array | None = None
    ids: Array | None = None
    numbered: bool = False


RowsKey = tuple[int, str]
"""(seed, set): even OOD rows may be others for every seed."""


def match_rows(models: Iterable[OwnModel], known: Mapping[RowsKey, Reference]) -> list[OwnModel]:
    """Return the models with their rows in the order of ``known`` or, where that says nothing, of the first model.

    Methods are paired row by row within a seed, so within a seed the rows of each set must be the same. Seeds may have
    rows of their own (folds); where their ids are the same rows, they are put in the same order.
    """
    references = dict(known)
    matched = []
    n_classes: tuple[str, int | None] | None = None
    for model in models:
        own = model.label, model.sets["test"].n_classes
        n_classes = n_classes or own
        if own[1] != n_classes[1]:
            raise InputError(
                f"{model.where}: {own[0]} has {own[1]} classes but {n_classes[0]} has {n_classes[1]}; evaluate other "
                "classes in another run"
            )
        sets = {}
        for name, rows in model.sets.items():
            where = model.seed, name
            if where not in references:
                references[where] = _same_rows(rows, name, references) or _reference(model, rows)
            sets[name] = _matched(rows, references[where])
        matched.append(replace(model, sets=sets))
    return matched


def _reference(model: OwnModel, rows: RowSet) -> Reference:
    return Reference(f"{model.label} in {model.where}", len(rows), rows.labels, rows.ids)


def _same_rows(rows: RowSet, name: str, references: Mapping[RowsKey, Reference]) -> Reference | None:
    """Return an earlier seed's reference for the same set with exactly these ids."""
    if rows.ids is None:
        return None
    for (_, other), reference in references.items():
        if other == name and reference.ids is not None and np.array_equal(np.sort(reference.ids), np.sort(rows.ids)):
            return reference
    return None


def _matched(rows: RowSet, reference: Reference) -> RowSet:
    ordered = _in_order(rows, reference)
    if len(ordered) != reference.n_rows:
        raise InputError(
            f"{rows.where} has {len(rows)} rows but {reference.who} has {reference.n_rows}; evaluate the same rows"
        )
    if ordered.labels is not None and reference.labels is not None:
        differs = ordered.labels != reference.labels
        if differs.any():
            row = int(np.argmax(differs))
            given, held = ordered.labels[row], reference.labels[row]
            ordered.refuse(row, f"label {given} where {reference.who} has {held}; put the same rows in the same "
                                "order, or add a column id to both")  # fmt: skip
    return ordered


def _in_order(rows: RowSet, reference: Reference) -> RowSet:
    wanted = np.arange(reference.n_rows) if reference.numbered and rows.ids is not None else reference.ids
    if rows.ids is None and wanted is None:
        return rows
    if rows.ids is None or wanted is None:
        has, lacks = (rows.where, reference.who) if wanted is None else (reference.who, rows.where)
        raise InputError(f"{has} has ids but {lacks} has none; give all files a column id, or none")
    if rows.ids.dtype.kind != wanted.dtype.kind and "U" in (rows.ids.dtype.kind, wanted.dtype.kind):
        raise InputError(
            f"{rows.where} has ids such as {rows.ids[0]}, {reference.who} such as {wanted[0]}; use the same"
        )
    if len(rows.ids) == len(wanted) and np.array_equal(rows.ids, wanted):
        return rows
    order = np.argsort(rows.ids, kind="stable")
    unknown = ~np.isin(rows.ids, wanted)
    if unknown.any():
        row = int(np.argmax(unknown))
        numbered = ", whose rows are numbered from 0" if reference.numbered else ""
        rows.refuse(row, f"id {rows.ids[row]} is not among those of {reference.who}{numbered}; evaluate the same rows")
    missing = ~np.isin(wanted, rows.ids)
    if missing.any():
        lacking = wanted[int(np.argmax(missing))]
        raise InputError(f"{rows.where} lacks id {lacking}, which {reference.who} has; evaluate the same rows")
    found: NDArray[np.intp] = order[np.searchsorted(rows.ids[order], wanted)]
    return rows.take(found)
