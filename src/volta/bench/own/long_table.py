"""Many models in one table: a row says method, seed and set, and what that model gives for one input."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from volta.bench.eval_set import TEST
from volta.bench.own.class_names import NO_LABEL, UNKNOWN, plain_class
from volta.bench.own.class_names import numbered as class_numbers
from volta.bench.own.predictions import OwnModel, RowSet, is_ood
from volta.core.errors import InputError
from volta.core.types import Array
from volta.data.formats.table import Chunk, ReadAs, Table, as_labels, joined, shortened

_SINGLE: dict[str, ReadAs] = {
    "method": "any",
    "seed": "any",
    "set": "any",
    "id": "any",
    "label": "any or missing",
    "uncertainty": "score",
    "ood_score": "score",
}
_ALIASES = {"labels": "label", "ids": "id"}
_NUMBERED = re.compile(r"(p|prob|logit|in_set)_(\d+)")
_NAMED = re.compile(r"(p|prob|in_set)_(.+)", re.DOTALL)
_KIND_OF = {"p": "probs", "prob": "probs", "logit": "logits", "in_set": "sets"}
_WIDE = ("probs", "logits", "sets")
_SEED_DIGITS = 10
Key = TypeVar("Key", str, int)


@dataclass(frozen=True)
class _Layout:
    """Which column is what: ``single`` name → column, ``wide`` kind → columns in the classes' order.

    ``classes`` are the names that the columns have, and the labels with them; empty where both are numbered from 0.
    """

    single: dict[str, str]
    wide: dict[str, tuple[str, ...]]
    classes: tuple[str, ...]
    unused: tuple[str, ...]

    @property
    def reading(self) -> dict[str, ReadAs]:
        """How each column is to be read."""
        asked: dict[str, ReadAs] = {column: _SINGLE[name] for name, column in self.single.items()}
        return asked | {column: "number" for columns in self.wide.values() for column in columns}


def is_long(table: Table) -> bool:
    """Whether a table's columns are those of the long form: a row's method, seed or set, or numbered classes."""
    return any(name in ("method", "seed", "set") or _NUMBERED.fullmatch(name) for name in table.names)


def read_long(table: Table, method: str, seed: int, logits: bool) -> tuple[list[OwnModel], tuple[str, ...]]:
    """Return the models of a table, and the columns that were left alone.

    ``method`` and ``seed`` stand for columns that are not there; without a column ``set`` all rows are test rows.
    ``logits``: columns of probabilities hold logits.
    """
    layout = _layout(table)
    columns = _Columns()
    for chunk in table.chunks(layout.reading):
        columns.add(chunk, layout)
    wide = {kind: np.concatenate(parts) for kind, parts in columns.wide.items()}
    if logits and "probs" in wide:
        if "logits" in wide:
            raise InputError(f"{table.path} has probabilities and logits, and --logits; keep one kind of columns")
        wide["logits"] = wide.pop("probs")
    single = {name: joined(table, parts) for name, parts in columns.single.items()}
    if "id" in single:
        single["id"] = as_labels(single["id"])
    models: dict[tuple[str, int], dict[str, RowSet]] = {}
    for (one, which, set_name), rows in _groups(table, columns, method, seed):
        part = {kind: values[rows] for kind, values in wide.items()}
        part |= {name: values[rows] for name, values in single.items()}
        where = f"{table.path}, {one}, seed {which}" + ("" if set_name == str(TEST) else f", {set_name}")
        models.setdefault((one, which), {})[set_name] = _row_set(where, set_name, part, rows)
    return [OwnModel(*key, str(table.path), sets, layout.classes) for key, sets in models.items()], layout.unused


class _Codes:
    """Texts of a column as small numbers, chunk by chunk: a million names of three methods take a million bytes.

    ``plain`` brings a text to the one way in which what it says is written.
    """

    def __init__(self, plain: Callable[[str], str]) -> None:
        self._plain = plain
        self.names: dict[str, int] = {}
        self.parts: list[NDArray[np.int32]] = []

    def add(self, values: Array) -> None:
        starts = np.concatenate([[0], np.flatnonzero(values[1:] != values[:-1]) + 1])
        distinct, inverse = np.unique(values[starts], return_inverse=True)
        plain = [self._plain(str(name)) for name in distinct]
        codes = np.array([self.names.setdefault(name, len(self.names)) for name in plain], dtype=np.int32)
        self.parts.append(np.repeat(codes[inverse], np.diff(np.append(starts, len(values)))))


@dataclass
class _Columns:
    codes: dict[str, _Codes] = field(default_factory=dict)
    single: dict[str, list[Array]] = field(default_factory=dict)
    wide: dict[str, list[Array]] = field(default_factory=dict)
    n_rows: int = 0

    def add(self, chunk: Chunk, layout: _Layout) -> None:
        """Take up a chunk."""
        self.n_rows += len(chunk)
        for name, column in layout.single.items():
            values = chunk.columns[column]
            if name in _PLAIN:
                self.codes.setdefault(name, _Codes(_PLAIN[name])).add(values)
            else:
                self.single.setdefault(name, []).append(
                    _labels(chunk, column, layout.classes) if name == "label" else values
                )
        for kind, columns in layout.wide.items():
            parts = [chunk.columns[column] for column in columns]
            whole = parts[0] if parts[0].ndim == 2 else np.column_stack(parts)
            self.wide.setdefault(kind, []).append(whole)


def _layout(table: Table) -> _Layout:
    single: dict[str, str] = {}
    numbered: dict[str, dict[int, str]] = {}
    named: dict[str, dict[str, str]] = {}
    whole: dict[str, str] = {}
    for name in table.names:
        if (called := _ALIASES.get(name, name)) in _SINGLE:
            _only(table, single, called, name)
        elif found := _NUMBERED.fullmatch(name):
            _only(table, numbered.setdefault(_KIND_OF[found[1]], {}), int(found[2]), name)
        elif name in _WIDE:
            _only(table, whole, name, name)
        if found := _NAMED.fullmatch(name):
            named.setdefault(_KIND_OF[found[1]], {})[name] = found[2]
    for kind in whole:
        if kind in numbered:
            raise InputError(
                f"{table.path} has both columns {numbered[kind][min(numbered[kind])]}, … and {kind}; keep one"
            )
    wide: dict[str, tuple[str, ...]] = {}
    classes: tuple[str, ...] = ()
    if "logits" not in numbered and not whole and not _from_zero(numbered.get("probs", {})):
        classes, wide = _by_class(table, named)
        numbered = {} if classes else numbered
    for kind, columns in numbered.items():
        if not _from_zero(columns):
            missing = next(k for k in range(len(columns) + 1) if k not in columns)
            raise InputError(
                f"{table.path} has columns {', '.join(columns[k] for k in sorted(columns)[:20])}, but none for class "
                f"{missing}; give one a class, numbered from 0"
            )
        wide[kind] = tuple(columns[k] for k in range(len(columns)))
    wide |= {kind: (name,) for kind, name in whole.items()}
    if "probs" not in wide and "logits" not in wide:
        raise InputError(
            f"{table.path} has no columns p_0, p_1, …, nor p_NAME for each class (it has "
            f"{', '.join(table.names[:20])}); add one a class"
        )
    used = {*single.values(), *(column for columns in wide.values() for column in columns)}
    return _Layout(single, wide, classes, tuple(name for name in table.names if name not in used))


def _from_zero(columns: dict[int, str]) -> bool:
    return bool(columns) and sorted(columns) == list(range(len(columns)))


def _by_class(table: Table, named: dict[str, dict[str, str]]) -> tuple[tuple[str, ...], dict[str, tuple[str, ...]]]:
    """Return the classes that columns of probabilities are named by, and the columns; none where they are not."""
    probs = named.get("probs", {})
    if len(probs) < 2:
        return (), {}
    columns: dict[str, dict[str, str]] = {}
    for kind, found in named.items():
        for column, name in found.items():
            _only(table, columns.setdefault(kind, {}), plain_class(name), column)
    order = list(columns["probs"])
    if sorted(columns.get("sets", order)) != sorted(order):
        raise InputError(f"{table.path} has columns in_set_… of other classes than p_…; give one of each a class")
    return tuple(probs.values()), {kind: tuple(found[name] for name in order) for kind, found in columns.items()}


def _only(table: Table, found: dict[Key, str], key: Key, name: str) -> None:
    if key in found:
        raise InputError(f"{table.path} has the columns {found[key]!r} and {name!r}, which say the same; keep one")
    found[key] = name


def _labels(chunk: Chunk, column: str, classes: tuple[str, ...]) -> Array:
    values = chunk.columns[column]
    if classes:
        places = class_numbers(values, classes)
        if (places == UNKNOWN).any():
            row = int(np.argmax(places == UNKNOWN))
            raise InputError(
                f"{chunk.where(row, column)} is {str(values[row])!r}, none of the classes that the columns are named "
                f"by: {shortened(classes)}"
            )
        return places
    if values.dtype.kind == "f":
        return np.where(np.isnan(values), NO_LABEL, values)
    if values.dtype.kind != "U":
        return values
    filled = values if (values != "").all() else np.where(values == "", str(NO_LABEL), values)
    try:
        return filled.astype(np.float64)
    except ValueError:
        row = next((row for row, value in enumerate(filled.tolist()) if not _is_number(value)), 0)
        raise InputError(
            f"{chunk.where(row, column)} is {str(values[row])!r}, no number; number the classes from 0 in the "
            "order of the columns"
        ) from None


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _groups(
    table: Table, columns: _Columns, method: str, seed: int
) -> list[tuple[tuple[str, int, str], NDArray[np.intp]]]:
    """Return (method, seed, set) with the numbers of its rows, in the order in which they appear."""
    whole = np.zeros(columns.n_rows, dtype=np.int32)
    names: dict[str, list[str]] = {}
    codes = {}
    for name, default in (("method", method), ("seed", str(seed)), ("set", str(TEST))):
        found = columns.codes.get(name)
        names[name] = [default] if found is None else list(found.names)
        codes[name] = whole if found is None else np.concatenate(found.parts)
    joint = (codes["method"].astype(np.int64) * len(names["seed"]) + codes["seed"]) * len(names["set"]) + codes["set"]
    order = np.argsort(joint, kind="stable")
    starts = np.concatenate([[0], np.flatnonzero(np.diff(joint[order])) + 1])
    groups = []
    for rows in np.split(order, starts[1:]):
        first = rows[0]
        one, which, set_name = (names[name][codes[name][first]] for name in ("method", "seed", "set"))
        groups.append(((one, _seed(which, f"{table.path} row {first}"), set_name), rows))
    return sorted(groups, key=lambda group: group[1][0])


def _plain_set(text: str) -> str:
    return text.strip() or str(TEST)


def _plain_seed(text: str) -> str:
    """Return a whole number without leading zeros and decimals; any other text as it is."""
    number = text.strip().removesuffix(".0")
    return (number.lstrip("0") or "0") if number.isdecimal() and number.isascii() else text


_PLAIN: dict[str, Callable[[str], str]] = {"method": str, "seed": _plain_seed, "set": _plain_set}


def _seed(text: str, where: str) -> int:
    number = _plain_seed(text)
    if not (number.isdecimal() and number.isascii()) or len(number) > _SEED_DIGITS:
        shown = text if len(text) <= 2 * _SEED_DIGITS else f"{text[:_SEED_DIGITS]}…"
        raise InputError(f"{where}: seed {shown!r} is no whole number of at least 0 and below 2**32; number the seeds")
    return int(number)


def _row_set(where: str, set_name: str, part: dict[str, Array], rows: NDArray[np.intp]) -> RowSet:
    return RowSet(
        where,
        probs=part.get("probs"),
        logits=part.get("logits"),
        labels=None if is_ood(set_name) else part.get("label"),
        uncertainty=part.get("uncertainty"),
        ood_score=part.get("ood_score"),
        sets=part.get("sets"),
        ids=part.get("id"),
        rows=rows,
    )
