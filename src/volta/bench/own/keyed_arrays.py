"""One model in one npz: arrays whose names say of which set and of what kind they are."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from volta.bench.eval_set import TEST, VAL
from volta.bench.own.class_names import UNKNOWN, is_numeral, numbered, plain_class
from volta.bench.own.predictions import KINDS, OwnModel, RowSet
from volta.core.errors import InputError
from volta.core.types import Array
from volta.data.formats.table import ReadAs, Table, as_labels, read_columns, shortened

_ALIASES = {"label": "labels", "id": "ids", "ood_scores": "ood_score"}
_READ_AS: dict[str, ReadAs] = {"uncertainty": "score", "ood_score": "score", "ids": "any"}
CLASSES = "classes"
"""The names of the classes, in the order of the columns of ``probs``, as ``volta predict`` writes them."""

_PREFIXES = ("test", VAL, "ood", "shift")


def array_place(name: str) -> tuple[str, str] | None:
    """Return (set, kind) of an array's name, or None where the name says neither.

    >>> array_place("probs"), array_place("val_logits"), array_place("ood:svhn/ood_score"), array_place("ood:svhn")
    (('test', 'probs'), ('val', 'logits'), ('ood:svhn', 'ood_score'), ('ood:svhn', 'ood_score'))
    """
    set_name, slash, kind = name.rpartition("/")
    if not slash:
        short = next((first for first in (str(TEST), VAL) if name.startswith(f"{first}_")), None)
        if name.startswith("ood:"):
            set_name, kind = name, "ood_score"
        elif short is not None:
            set_name, kind = short, name.removeprefix(f"{short}_")
        else:
            set_name, kind = str(TEST), name
    kind = _ALIASES.get(kind, kind)
    known = set_name.partition(":")[0] in _PREFIXES and kind in KINDS
    return (set_name, kind) if known else None


def read_keyed(table: Table, method: str, seed: int, logits: bool) -> tuple[OwnModel, tuple[str, ...]]:
    """Return the model that an npz holds, and the arrays that were left alone; ``logits``: probs are logits."""
    places = {name: place for name in table.names if (place := array_place(name)) is not None}
    classes = _classes(table)
    by_set: dict[str, dict[str, Array]] = {}
    for name, (set_name, called) in places.items():
        kind = "logits" if called == "probs" and logits else called
        if kind in by_set.setdefault(set_name, {}):
            raise InputError(f"{table.path} has two arrays for {kind} of {set_name}; keep one")
        values = read_columns(table, {name: _READ_AS.get(kind, "any" if kind in ("sets", "labels") else "number")})[
            name
        ]
        if kind == "labels" and classes:
            values = _by_name(table, name, values, classes)
        by_set[set_name][kind] = as_labels(values) if kind == "ids" else values
    if not by_set:
        raise InputError(
            f"{table.path} has no array called probs or logits (it has {', '.join(table.names[:20]) or 'none'}); name "
            "arrays probs, labels, uncertainty, ood_score, sets, id, and val/probs, ood:NAME for other sets"
        )
    sets = {name: _row_set(table.path, name, arrays) for name, arrays in by_set.items()}
    for rows in sets.values():
        if classes and rows.n_classes not in (None, len(classes)):
            raise InputError(f"{rows.where} has {rows.n_classes} classes but {CLASSES} names {len(classes)}; name each")
    unused = tuple(name for name in table.names if name not in places and name != CLASSES)
    return OwnModel(method, seed, str(table.path), sets, classes), unused


def _classes(table: Table) -> tuple[str, ...]:
    if CLASSES not in table.names:
        return ()
    classes = tuple(map(str, read_columns(table, {CLASSES: "any"})[CLASSES].tolist()))
    taken: dict[str, str] = {}
    for name in classes:
        if (plain := plain_class(name)) in taken:
            raise InputError(
                f"{table.path} names the classes {taken[plain]!r} and {name!r}, which say the same; keep one"
            )
        taken[plain] = name
    return classes


def _by_name(table: Table, name: str, labels: Array, classes: tuple[str, ...]) -> Array:
    """Return labels that are names of classes as numbers; where no name is a number, numbers count from 0 already."""
    if labels.dtype.kind in "biuf" and not any(map(is_numeral, classes)):
        return labels
    places = numbered(labels, classes)
    unknown = places == UNKNOWN
    if not unknown.any():
        return places
    row = int(np.argmax(unknown))
    raise InputError(
        f"{table.path} array {name!r} has {str(labels[row])!r} in row {row}, none of its {CLASSES}: "
        f"{shortened(classes)}; pass labels by these names"
    )


def _row_set(path: Path, name: str, arrays: Mapping[str, Array]) -> RowSet:
    where = str(path) if name == str(TEST) else f"{path}, {name}"
    return RowSet(where, **arrays)
