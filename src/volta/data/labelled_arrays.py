"""Arrays with labels from ``.npz``, ``.npy``, CSV, Parquet and Hugging Face folders, read without unpickling."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from volta.core.errors import InputError, MissingDataError, parse_errors
from volta.core.files import DEFAULT_LIMITS, Limits
from volta.core.types import Array
from volta.data.arrays import SPLIT_NAMES, SourceRows, feature_dtype, read_npy, read_npz
from volta.data.tables import (
    READERS,
    ArrowTable,
    ReadAs,
    TableFile,
    as_labels,
    open_table,
    read_columns,
    suggest_id,
)

MARKS = ("dataset_dict.json", "dataset_info.json")


def is_saved_dataset(folder: Path) -> bool:
    """Whether a folder was written by ``save_to_disk``."""
    return any((folder / mark).is_file() for mark in MARKS)


_Column = TypeVar("_Column")

INPUT_NAMES = ("x", "features", "inputs", "images", "data", "embeddings")
LABEL_NAMES = ("label", "y", "labels", "target", "targets", "class")
_ROLES = {"x": "inputs", "y": "labels", "split": "split"}
SPLIT_COLUMNS = ("split", "subset", "fold")
SUFFIXES = (*READERS, ".npy")


def holds_arrays(source: Path) -> bool:
    """Whether a source is a CSV, npz, npy or Parquet file, by its name, or a folder of npy files or a data set."""
    if source.is_dir():
        return any(source.glob("*.npy")) or is_saved_dataset(source)
    return source.name.lower().endswith(SUFFIXES)


def read_labelled_arrays(
    source: Path,
    label: str | None = None,
    *,
    labelled: bool = True,
    ids: Collection[str] = (),
    set_name: str | None = None,
    gaps: bool = False,
    limits: Limits = DEFAULT_LIMITS,
) -> dict[str, SourceRows]:
    """Return the rows of each split of a source; one that names no splits is one split called ``all``.

    npz, or a folder of npy: ``train_x`` and ``train_y`` (or ``x_train`` …) for each split, or ``x``, ``y`` and maybe
    ``split``. npy: a structured array, or a matrix with ``NAME_labels.npy``. CSV and Parquet: a label column, maybe a
    split column, and numeric columns, in Parquet also one column of lists; a folder that Hugging Face ``datasets``
    saved has the same columns, and its splits. ``label`` names the label column where it is not one of
    ``label``, ``y``, ``labels``, ``target``; columns named ``ids`` are no features and are left out. With ``set_name``
    an npz may hold many sets, as the data folder's ``NAME-ood.npz`` does: ``SET_x`` and maybe ``SET_y`` are taken where
    they are there.
    ``gaps``: empty cells of a CSV's feature columns are NaN, not an error.
    """
    suffix = source.suffix.lower()
    if source.is_dir() and is_saved_dataset(source):
        return _from_saved_dataset(source, label, labelled, ids, gaps, limits)
    if source.is_dir():
        return _from_arrays(
            {path.stem: read_npy(path, limits) for path in sorted(source.glob("*.npy"))}, source, label, labelled
        )
    if not source.is_file():
        raise MissingDataError(f"{source} does not exist; name a CSV, npz, npy or Parquet file")
    if suffix == ".npz":
        arrays = read_npz(source, limits)
        if set_name is not None and f"{set_name}_x" in arrays:
            arrays = {role: arrays[f"{set_name}_{role}"] for role in ("x", "y") if f"{set_name}_{role}" in arrays}
        return _from_arrays(arrays, source, label, labelled)
    if suffix == ".npy":
        return _from_npy(source, label, labelled, ids, limits)
    return _from_table(open_table(source, limits), label, labelled, ids, gaps)


def _from_arrays(arrays: Mapping[str, Array], source: Path, label: str | None, labelled: bool) -> dict[str, SourceRows]:
    found: dict[str, dict[str, Array]] = {}
    names: dict[tuple[str, str], str] = {}
    label_names = (label.lower(),) if label else LABEL_NAMES
    for key, array in arrays.items():
        split, role = _role(key, label_names)
        if not role:
            continue
        if (split, role) in names:
            remedy = "name one with --label" if role == "y" and not label else "keep one"
            raise InputError(
                f"{source} has the arrays {names[split, role]} and {key}, either of which may be the "
                f"{_ROLES[role]}; {remedy}"
            )
        names[split, role] = key
        found.setdefault(split, {})[role] = array
    parts = {}
    for split, roles in found.items():
        if "x" not in roles:
            continue
        parts[split] = _source_rows(roles["x"], roles.get("y"), f"{source} {split}", labelled)
    if "all" in parts and len(parts) > 1:
        raise InputError(
            f"{source} holds both a whole set and splits ({', '.join(sorted(parts))}); keep one of the two"
        )
    if not parts:
        raise InputError(
            f"{source} holds {', '.join(arrays) or 'nothing'}; expected train_x, train_y, test_x, test_y, or x and y"
        )
    if "all" in parts and "split" in found["all"]:
        return _by_split(parts["all"], found["all"]["split"], source)
    return parts


def _role(key: str, label_names: tuple[str, ...]) -> tuple[str, str]:
    """Return (split, ``x`` | ``y`` | ``split``) for an array's name; an empty role if it is none of ours."""
    words = key.lower().replace("-", "_").split("_")
    split = "all"
    for word in (words[0], words[-1]):
        if len(words) > 1 and word in SPLIT_NAMES:
            split = SPLIT_NAMES[word]
            words.remove(word)
            break
    rest = "_".join(words)
    if rest in label_names:
        return split, "y"
    if rest in INPUT_NAMES:
        return split, "x"
    return split, "split" if rest in SPLIT_COLUMNS else ""


def _from_npy(
    source: Path, label: str | None, labelled: bool, ids: Collection[str], limits: Limits
) -> dict[str, SourceRows]:
    array = read_npy(source, limits)
    if array.dtype.names:
        columns = {name: array[name] for name in array.dtype.names}
        return _from_columns(columns, source, label, labelled, ids)
    labels = None
    if labelled:
        for name in (f"{source.stem}_labels.npy", f"{source.stem}_y.npy", "labels.npy"):
            neighbour = source.with_name(name)
            if neighbour.is_file() and neighbour != source:
                labels = read_npy(neighbour, limits)
                break
        else:
            raise InputError(f"{source} has no labels; put them next to it in {source.stem}_labels.npy, one a row")
    return {"all": _source_rows(array, labels, str(source), labelled)}


def _from_table(
    table: TableFile, label: str | None, labelled: bool, ids: Collection[str], gaps: bool
) -> dict[str, SourceRows]:
    names = _without(dict.fromkeys(table.names), ids, table.path, labelled)
    special = (_label_column(names, table.path, label, labelled), _find_column(names, SPLIT_COLUMNS, table.path))
    number: ReadAs = "number or missing" if gaps else "number"
    with suggest_id():
        columns = read_columns(table, {name: "any" if name in special else number for name in names})
    columns |= {name: as_labels(columns[name]) for name in special if name is not None}
    return _from_columns(columns, table.path, label, labelled)


def _without(columns: Mapping[str, _Column], ids: Collection[str], source: Path, labelled: bool) -> dict[str, _Column]:
    """Return the columns but those that identify rows, which sets without labels need not have."""
    unknown = [name for name in ids if name not in columns]
    if unknown and labelled:
        raise InputError(f"--id is {unknown[0]!r}, which {source} lacks; it has {', '.join(list(columns)[:20])}")
    return {name: column for name, column in columns.items() if name not in ids}


def _from_saved_dataset(
    source: Path, label: str | None, labelled: bool, ids: Collection[str], gaps: bool, limits: Limits
) -> dict[str, SourceRows]:
    """Return the rows of each split; class numbers become the names of their classes."""
    try:
        import datasets
    except ImportError as error:
        raise MissingDataError(
            f"{source} is a Hugging Face data set; reading it needs: pip install datasets"
        ) from error
    with parse_errors(source, "cannot be read as a Hugging Face data set", "save it again with save_to_disk"):
        found: Any = datasets.load_from_disk(str(source))
        splits: Mapping[str, Any] = found if isinstance(found, Mapping) else {"all": found}
        parts: dict[str, SourceRows] = {}
        for split, part in splits.items():
            # In memory: flattening would otherwise write a copy of the rows into the folder.
            flat = part if part._indices is None else part.flatten_indices(keep_in_memory=True)
            table = flat.data.table
            opened = ArrowTable(source, table.schema, len(table), partial(_batches, table), limits)
            rows = _from_table(opened, label, labelled, ids, gaps)
            column = _label_column(part.features, source, label, labelled)
            class_names = getattr(part.features.get(column), "names", None)
            if class_names is not None:
                rows = {name: _with_class_names(one, class_names, f"{source} {split}") for name, one in rows.items()}
            if split == "all":
                return rows
            if split not in SPLIT_NAMES:
                raise InputError(f"{source} has a split {split!r}; expected train, validation, calibration or test")
            parts[SPLIT_NAMES[split]] = rows["all"]
    return parts


def _batches(table: Any, names: list[str]) -> list[Any]:
    batches: list[Any] = table.select(names).to_batches()
    return batches


def _with_class_names(rows: SourceRows, names: Sequence[str], where: str) -> SourceRows:
    if rows.labels is None:
        return rows
    if not ((rows.labels >= 0) & (rows.labels < len(names))).all():
        raise InputError(
            f"{where} has labels outside its {len(names)} classes, as sets without labels have; leave it out"
        )
    return replace(rows, labels=np.array(names)[rows.labels])


def _from_columns(
    columns: Mapping[str, Array], source: Path, label: str | None, labelled: bool, ids: Collection[str] = ()
) -> dict[str, SourceRows]:
    columns = _without(columns, ids, source, labelled)
    label_name = _label_column(columns, source, label, labelled)
    split_name = _find_column(columns, SPLIT_COLUMNS, source)
    rest = {name: column for name, column in columns.items() if name not in (label_name, split_name)}
    if not rest:
        raise InputError(f"{source} has no feature columns other than {label_name}")
    textual = [name for name, column in rest.items() if column.dtype.kind not in "biuf"]
    if textual:
        raise InputError(
            f"{source} column {textual[0]!r} is not numeric ({rest[textual[0]].dtype}); encode it as numbers, drop it, "
            "or name it with --id if it is no feature"
        )
    if any(column.size == 0 for column in rest.values()):
        raise InputError(f"{source} has no rows; give at least one")
    wide = [column.reshape(len(column), -1) for column in rest.values()]
    dtype = np.result_type(*(feature_dtype(part) for part in wide))
    inputs = wide[0] if len(wide) == 1 else np.concatenate([part.astype(dtype) for part in wide], axis=1)
    whole = _source_rows(inputs, columns[label_name] if label_name else None, str(source), labelled)
    whole = replace(whole, columns=_names(rest))
    return _by_split(whole, columns[split_name], source) if split_name else {"all": whole}


def _names(columns: Mapping[str, Array]) -> tuple[str, ...] | None:
    """Return a name for every number of a row; None of one column of lists, whose order is all it says."""
    widths = {name: column.size // len(column) for name, column in columns.items()}
    if len(columns) == 1 and max(widths.values()) > 1:
        return None
    return tuple(name if width == 1 else f"{name}[{at}]" for name, width in widths.items() for at in range(width))


def _label_column(columns: Mapping[str, object], source: Path, label: str | None, labelled: bool) -> str | None:
    found = _find_column(columns, (label,) if label else LABEL_NAMES, source)
    several = [name for name in columns if name.lower() in LABEL_NAMES]
    if label is None and labelled and len(several) > 1:
        raise InputError(
            f"{source} has several columns that may be labels: {', '.join(several)}; name one with --label"
        )
    if found is None and labelled:
        wanted = repr(label) if label else ", ".join(LABEL_NAMES)
        raise InputError(
            f"{source} has no label column ({wanted}); it has {', '.join(list(columns)[:20])}; name one with --label"
        )
    return found


def _find_column(columns: Mapping[str, object], names: tuple[str, ...], source: Path) -> str | None:
    """Return the column of the first name that there is one of; one that differs in case alone will do."""
    for name in names:
        alike = [name] if name in columns else [column for column in columns if column.lower() == name.lower()]
        if len(alike) > 1:
            raise InputError(f"{source} has the columns {', '.join(alike)}; say exactly which one {name!r} is")
        if alike:
            return alike[0]
    return None


def _by_split(whole: SourceRows, column: Array, source: Path) -> dict[str, SourceRows]:
    if len(column) != len(whole):
        raise InputError(f"{source}: split has {len(column)} rows but there are {len(whole)} rows")
    names = np.array([_text(name).lower() for name in column.tolist()])
    unknown = sorted(set(names.tolist()) - set(SPLIT_NAMES))
    if unknown:
        raise InputError(f"{source}: split {unknown[0]!r} is unknown; expected train, val, cal or test")
    splits = np.array([SPLIT_NAMES[name] for name in names.tolist()])
    return {split: whole.take(np.flatnonzero(splits == split)) for split in dict.fromkeys(splits.tolist())}


def _text(name: object) -> str:
    return name.decode("utf-8", "replace") if isinstance(name, bytes) else str(name)


def _source_rows(inputs: Array, labels: Array | None, where: str, labelled: bool) -> SourceRows:
    if inputs.ndim < 2 or inputs.dtype.kind not in "biuf":
        raise InputError(f"{where} has inputs of shape {inputs.shape} and {inputs.dtype}; expected (n, d) numbers")
    if inputs.size == 0:
        raise InputError(f"{where} has inputs of shape {inputs.shape}; give at least one row and one column")
    if labelled and labels is None:
        raise InputError(f"{where} has no labels; expected one of {', '.join(LABEL_NAMES)}")
    if labels is not None:
        labels = labels.reshape(-1) if labels.ndim == 2 and labels.shape[1] == 1 else labels
        if labels.ndim != 1:
            raise InputError(f"{where} has labels of shape {labels.shape}; expected (n,), one class a row")
        if len(labels) != len(inputs):
            raise InputError(f"{where} has {len(labels)} labels for {len(inputs)} rows; pass one label a row")
    return SourceRows(inputs, labels if labelled else None, np.arange(len(inputs)))
