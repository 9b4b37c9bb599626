"""Arrays with labels: ``.npz``, ``.npy`` (one, or a folder of them) and Parquet, read without unpickling."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from volta.core.errors import InputError, MissingDataError
from volta.core.types import Array
from volta.data.formats.feature_files import read_npz
from volta.data.formats.source_rows import SPLIT_NAMES, SourceRows

INPUT_NAMES = ("x", "features", "inputs", "images", "data", "embeddings")
LABEL_NAMES = ("label", "y", "labels", "target", "targets", "class")
SPLIT_COLUMNS = ("split", "subset", "fold")
SUFFIXES = frozenset({".npz", ".npy", ".parquet", ".pq"})


def holds_arrays(source: Path) -> bool:
    """Whether a source is an npz, npy or Parquet file, by its name, or a folder of npy files."""
    if source.is_dir():
        return any(source.glob("*.npy"))
    return source.suffix.lower() in SUFFIXES


def read_labelled_arrays(source: Path, label: str | None = None, *, labelled: bool = True) -> dict[str, SourceRows]:
    """Return the rows of each split of a source; one that names no splits is one split called ``all``.

    npz, or a folder of npy: ``train_x`` and ``train_y`` (or ``x_train`` …) for each split, or ``x``, ``y`` and maybe
    ``split``. npy: a structured array, or a matrix beside ``NAME_labels.npy``. Parquet: a label column, maybe a split
    column, and either one column of lists or numeric columns. ``label`` names the label column where it is not one of
    ``label``, ``y``, ``labels``, ``target``.
    """
    suffix = source.suffix.lower()
    if source.is_dir():
        return _from_arrays(
            {path.stem: _load_npy(path) for path in sorted(source.glob("*.npy"))}, source, label, labelled
        )
    if not source.is_file():
        raise MissingDataError(f"{source} does not exist; name a npz, npy or Parquet file")
    if suffix == ".npz":
        return _from_arrays(read_npz(source), source, label, labelled)
    if suffix == ".npy":
        return _from_npy(source, label, labelled)
    if suffix in SUFFIXES:
        return _from_parquet(source, label, labelled)
    raise InputError(f"{source} is no table this reads; expected .npz, .npy or .parquet")


def _from_arrays(arrays: Mapping[str, Array], source: Path, label: str | None, labelled: bool) -> dict[str, SourceRows]:
    found: dict[str, dict[str, Array]] = {}
    label_names = (label.lower(),) if label else LABEL_NAMES
    for key, array in arrays.items():
        split, role = _role(key, label_names)
        if role:
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


def _from_npy(source: Path, label: str | None, labelled: bool) -> dict[str, SourceRows]:
    array = _load_npy(source)
    if array.dtype.names:
        columns = {name: array[name] for name in array.dtype.names}
        return _from_columns(columns, source, label, labelled)
    labels = None
    if labelled:
        for name in (f"{source.stem}_labels.npy", f"{source.stem}_y.npy", "labels.npy"):
            neighbour = source.with_name(name)
            if neighbour.is_file() and neighbour != source:
                labels = _load_npy(neighbour)
                break
        else:
            raise InputError(f"{source} has no labels; put them beside it in {source.stem}_labels.npy, one a row")
    return {"all": _source_rows(array, labels, str(source), labelled)}


def _from_parquet(source: Path, label: str | None, labelled: bool) -> dict[str, SourceRows]:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        raise MissingDataError("reading Parquet needs pyarrow, which is not installed: pip install pyarrow") from error
    try:
        table = parquet.read_table(source)
    except (pyarrow.ArrowException, OSError) as error:
        raise InputError(f"{source} is not a Parquet file that can be read ({error})") from error
    return _from_columns(
        {name: _column(table[name], f"{source} column {name}") for name in table.column_names},
        source,
        label,
        labelled,
    )


def _column(column: Any, where: str) -> Array:
    from pyarrow import compute, types

    column = column.combine_chunks()
    if types.is_dictionary(column.type):
        column = column.dictionary_decode()
    kind = column.type
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        if column.null_count:
            raise InputError(f"{where} has {column.null_count} empty rows; fill or drop them")
        lengths = np.unique(compute.list_value_length(column).to_numpy(zero_copy_only=False))
        if len(lengths) != 1:
            raise InputError(f"{where} has lists of {lengths[0]} to {lengths[-1]} numbers; expected one length")
        values: Array = column.flatten().to_numpy(zero_copy_only=False)
        return values.reshape(len(column), int(lengths[0]))
    if types.is_string(kind) or types.is_large_string(kind):
        if column.null_count:
            raise InputError(f"{where} has {column.null_count} empty rows; fill or drop them")
        return np.array(column.to_pylist(), dtype=np.str_)
    plain: Array = column.to_numpy(zero_copy_only=False)
    return plain


def _from_columns(
    columns: Mapping[str, Array], source: Path, label: str | None, labelled: bool
) -> dict[str, SourceRows]:
    label_name = _find_column(columns, (label,) if label else LABEL_NAMES)
    split_name = _find_column(columns, SPLIT_COLUMNS)
    if label_name is None and labelled:
        wanted = repr(label) if label else ", ".join(LABEL_NAMES)
        raise InputError(
            f"{source} has no label column ({wanted}); it has {', '.join(list(columns)[:20])}; name one with --label"
        )
    rest = {name: column for name, column in columns.items() if name not in (label_name, split_name)}
    if not rest:
        raise InputError(f"{source} has no feature columns beside {label_name}")
    textual = [name for name, column in rest.items() if column.dtype.kind not in "biuf"]
    if textual:
        raise InputError(
            f"{source} column {textual[0]!r} is not numeric ({rest[textual[0]].dtype}); drop it or encode it as numbers"
        )
    wide = [column.reshape(len(column), -1) for column in rest.values()]
    inputs = wide[0] if len(wide) == 1 else np.concatenate([part.astype(np.float32) for part in wide], axis=1)
    whole = _source_rows(inputs, columns[label_name] if label_name else None, str(source), labelled)
    return _by_split(whole, columns[split_name], source) if split_name else {"all": whole}


def _find_column(columns: Mapping[str, Array], names: tuple[str, ...]) -> str | None:
    lower = {name.lower(): name for name in columns}
    return next((lower[name.lower()] for name in names if name.lower() in lower), None)


def _by_split(whole: SourceRows, column: Array, source: Path) -> dict[str, SourceRows]:
    if len(column) != len(whole):
        raise InputError(f"{source}: split has {len(column)} rows but there are {len(whole)} rows")
    names = np.array([str(name).lower() for name in column.tolist()])
    unknown = sorted(set(names.tolist()) - set(SPLIT_NAMES))
    if unknown:
        raise InputError(f"{source}: split {unknown[0]!r} is unknown; expected train, val, cal or test")
    splits = np.array([SPLIT_NAMES[name] for name in names.tolist()])
    return {split: whole.take(np.flatnonzero(splits == split)) for split in dict.fromkeys(splits.tolist())}


def _source_rows(inputs: Array, labels: Array | None, where: str, labelled: bool) -> SourceRows:
    if inputs.ndim < 2 or inputs.dtype.kind not in "biuf":
        raise InputError(f"{where} has inputs of shape {inputs.shape} and {inputs.dtype}; expected (n, d) numbers")
    if labelled and labels is None:
        raise InputError(f"{where} has no labels; expected one of {', '.join(LABEL_NAMES)}")
    if labels is not None:
        labels = labels.reshape(-1) if labels.ndim == 2 and labels.shape[1] == 1 else labels
        if labels.ndim != 1:
            raise InputError(f"{where} has labels of shape {labels.shape}; expected (n,), one class a row")
        if len(labels) != len(inputs):
            raise InputError(f"{where} has {len(labels)} labels for {len(inputs)} rows; pass one label a row")
    return SourceRows(inputs, labels if labelled else None, np.arange(len(inputs)))


def _load_npy(path: Path) -> Array:
    try:
        array: Array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError, OSError) as error:
        if isinstance(error, FileNotFoundError):
            raise
        raise InputError(f"{path} is not a npy file that can be read ({error})") from error
    if not isinstance(array, np.ndarray):
        raise InputError(f"{path} is an npz; rename it to .npz")
    return array
