"""Frozen features on disk, and the columns of a table that are features.

``NAME.npz`` holds ``train_x``, ``train_y``, ``test_x``, ``test_y``, and ``val_*`` and ``cal_*`` where the splits are
fixed; the other two hold ``SET_x``, and a shift ``SET_y`` where its labels are not the test labels and ``SET_o`` where
it is one of CIFAR-10-C's corruptions: ``official`` or ``generated``, as its images were. Shifted sets of a part of the
test rows alone lie in ``NAME-shifts-N.npz``, N rows each, and serve loads with ``limit_test`` N.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from volta.core.checks import check_features, refuse_blanks
from volta.core.errors import InputError
from volta.core.files import DEFAULT_LIMITS, Limits, lock_file, write_atomic
from volta.core.types import Array, OodSet, Split
from volta.data.arrays import read_npz
from volta.data.corruptions.corrupt import CORRUPTION_NAMES
from volta.data.frames import RawTable, cells_of, stacked
from volta.data.labelled_arrays import INPUT_NAMES, LABEL_NAMES
from volta.data.tables import (
    CellError,
    Chunk,
    ReadAs,
    TableFile,
    as_labels,
    check_cells,
    joined,
    labels_like,
    open_table,
    read_columns,
    shortened,
    suggest_id,
)
from volta.data.task import LoadOptions, ShiftOrigin
from volta.data.task_builder import CorruptionOrigin, RawSets

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
    """Rows (n, d), their labels as stored and their identifiers, and the chunk of the file they come from.

    Rows of a table that holds more than numbers are columns as they came.
    """

    rows: Array | RawTable
    labels: Array | None
    ids: dict[str, Array]
    chunk: Chunk


@dataclass(frozen=True, eq=False)
class FeatureTable:
    """A table with its roles: ``columns`` are read, in this order; ``names`` are those of the features, or None.

    ``n_features`` is how many there have to be, None where any number will do. ``mixed``: the cells of columns are read
    as they come, of any type or missing; those of a matrix may be NaN.
    """

    table: TableFile
    columns: tuple[str, ...]
    names: tuple[str, ...] | None
    label: str | None
    ids: tuple[str, ...]
    n_features: int | None = None
    mixed: bool = False

    def chunks(self, *, missing: bool = False) -> Iterator[FeatureChunk]:
        """Walk the rows; cells of numbers may be ``missing``, which makes them NaN."""
        matrix = self.columns != self.names
        read_as: ReadAs = "number or missing" if missing or self.mixed else "number"
        if self.mixed and not matrix:
            read_as = "any or missing"
        asked: dict[str, ReadAs] = dict.fromkeys(self.columns, read_as)
        asked |= dict.fromkeys((*self.ids, *((self.label,) if self.label else ())), "any")
        with suggest_id():
            for chunk in self.table.chunks(asked):
                parts = [chunk.columns[name] for name in self.columns]
                if self.mixed and not matrix:
                    rows: Array | RawTable = RawTable(self.names, tuple(map(cells_of, parts)))
                else:
                    rows = parts[0].reshape(len(chunk), -1) if len(parts) == 1 else np.column_stack(parts)
                    if rows.shape[1] != (self.n_features or rows.shape[1]):
                        raise InputError(f"{self.table.path} has {rows.shape[1]} features, the model {self.n_features}")
                labels = None
                if self.label is not None:
                    labels = chunk.columns[self.label]
                    _check_labels(chunk, self.label, labels)
                yield FeatureChunk(rows, labels, {name: chunk.columns[name] for name in self.ids}, chunk)

    def read_labelled(self, classes: Array | None = None) -> tuple[Array | RawTable, Array]:
        """Return all rows and their labels, in the type of ``classes`` where those are known.

        Where not every cell is a finite number, rows are columns as they came.
        """
        if self.label is None:
            raise InputError(f"{self.table.path} has no label column; name it with --label")
        try:
            pieces = [(part.rows, part.labels) for part in self.chunks()]
        except CellError:
            if self.mixed:
                raise
            return replace(self, mixed=True).read_labelled(classes)
        labels = joined(self.table, [part for _, part in pieces if part is not None])
        where = f"{self.table.path} column {self.label!r}"
        if classes is None:
            typed = as_labels(labels)
            refuse_blanks(np.unique(typed), where)
        else:
            typed = labels_like(labels, classes, where)
        return stacked([part for part, _ in pieces]), typed


def open_features(
    path: Path,
    roles: Roles,
    *,
    names: Sequence[str] | None = None,
    n_features: int | None = None,
    labelled: bool = False,
    mixed: bool = False,
) -> FeatureTable:
    """Open a table of features.

    Without ``names`` every column that has no role is a feature, or, in an npz or a Parquet file, the one array that
    holds a row of numbers a row (``x`` or ``features``). With ``names``, those of a fitted model, columns are taken by
    name in the model's order; a column that is missing, or that neither the model nor ``roles`` know, is an error.
    ``labelled``: a label is needed; in an npz it is found by its usual names. ``mixed``: columns may hold more than
    numbers.
    """
    table = open_table(path)
    for name in roles.ids:
        table.column(name, "--id")
    matrix = _matrix_of(table)
    label = _label_of(table, roles, labelled, guess=matrix is not None)
    if matrix is not None:
        found = FeatureTable(table, (matrix,), _names_of(table), label, roles.ids, n_features, mixed)
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
        found = FeatureTable(table, columns, columns, label, roles.ids, n_features, mixed)
    if matrix is not None and names is not None and found.names is not None and found.names != tuple(names):
        raise InputError(
            f"{path} names its features differently from the model; the model has {shortened(tuple(names))}"
        )
    return found


def _matrix_of(table: TableFile) -> str | None:
    """Return the column that holds whole rows of features, where there is one."""
    wide = {column.name.lower(): column.name for column in table.columns if column.wide and column.numeric}
    for name in INPUT_NAMES:
        if name in wide:
            return wide[name]
    if len(wide) > 1:
        raise InputError(f"{table.path} holds several matrices ({shortened(tuple(wide))}); call that of the features x")
    return next(iter(wide.values()), None)


def _names_of(table: TableFile) -> tuple[str, ...] | None:
    for name in FEATURE_NAME_ARRAYS:
        if name in table.names:
            return tuple(str(value) for value in read_columns(table, {name: "any"})[name])
    return None


def _label_of(table: TableFile, roles: Roles, labelled: bool, guess: bool) -> str | None:
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
    table: TableFile, columns: tuple[str, ...], names: tuple[str, ...], label: str | None, roles: Roles
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
        raise InputError(f"{chunk.table.path} column {name!r} has {labels.shape[1]} values a row; pass one class a row")
    if labels.dtype.kind == "U" and (empty := np.char.str_len(np.char.strip(labels)) == 0).any():
        row = int(np.argmax(empty))
        raise InputError(f"{chunk.where(row, name)} is empty; drop rows without a label")


PARTS = ("train", "val", "cal", "test")


def features_path(root: Path, name: str, what: str = "") -> Path:
    """Return the path of a task's feature file; ``what`` is empty, ``ood``, ``shifts`` or ``shifts-N``."""
    return root / "features" / (f"{name}-{what}.npz" if what else f"{name}.npz")


def stored_features(root: Path, name: str) -> list[Path]:
    """Return where a task's feature files may lie: those of fixed names, and what there is of parts of the rows."""
    parts = [path for path in root.glob(f"features/{name}-shifts-*.npz") if path.stem.rpartition("-")[2].isdigit()]
    return [*(features_path(root, name, what) for what in ("", "ood", "shifts")), *parts]


@dataclass(frozen=True, eq=False)
class FeatureFiles:
    """The feature files of the task ``name``.

    ``ood_rows`` says how many rows each complete OOD set has, which the source note compares with what was found.
    ``class_names`` are used where they fit the labels. ``every_shift`` takes the shifts of all severities, not only
    those asked for.
    """

    name: str
    class_names: tuple[str, ...] = ()
    ood_rows: Mapping[str, int] = field(default_factory=dict)
    every_shift: bool = False
    limits: Limits = DEFAULT_LIMITS

    def is_there(self, root: Path) -> bool:
        """Whether the task's features are there."""
        return features_path(root, self.name).is_file()

    def read(self, options: LoadOptions) -> RawSets:
        """Return the task's features as float32."""
        root = options.folder
        path = features_path(root, self.name)
        arrays = read_npz(path, self.limits)
        parts = {part: labelled_part(arrays, part, path, self.limits) for part in PARTS if f"{part}_x" in arrays}
        for part in ("train", "test"):
            if part not in parts:
                raise InputError(f"{path} has no {part}_x and {part}_y; it holds: {', '.join(arrays) or 'nothing'}")
        ood, _ = _extra_sets(features_path(root, self.name, "ood"), self.limits)
        shifts, shift_labels = self._shifts(options)
        _check_widths(path, parts["train"].inputs.shape[1], {**ood, **shifts})
        n_classes = int(max(split.labels.max() for split in parts.values())) + 1
        names = self.class_names if len(self.class_names) == n_classes else map(str, range(n_classes))
        return RawSets(
            parts=parts,
            ood={key: OodSet(rows) for key, rows in ood.items()},
            shifts={key: Split(rows, shift_labels.get(key, parts["test"].labels)) for key, rows in shifts.items()},
            class_names=tuple(names),
            source=_describe(path, ood, self.ood_rows),
        )

    def _shifts(self, options: LoadOptions) -> tuple[dict[str, Array], dict[str, Array]]:
        """Return the corrupted test sets asked for, complete ones before those of a part of the test rows."""
        if options.shifts == "none":
            return {}, {}

        def is_asked(shift: str) -> bool:
            return self.every_shift or shift.rpartition("-")[2] in map(str, options.severities)

        def read(what: str, is_read: Callable[[str], bool]) -> tuple[dict[str, Array], dict[str, Array]]:
            path = features_path(options.folder, self.name, what)
            others = _made_otherwise(path, self.limits, options.shifts)
            return _extra_sets(path, self.limits, lambda shift: is_read(shift) and shift not in others)

        whole, labels = read("shifts", is_asked)
        if options.limit_test is None:
            return whole, labels
        more, more_labels = read(f"shifts-{options.limit_test}", lambda shift: is_asked(shift) and shift not in whole)
        return whole | more, labels | more_labels


def write_feature_sets(root: Path, name: str, features: Mapping[str, Array], pixels: RawSets) -> list[Path]:
    """Store features extracted from the sets of ``pixels``, keyed as :meth:`RawSets.inputs` is; return the files.

    Half-precision features stay half-precision on disk. Sets stored before that are not written now stay if the test
    rows stay as they were; otherwise another backbone made them, and they would not fit these.
    """
    whole = {}
    for part, split in pixels.parts.items():
        whole[f"{part}_x"], whole[f"{part}_y"] = features[part], split.labels
    files = {"": whole}
    for what, key in (("ood", "ood:"), ("shifts", "shift:")):
        sets = {f"{set_name[len(key) :]}_x": rows for set_name, rows in features.items() if set_name.startswith(key)}
        if sets:
            files[what] = sets
    for shift, split in pixels.shifts.items():
        if f"shift:{shift}" in features and split.labels is not pixels.parts["test"].labels:
            files["shifts"][f"{shift}_y"] = split.labels
    if "shifts" in files:
        files["shifts"] |= _origins(files["shifts"], pixels.corruptions)
    written = {features_path(root, name, what): arrays for what, arrays in files.items()}
    main = features_path(root, name)
    if not _same_rows(main, features["test"]):
        # All are removed first: a run that stops in between must not leave sets of two backbones.
        for path in stored_features(root, name):
            if path != main:
                path.unlink(missing_ok=True)
    for path, arrays in written.items():
        _write(path, arrays)
    return list(written)


def _same_rows(path: Path, test: Array) -> bool:
    """Whether the test rows stored in ``path`` are these, up to the precision of a file."""
    if not path.is_file():
        return False
    stored = read_npz(path, wanted=lambda key: key == "test_x").get("test_x")
    return stored is not None and stored.shape == test.shape and np.allclose(stored, test, rtol=1e-2, atol=1e-3)


def store_shifts(
    name: str, shifts: Mapping[str, Split], options: LoadOptions, origin: CorruptionOrigin = "none"
) -> Path:
    """Add features of corrupted test sets to those that a task has stored; return the file.

    With ``options.limit_test`` they are of a part of the test rows and lie in a separate file, named by their number.
    ``origin``: where their images come from, if they are corruptions of CIFAR-10-C.
    """
    what = "shifts" if options.limit_test is None else f"shifts-{options.limit_test}"
    path = features_path(options.folder, name, what)
    path.parent.mkdir(parents=True, exist_ok=True)
    with lock_file(path.parent, f"{path.name}.lock"):
        arrays = read_npz(path) if path.is_file() else {}
        for key, split in shifts.items():
            arrays[f"{key}_x"], arrays[f"{key}_y"] = split.inputs, split.labels
            arrays.pop(f"{key}_o", None)
        arrays |= _origins({f"{key}_x": split.inputs for key, split in shifts.items()}, origin)
        _write(path, arrays)
    return path


def _origins(sets: Iterable[str], origin: CorruptionOrigin) -> dict[str, Array]:
    """Return the marks of those sets that are corruptions; two ways to make one give different images of one name."""
    names = [] if origin == "none" else [key[:-2] for key in sets if key.endswith("_x")]
    return {f"{name}_o": np.array(origin) for name in names if name.rpartition("-")[0] in CORRUPTION_NAMES}


def _made_otherwise(path: Path, limits: Limits, asked: ShiftOrigin) -> set[str]:
    """Return the stored sets that are known to be made in another way than was asked for."""
    if asked not in ("official", "generated") or not path.is_file():
        return set()
    marks = read_npz(path, limits, lambda key: key.endswith("_o"))
    return {key[:-2] for key, mark in marks.items() if mark.size != 1 or str(mark.reshape(())) != asked}


def _write(path: Path, arrays: Mapping[str, Array]) -> None:
    content = {key: np.asarray(array) for key, array in arrays.items()}
    write_atomic(path, lambda file: np.savez(file, **content))  # type: ignore[arg-type]


def labelled_part(arrays: Mapping[str, Array], part: str, path: Path, limits: Limits = DEFAULT_LIMITS) -> Split:
    """Return the rows ``PART_x`` with the class numbers ``PART_y``, both checked."""
    if f"{part}_y" not in arrays:
        raise InputError(f"{path} has {part}_x but no {part}_y; features need labels")
    labels = _class_numbers(arrays[f"{part}_y"], f"{path} {part}_y", limits)
    return Split(_features(arrays[f"{part}_x"], f"{path} {part}_x"), labels)


def _class_numbers(labels: Array, where: str, limits: Limits) -> NDArray[np.int64]:
    if labels.dtype.kind not in "iu" or labels.ndim != 1 or labels.min(initial=0) < 0:
        raise InputError(f"{where} has shape {labels.shape} and {labels.dtype}; expected class numbers from 0")
    if len(labels) and labels.max() >= limits.n_classes:
        raise InputError(
            f"{where} has the class number {labels.max()}; they run from 0 without gaps, and a task has "
            f"{limits.n_classes:,} classes at most; renumber them, or import the file, which does so"
        )
    return labels.astype(np.int64)


def _extra_sets(
    path: Path, limits: Limits, is_asked: Callable[[str], bool] = lambda name: True
) -> tuple[dict[str, Array], dict[str, Array]]:
    if not path.is_file():
        return {}, {}
    arrays = read_npz(path, limits, lambda key: is_asked(key[:-2]))
    rows = {key[:-2]: _features(array, f"{path} {key}") for key, array in arrays.items() if key.endswith("_x")}
    labels = {
        key[:-2]: _class_numbers(array, f"{path} {key}", limits) for key, array in arrays.items() if key.endswith("_y")
    }
    return rows, labels


def _features(rows: Array, where: str) -> Array:
    if rows.ndim != 2:
        raise InputError(f"{where} has shape {rows.shape}; expected (n_samples, n_features)")
    return np.asarray(check_features(rows, where), dtype=np.float32)


def _check_widths(path: Path, width: int, sets: Mapping[str, Array]) -> None:
    for name, rows in sets.items():
        if rows.shape[1] != width:
            raise InputError(
                f"{path}: {name} has {rows.shape[1]} features but train has {width}; extract them with one backbone"
            )


def _describe(path: Path, ood: Mapping[str, Array], ood_rows: Mapping[str, int]) -> str:
    fewer = [
        f"{name} {len(rows):,} of {ood_rows[name]:,} rows"
        for name, rows in ood.items()
        if len(rows) < ood_rows.get(name, 0)
    ]
    return f"features from {path.name}" + (f"; incomplete: {', '.join(fewer)}" if fewer else "")
