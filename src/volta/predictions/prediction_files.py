"""Files of external predictions become models: npz, CSV and Parquet."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from volta.bench.cell_metrics import TEST, VAL
from volta.core.errors import InputError
from volta.core.seeding import check_seed
from volta.core.types import Array
from volta.data.tables import ReadAs, TableFile, as_labels, open_table, read_columns, shortened
from volta.predictions.external_model import (
    KINDS,
    NO_LABEL,
    UNKNOWN,
    ExternalModel,
    RowSet,
    check_model,
    check_sets,
    class_numbers,
    is_numeral,
    is_ood,
    plain_class,
)

_ALIASES = {"label": "labels", "id": "ids", "ood_scores": "ood_score"}
_READ_AS: dict[str, ReadAs] = {
    **{"uncertainty": "score", "ood_score": "score"},
    **{"ids": "any", "sets": "any", "labels": "any"},
}
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


def read_keyed(table: TableFile, method: str, seed: int, logits: bool) -> tuple[ExternalModel, tuple[str, ...]]:
    """Return the model that an npz holds, and the arrays that were left alone; ``logits``: probs are logits."""
    places = {name: place for name in table.names if (place := array_place(name)) is not None}
    classes = _classes(table)
    by_set: dict[str, dict[str, Array]] = {}
    for name, (set_name, called) in places.items():
        kind = "logits" if called == "probs" and logits else called
        if kind in by_set.setdefault(set_name, {}):
            raise InputError(f"{table.path} has two arrays for {kind} of {set_name}; keep one")
        values = read_columns(table, {name: _READ_AS.get(kind, "number")})[name]
        # Where no class is named by a number, numbers count from 0 already.
        if kind == "labels" and classes and (values.dtype.kind not in "biuf" or any(map(is_numeral, classes))):
            values = _by_name(table, name, values, classes)
        by_set[set_name][kind] = as_labels(values) if kind == "ids" else values
    if not by_set:
        raise InputError(
            f"{table.path} has no array called probs or logits (it has {', '.join(table.names[:20]) or 'none'}); name "
            "arrays probs, labels, uncertainty, ood_score, sets, id, and val/probs, ood:NAME for other sets"
        )
    sets = {name: RowSet(_where(str(table.path), name), **arrays) for name, arrays in by_set.items()}
    for rows in sets.values():
        if classes and rows.n_classes not in (None, len(classes)):
            raise InputError(f"{rows.where} has {rows.n_classes} classes but {CLASSES} names {len(classes)}; name each")
    unused = tuple(name for name in table.names if name not in places and name != CLASSES)
    return ExternalModel(method, seed, str(table.path), sets, classes), unused


def _classes(table: TableFile) -> tuple[str, ...]:
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


def _by_name(table: TableFile, name: str, labels: Array, classes: tuple[str, ...]) -> Array:
    """Return labels that are names of classes as numbers."""
    places = class_numbers(labels, classes)
    unknown = places == UNKNOWN
    if not unknown.any():
        return places
    row = int(np.argmax(unknown))
    raise InputError(
        f"{table.where(row, name)} is {str(labels[row])!r}, none of the classes that are named: {shortened(classes)}; "
        "pass labels by these names"
    )


def _where(file: str, set_name: str) -> str:
    return file if set_name == str(TEST) else f"{file}, {set_name}"


_SINGLE: dict[str, ReadAs] = {
    "method": "any",
    "seed": "any",
    "set": "any",
    "id": "any",
    "label": "any or missing",
    "uncertainty": "score",
    "ood_score": "score",
}
_NUMBERED = re.compile(r"(p|prob|logit|in_set)_(\d+)")
_NAMED = re.compile(r"(p|prob|in_set)_(.+)", re.DOTALL)
_KIND_OF = {"p": "probs", "prob": "probs", "logit": "logits", "in_set": "sets"}
_WIDE = ("probs", "logits", "sets")
_SEED_DIGITS = 19
_KEYS = ("method", "seed", "set")
Key = TypeVar("Key", str, int)


def is_long(table: TableFile) -> bool:
    """Whether a table's columns are those of the long form: a row's method, seed or set, or numbered classes."""
    return any(name in _KEYS or _NUMBERED.fullmatch(name) for name in table.names)


def read_long(table: TableFile, method: str, seed: int, logits: bool) -> tuple[list[ExternalModel], tuple[str, ...]]:
    """Return the models of a table, and the columns that were left alone.

    ``method`` and ``seed`` stand for columns that are not there; without a column ``set`` all rows are test rows.
    ``logits``: columns of probabilities hold logits.
    """
    single, wide, classes = _layout(table)
    used = [*single.values(), *(column for columns in wide.values() for column in columns)]
    read_as = {column: _SINGLE[name] for name, column in single.items()}
    found = read_columns(table, {column: read_as.get(column, "number") for column in used})
    columns = {_ALIASES.get(name, name): found[column] for name, column in single.items() if name not in _KEYS}
    for kind, names in wide.items():
        parts = [found[name] for name in names]
        columns[kind] = parts[0] if parts[0].ndim == 2 else np.column_stack(parts)
    if logits and "probs" in columns:
        if "logits" in columns:
            raise InputError(f"{table.path} has probabilities and logits, and --logits; keep one kind of columns")
        columns["logits"] = columns.pop("probs")
    if "ids" in columns:
        columns["ids"] = as_labels(columns["ids"])
    if "labels" in columns:
        columns["labels"] = _labels(table, single["label"], columns["labels"], classes)
    keys = {
        name: found[single[name]] if name in single else np.array([default] * len(found[used[0]]))
        for name, default in (("method", method), ("seed", str(seed)), ("set", str(TEST)))
    }
    models: dict[tuple[str, int], dict[str, RowSet]] = {}
    for (one, which, set_name), rows in _groups(table, keys):
        part = {name: values[rows] for name, values in columns.items() if name != "labels" or not is_ood(set_name)}
        where = _where(f"{table.path}, {one}, seed {which}", set_name)
        models.setdefault((one, which), {})[set_name] = RowSet(where, rows=rows, **part)
    unused = tuple(name for name in table.names if name not in used)
    return [ExternalModel(*key, str(table.path), sets, classes) for key, sets in models.items()], unused


def _layout(table: TableFile) -> tuple[dict[str, str], dict[str, tuple[str, ...]], tuple[str, ...]]:
    """Return which column is what: name → column, kind → columns in the classes' order, and the classes' names.

    There are no names where the columns are numbered from 0, and the labels with them.
    """
    single: dict[str, str] = {}
    numbered: dict[str, dict[int, str]] = {}
    named: dict[str, dict[str, str]] = {}
    whole: dict[str, str] = {}
    for name in table.names:
        if (called := {"labels": "label", "ids": "id"}.get(name, name)) in _SINGLE:
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
    return single, wide, classes


def _from_zero(columns: dict[int, str]) -> bool:
    return bool(columns) and sorted(columns) == list(range(len(columns)))


def _by_class(table: TableFile, named: dict[str, dict[str, str]]) -> tuple[tuple[str, ...], dict[str, tuple[str, ...]]]:
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


def _only(table: TableFile, found: dict[Key, str], key: Key, name: str) -> None:
    if key in found:
        raise InputError(f"{table.path} has the columns {found[key]!r} and {name!r}, which say the same; keep one")
    found[key] = name


def _labels(table: TableFile, column: str, labels: Array, classes: tuple[str, ...]) -> Array:
    """Return labels as numbers, ``NO_LABEL`` where one is missing; names of classes become their places."""
    if classes:
        return _by_name(table, column, labels, classes)
    if labels.dtype.kind == "f":
        return np.where(np.isnan(labels), NO_LABEL, labels)
    if labels.dtype.kind != "U":
        return labels
    try:
        return np.where(labels == "", str(NO_LABEL), labels).astype(np.float64)
    except ValueError:
        row = next((row for row, text in enumerate(labels.tolist()) if text and not _is_number(text)), 0)
        raise InputError(
            f"{table.where(row, column)} is {str(labels[row])!r}, no number; number the classes from 0 in the order of "
            "the columns"
        ) from None


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _groups(table: TableFile, keys: Mapping[str, Array]) -> list[tuple[tuple[str, int, str], NDArray[np.intp]]]:
    """Return (method, seed, set) with the numbers of its rows, in the order in which they appear."""
    codes, names = [], []
    for name, values in keys.items():
        starts = np.concatenate([[0], np.flatnonzero(values[1:] != values[:-1]) + 1])
        plain, inverse = np.unique([_PLAIN[name](str(value)) for value in values[starts]], return_inverse=True)
        names.append(plain.tolist())
        codes.append(np.repeat(inverse, np.diff(np.append(starts, len(values)))))
    joint = np.ravel_multi_index(codes, [len(plain) for plain in names])
    order = np.argsort(joint, kind="stable")
    groups = []
    for rows in np.split(order, np.flatnonzero(np.diff(joint[order])) + 1):
        method, seed, set_name = (plain[code[rows[0]]] for plain, code in zip(names, codes, strict=True))
        groups.append(((method, _seed(seed, f"{table.path} row {rows[0]}"), set_name), rows))
    return sorted(groups, key=lambda group: group[1][0])


def _plain_seed(text: str) -> str:
    """Return a whole number without leading zeros and decimals; any other text as it is."""
    number = text.strip().removesuffix(".0")
    return (number.lstrip("0") or "0") if number.isdecimal() and number.isascii() else text


_PLAIN: dict[str, Callable[[str], str]] = {
    "method": str,
    "seed": _plain_seed,
    "set": lambda text: text.strip() or str(TEST),
}


def _seed(text: str, where: str) -> int:
    if text.isdecimal() and text.isascii() and len(text) <= _SEED_DIGITS:
        return check_seed(int(text), f"{where}: seed")
    return check_seed(text if len(text) <= 2 * _SEED_DIGITS else f"{text[:_SEED_DIGITS]}…", f"{where}: seed")


def read_models(
    paths: Iterable[Path],
    *,
    logits: bool = False,
    method: str | None = None,
    seed: int | None = None,
    say: Callable[[str], object] | None = None,
    labelled: bool = True,
) -> list[ExternalModel]:
    """Return the checked models of all files; nothing is written.

    logits: whether probabilities are logits, which is never guessed. method, seed: names for files that do not say
    them; a file called ``METHOD-SEED.npz`` does, any other is a method of seed 0. say: hears of unused columns.
    labelled: whether every set needs labels; if not, the sets need not include ``test`` either.
    """
    models: dict[tuple[str, int], ExternalModel] = {}
    for path in paths:
        for model in _read(path, logits, method, seed, say):
            key = model.method, model.seed
            if key in models:
                raise InputError(
                    f"{model.where} holds {model.label}, which {models[key].where} holds too; name them apart with "
                    "--method and --seed, or by file names METHOD-SEED.npz"
                )
            models[key] = model
    if not models:
        raise InputError("no file is named; pass at least one")
    return [check_model(model) if labelled else check_sets(model, labelled=False) for model in models.values()]


def name_in_file(path: Path) -> tuple[str, int]:
    """Return method and seed that a file's name says: ``METHOD-SEED``, or a method alone, of seed 0.

    >>> name_in_file(Path("runs/resnet-42.npz")), name_in_file(Path("net.v1-7.csv.gz")), name_in_file(Path("a-b.csv"))
    (('resnet', 42), ('net.v1', 7), ('a-b', 0))
    """
    stem = Path(path.name.removesuffix(".gz")).stem
    method, dash, seed = stem.rpartition("-")
    return (method, int(seed)) if dash and method and seed.isdecimal() else (stem, 0)


def _read(
    path: Path, logits: bool, method: str | None, seed: int | None, say: Callable[[str], object] | None
) -> list[ExternalModel]:
    table = open_table(path)
    told = name_in_file(path)
    one, which = method if method is not None else told[0], seed if seed is not None else told[1]
    if path.suffix == ".npz" and not is_long(table):
        model, unused = read_keyed(table, one, which, logits)
        models = [model]
    else:
        for name, given in (("method", method), ("seed", seed)):
            if given is not None and name in table.names:
                raise InputError(f"--{name} is {given}, but {path} has a column {name}; leave one of them out")
        models, unused = read_long(table, one, which, logits)
    if unused and say is not None:
        say(f"{path}: not used: {', '.join(unused)}")
    return models
