"""Your data as a task: checked, split and stored under a name."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from volta.core.checks import class_numbers
from volta.core.checksummed import checksum_of_file, write_object
from volta.core.errors import InputError
from volta.core.files import DEFAULT_LIMITS, Limits, hash_file, inside, temp_folder, write_rows
from volta.core.types import Array, EncoderKind, InputKind, OodSet, Split, Task, check_ood_names, with_severities
from volta.data.arrays import SourceRows, feature_dtype
from volta.data.download import OnProgress
from volta.data.feature_files import stored_features, write_feature_sets
from volta.data.images import Size, label_image_folder, read_image_folder, read_unlabelled_images
from volta.data.labelled_arrays import holds_arrays, read_labelled_arrays
from volta.data.lookup import (
    ARRAYS,
    TASK_FILE,
    TASK_KIND,
    ArrayReference,
    StoredOod,
    StoredSplit,
    TaskRecord,
    had_images,
    move_task,
    pixel_sets,
    refuse_existing,
    task_folder,
    tidy,
)
from volta.data.task import LoadOptions, TaskDefinition, data_root
from volta.data.task_builder import (
    DividedRows,
    RawSets,
    divide_rows,
    division_notes,
    make_task,
)
from volta.data.tasks import TASKS


def store_features(name: str, features: Mapping[str, Array], options: LoadOptions | None = None) -> list[Path]:
    """Keep features extracted from a task's images so that ``find_task(name).load("features")`` finds them.

    ``features`` has one (n, d) array for each set that ``pixel_sets(name, options).inputs()`` names, rows in its order;
    shifts and OOD sets may be left out.
    """
    options = options or LoadOptions()
    if options.limit_test is not None:
        raise InputError(
            f"limit_test is {options.limit_test}, and the feature file would hold a part of the test rows alone; "
            "store all rows, or shifted sets alone (--only shifts)"
        )
    pixels = pixel_sets(name, options)
    sets = pixels.inputs()
    for key in features:
        if key not in sets:
            raise InputError(f"features names the set {key!r}, which {name} does not have; it has: {', '.join(sets)}")
    for key in (*pixels.parts, *features):
        _features_of(key, len(sets[key]), features)
    return write_feature_sets(options.folder, name, features, pixels)


def task_of_features(
    task: TaskDefinition, features: Mapping[str, Array], options: LoadOptions | None = None, *, source: str = ""
) -> Task:
    """Return a task on features extracted from its images.

    ``features`` has one (n, d) array for each set that ``task.image_sets(options).inputs()`` names, rows in its order;
    ``source`` says what made them.
    """
    options = options or LoadOptions()
    pixels = task.image_sets(options)

    def with_features(key: str, split: Split) -> Split:
        return Split(_features_of(key, len(split), features), split.labels)

    raw = RawSets(
        {key: with_features(key, split) for key, split in pixels.parts.items()},
        {key: OodSet(features[f"ood:{key}"], part.near) for key, part in pixels.ood.items()},
        {key: with_features(f"shift:{key}", part) for key, part in pixels.shifts.items()},
        pixels.class_names,
        f"{source}; {pixels.source}" if source else pixels.source,
    )
    return make_task(task.name, raw, task.preparation, "features")


def _features_of(key: str, n_images: int, features: Mapping[str, Array]) -> Array:
    if key not in features:
        raise InputError(f"features lacks the set {key!r}; pass features of every image set of the task")
    if len(features[key]) != n_images:
        raise InputError(f"features of {key} have {len(features[key])} rows for {n_images} images; pass one each")
    return features[key]


_CHUNK_BYTES = 1 << 24
_CHANNELS = (1, 3)


class ArrayWriter:
    """Writes the arrays of one task, all of one row shape: features in the `feature_dtype` of the first set, images as
    (n, 3, h, w) uint8.
    """

    def __init__(self, folder: Path, skip_bad: bool) -> None:
        self._folder = folder
        self._skip_bad = skip_bad
        self._shape: tuple[int, ...] | None = None
        self._dtype: np.dtype[Any] = np.dtype(np.uint8)
        self.notes: list[str] = []
        self.ranges: dict[str, tuple[float, float]] = {}
        folder.mkdir(parents=True)

    def set_kind(self, inputs: Array, where: str) -> InputKind:
        """Return whether a task with these inputs has features or pixels, and hold every later set to their shape."""
        self._shape = _target_shape(inputs, where)
        if len(self._shape) > 1:
            return "pixels"
        self._dtype = feature_dtype(inputs)
        return "features"

    def clean(self, rows: SourceRows, where: str) -> SourceRows:
        """Return the rows without NaN and infinities, or refuse them unless bad rows are to be left out."""
        if rows.inputs.dtype.kind != "f":
            return rows
        finite = np.ones(len(rows), bool)
        for piece in _pieces(rows):
            with np.errstate(over="ignore"):
                values = rows.inputs[rows.rows[piece]].astype(np.float32)
            finite[piece] = np.isfinite(values).reshape(len(values), -1).all(axis=1)
        if finite.all():
            return rows
        n_bad, first = int((~finite).sum()), int(np.argmin(finite))
        if not self._skip_bad:
            value = rows.inputs[rows.rows[first]]
            column = int(np.argmin(np.isfinite(value.astype(np.float32).reshape(-1))))
            raise InputError(
                f"{where}: {n_bad} rows hold NaN or values beyond float32, the first is row {first}, column {column}; "
                "impute them, or pass --skip-bad to leave them out"
            )
        self.notes.append(f"left out {n_bad} rows of {where} that hold NaN or infinities, the first is row {first}")
        return rows.take(np.flatnonzero(finite))

    def labelled(self, rows: SourceRows, labels: NDArray[np.int64], where: str, name: str) -> StoredSplit:
        """Write inputs and class numbers; return references to both."""
        whole = SourceRows(labels, None, np.arange(len(labels)))
        return StoredSplit(self.inputs(rows, where, name), self._write(whole, (), np.dtype(np.int64)))

    def inputs(self, rows: SourceRows, where: str, name: str) -> ArrayReference:
        """Write inputs; return a reference. Their least and largest value is kept in ``ranges`` under ``name``."""
        if not len(rows):
            raise InputError(f"{where} has no rows; give at least one")
        shape = _target_shape(rows.inputs, where)
        if shape != self._shape:
            raise InputError(
                f"{where} has rows of shape {shape}, but the task's are {self._shape}; sets of a task must match"
            )
        return self._write(rows, shape, self._dtype, name)

    def _write(self, rows: SourceRows, shape: tuple[int, ...], dtype: np.dtype[Any], name: str = "") -> ArrayReference:
        part = self._folder / ".part.npy"
        pieces = (_as_target(self._seen(rows.inputs[rows.rows[piece]], name), shape) for piece in _pieces(rows))
        write_rows(part, dtype, (len(rows), *shape), pieces)
        digest = hash_file(part)
        stored = f"{digest[:32]}.npy"
        part.replace(self._folder / stored)
        seal = checksum_of_file(self._folder / stored)
        return ArrayReference(stored, digest, seal, (len(rows), *shape), dtype.str)

    def _seen(self, values: Array, name: str) -> Array:
        if name:
            low, high = self.ranges.get(name, (np.inf, -np.inf))
            self.ranges[name] = (min(low, float(values.min())), max(high, float(values.max())))
        return np.asarray(values)


def _pieces(rows: SourceRows) -> list[slice]:
    step = max(1, _CHUNK_BYTES // max(1, rows.inputs[:1].nbytes))
    return [slice(start, start + step) for start in range(0, len(rows), step)]


def _target_shape(inputs: Array, where: str) -> tuple[int, ...]:
    """Return the shape of one stored row: (d,) for a matrix, (3, h, w) for 8-bit images however their channels lie."""
    if inputs.ndim == 2:
        return (inputs.shape[1],)
    if inputs.ndim not in (3, 4) or inputs.dtype != np.uint8:
        raise InputError(
            f"{where} has shape {inputs.shape} and {inputs.dtype}; "
            "expected (n, d) features, or 8-bit images (n, h, w, 3) or (n, 3, h, w)"
        )
    if inputs.ndim == 3:
        return (3, *inputs.shape[1:])
    first, last = inputs.shape[1] in _CHANNELS, inputs.shape[3] in _CHANNELS
    if first == last:
        raise InputError(f"{where} has shape {inputs.shape}: no single axis holds the 1 or 3 channels")
    return (3, *inputs.shape[2:]) if first else (3, *inputs.shape[1:3])


def _as_target(values: Array, shape: tuple[int, ...]) -> Array:
    if len(shape) < 3:
        return values
    if values.ndim == 3:
        values = values[:, None]
    elif values.shape[1] not in _CHANNELS:
        values = values.transpose(0, 3, 1, 2)
    return np.broadcast_to(values, (len(values), *shape))


@dataclass(frozen=True)
class ImportReport:
    """What an import read and made, so that a file that is not what it was taken for is seen.

    ``rows`` by set; ``class_rows`` by class, over all parts; ``ranges`` the least and the largest value by set;
    ``notes`` on what was left out or passed over.
    """

    name: str
    folder: Path
    kind: InputKind
    class_names: tuple[str, ...]
    rows: Mapping[str, int]
    class_rows: Mapping[str, int]
    ranges: Mapping[str, tuple[float, float]]
    notes: tuple[str, ...]


def import_task(
    source: Path | str,
    name: str,
    *,
    root: Path | None = None,
    ood: Mapping[str, Path | str] | None = None,
    shifts: Mapping[str, Path | str] | None = None,
    near: Collection[str] = (),
    label: str | None = None,
    ids: Collection[str] = (),
    image_size: Size | None = None,
    encoder: EncoderKind | None = None,
    skip_bad: bool = False,
    replace: bool = False,
    progress: OnProgress | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> ImportReport:
    """Make a task called ``name`` from an image folder (or a zip or tar of one) or a feature table.

    Splits the source names are kept. What is missing is drawn from the training rows, from the split seed: a
    fifth of all rows as test, a fifth for val and cal, cal plainly at random and the others with the classes' shares,
    so that one split alone gives 60/20/20; a lone ``val`` is halved into val and cal. ``ood`` and ``shifts`` map names
    to further sources; a shift is called NAME-SEVERITY and needs labels, of sources with several splits the test split
    counts. ``near`` names the near OOD sets.
    ``label`` names a table's label column, ``ids`` columns that are no features. ``image_size`` (height, width) scales
    images. ``skip_bad`` leaves out undecodable images and rows that hold NaN or infinities; otherwise they are an
    error. ``progress`` is called as images are decoded. ``limits`` bound what the sources may hold or cost. An existing
    task stays unless ``replace``, which also removes features extracted from its images. Nothing appears before all of
    it is written.
    """
    folder = data_root(root)
    target = task_folder(folder, name)
    if name in TASKS:
        raise InputError(f"name is {name!r}, which is a built-in task; choose another")
    refuse_existing(target, replace)
    check_ood_names(ood or {}, near)
    severe = with_severities(shifts or {})
    tidy(inside(folder, "imported"))
    source, notes = Path(source), []
    images: dict[str, Any] = {"size": image_size, "skip_bad": skip_bad, "progress": progress, "limits": limits}
    with temp_folder(target.parent) as temporary:
        scratch = temporary / "scratch"
        scratch.mkdir()

        def read(path: Path, set_name: str | None = None, *, labelled: bool = True) -> dict[str, SourceRows]:
            """Return the rows of a source by split; notes take up what was left out."""
            if holds_arrays(path):
                settings: dict[str, Any] = {"ids": tuple(ids), "gaps": skip_bad, "limits": limits}
                return read_labelled_arrays(path, label, labelled=labelled, set_name=set_name, **settings)
            reader = read_image_folder if labelled else read_unlabelled_images
            found, left_out = reader(path, scratch=Path(tempfile.mkdtemp(dir=scratch)), **images)
            notes.extend(left_out)
            return found if isinstance(found, dict) else {"all": found}

        def read_set(path: Path, key: str, where: str, *, labelled: bool = True) -> SourceRows:
            """Return the one set of a source in the columns of the training rows."""
            rows = _one_part(read(path, key, labelled=labelled), path)
            return writer.clean(rows.in_columns(train, str(path)), where)

        if not holds_arrays(source):
            # Decoding can take long; what the paths alone show is checked first.
            _divide(label_image_folder(source, limits), source, name, limits)
        found = read(source)
        writer = ArrayWriter(temporary / ARRAYS, skip_bad)
        found = {part: writer.clean(rows, f"{source} {part}") for part, rows in found.items()}
        given, divided = _divide(found, source, name, limits)
        train = given["train"]
        kind = writer.set_kind(train.inputs, str(source))
        stored = {
            part: writer.labelled(rows, labels, f"{source} {part}", part)
            for part, (rows, labels) in divided.parts.items()
        }
        stored_ood, stored_shifts = {}, {}
        for key, path in (ood or {}).items():
            where = f"ood {key}"
            rows = read_set(Path(path), key, where, labelled=False)
            stored_ood[key] = StoredOod(writer.inputs(rows, where, f"ood:{key}"), key in near)
        for key, path in severe.items():
            where = f"shift {key}"
            rows = read_set(Path(path), key, where)
            labels = class_numbers(rows.known_labels, divided.classes, where)
            stored_shifts[key] = writer.labelled(rows, labels, where, f"shift:{key}")
        notes += [*writer.notes, *division_notes(given, divided)]
        record = TaskRecord(
            name=name,
            title=f"imported from {source.name}",
            source=f"imported from {source.name}",
            kind=kind,
            encoder=encoder or ("vision" if kind == "pixels" else "tabular"),
            class_names=divided.class_names,
            parts=stored,
            ood=stored_ood,
            shifts=stored_shifts,
            notes=tuple(notes),
        )
        write_object(temporary / TASK_FILE, TASK_KIND, record)
        shutil.rmtree(scratch)
        temporary.chmod(0o755)
        # Another import may have made it meanwhile.
        refuse_existing(target, replace)
        if record.kind == "pixels":
            _remove_features(folder, name)
        move_task(temporary, target)
    return _report(record, target, divided, writer.ranges)


def _report(
    record: TaskRecord, folder: Path, divided: DividedRows, ranges: Mapping[str, tuple[float, float]]
) -> ImportReport:
    names = record.class_names
    totals = np.bincount(np.concatenate([labels for _, labels in divided.parts.values()]), minlength=len(names))
    counts = {part: len(rows) for part, (rows, _) in divided.parts.items()}
    counts |= {f"ood:{key}": part.inputs.shape[0] for key, part in record.ood.items()}
    counts |= {f"shift:{key}": part.inputs.shape[0] for key, part in record.shifts.items()}
    class_rows = dict(zip(names, totals.tolist(), strict=True))
    return ImportReport(record.name, folder, record.kind, names, counts, class_rows, ranges, record.notes)


def _remove_features(folder: Path, name: str) -> None:
    """Remove features of the images that stood under this name before: they are no features of these."""
    found = [path for path in stored_features(folder, name) if path.is_file()]
    if found and not had_images(folder, name):
        raise InputError(
            f"{found[0]} was not extracted from images called {name!r} and would be taken for the features of these; "
            "choose another --name, or move the file away"
        )
    for path in found:
        path.unlink()


def _divide(
    found: Mapping[str, SourceRows], source: Path, name: str, limits: Limits
) -> tuple[dict[str, SourceRows], DividedRows]:
    """Return the sets of the source by part, and the four parts of the task."""
    given = {("train" if part == "all" else part): rows for part, rows in found.items()}
    if "train" not in given:
        raise InputError(f"{source} has only {', '.join(given)}; a task needs a train split, or one set without splits")
    return given, divide_rows(given, name, str(source), n_classes=limits.n_classes)


def _one_part(parts: Mapping[str, SourceRows], source: Path) -> SourceRows:
    if "test" in parts:
        return parts["test"]
    if len(parts) == 1:
        return next(iter(parts.values()))
    raise InputError(f"{source} has the splits {', '.join(parts)}; expected one set, or one called test")
