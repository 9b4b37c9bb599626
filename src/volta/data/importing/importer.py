"""Own data → a task: an image folder or arrays with labels are checked, split and stored under a name."""

from __future__ import annotations

import shutil
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from volta.core.copies import copies_in_test, copies_left_out, copy_groups
from volta.core.errors import InputError
from volta.core.labels import check_class_sizes, class_numbers, class_values, small_classes
from volta.core.leftovers import part_folder
from volta.core.limits import DEFAULT_LIMITS, Limits
from volta.core.sealed import inside, write_object
from volta.core.seeding import SPLIT_SEED, rng
from volta.core.set_names import check_ood_names, with_severities
from volta.core.splits import complete_parts, parts_of_train
from volta.core.types import Array, EncoderKind, InputKind
from volta.data.download.transfer import OnProgress
from volta.data.formats.feature_files import stored_features
from volta.data.formats.image_decoding import Size
from volta.data.formats.image_folder import label_image_folder, read_image_folder, read_unlabelled_images
from volta.data.formats.labelled_arrays import holds_arrays, read_labelled_arrays
from volta.data.formats.source_rows import SourceRows
from volta.data.importing.array_writer import ArrayWriter
from volta.data.importing.imported_tasks import ARRAYS, TASK_FILE, had_images, task_folder
from volta.data.importing.moving import move_task, refuse_existing, tidy
from volta.data.importing.task_record import TASK_KIND, StoredOod, StoredSplit, TaskRecord
from volta.data.options import data_root
from volta.data.tasks import TASKS


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


@dataclass(frozen=True)
class _Reader:
    """How sources are read in this import."""

    label: str | None
    ids: tuple[str, ...]
    image_size: Size | None
    skip_bad: bool
    progress: OnProgress | None
    limits: Limits

    def labelled(self, source: Path, scratch: Path, name: str | None = None) -> tuple[dict[str, SourceRows], list[str]]:
        if holds_arrays(source):
            return self._arrays(source, name), []
        return read_image_folder(source, scratch=scratch, **self._settings)

    def ood_set(self, source: Path, scratch: Path, name: str) -> tuple[SourceRows, list[str]]:
        if not holds_arrays(source):
            return read_unlabelled_images(source, scratch=scratch, **self._settings)
        return _one_part(self._arrays(source, name, labelled=False), source), []

    def _arrays(self, source: Path, name: str | None, labelled: bool = True) -> dict[str, SourceRows]:
        return read_labelled_arrays(
            source,
            self.label,
            labelled=labelled,
            ids=self.ids,
            set_name=name,
            gaps=self.skip_bad,
            limits=self.limits,
        )

    @property
    def _settings(self) -> dict[str, Any]:
        return {
            "size": self.image_size,
            "skip_bad": self.skip_bad,
            "progress": self.progress,
            "limits": self.limits,
        }


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
    ood, shifts = _checked_names(dict(ood or {}), dict(shifts or {}), near)
    tidy(inside(folder, "imported"))
    with part_folder(target.parent) as temporary:
        reader = _Reader(label, tuple(ids), image_size, skip_bad, progress, limits)
        report, record = _write(Path(source), name, target, temporary, reader, ood, shifts, frozenset(near), encoder)
        write_object(temporary / TASK_FILE, TASK_KIND, record.to_json())
        shutil.rmtree(temporary / "scratch")
        temporary.chmod(0o755)
        # Another import may have made it meanwhile.
        refuse_existing(target, replace)
        if record.kind == "pixels":
            _remove_features(folder, name)
        move_task(temporary, target)
    return report


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


def _write(
    source: Path,
    name: str,
    target: Path,
    temporary: Path,
    reader: _Reader,
    ood: Mapping[str, Path],
    shifts: Mapping[str, Path],
    near: frozenset[str],
    encoder: EncoderKind | None,
) -> tuple[ImportReport, TaskRecord]:
    if not holds_arrays(source):
        # Decoding can take long; what the paths alone give away is said first.
        _split(label_image_folder(source, reader.limits), source, name, reader.limits)
    scratch = _scratch(temporary, "task")
    found, notes = reader.labelled(source, scratch)
    writer = ArrayWriter(temporary / ARRAYS, reader.skip_bad)
    found = {part: writer.clean(rows, f"{source} {part}") for part, rows in found.items()}
    classes, class_names, parts = _split(found, source, name, reader.limits)
    first, columns = next(iter(found.values())).inputs, next(iter(parts.values()))[0].columns
    kind = writer.set_kind(first, str(source))
    stored = {part: writer.labelled(rows, labels, f"{source} {part}", part) for part, (rows, labels) in parts.items()}
    stored_ood: dict[str, StoredOod] = {}
    stored_shifts: dict[str, StoredSplit] = {}
    counts = {part: len(rows) for part, (rows, _) in parts.items()}
    for key, path in ood.items():
        rows, more = reader.ood_set(path, _scratch(temporary, f"ood-{key}"), key)
        rows = writer.clean(rows.in_columns(columns, str(path)), f"ood {key}")
        notes += more
        stored_ood[key] = StoredOod(writer.inputs(rows, f"ood {key}", f"ood:{key}"), key in near)
        counts[f"ood:{key}"] = len(rows)
    for key, path in shifts.items():
        sets, more = reader.labelled(path, _scratch(temporary, f"shift-{key}"), key)
        rows = writer.clean(_one_part(sets, path).in_columns(columns, str(path)), f"shift {key}")
        notes += more
        labels = class_numbers(_labels(rows), classes, f"shift {key}")
        stored_shifts[key] = writer.labelled(rows, labels, f"shift {key}", f"shift:{key}")
        counts[f"shift:{key}"] = len(rows)
    notes += writer.notes
    if (small := small_classes((labels for _, labels in parts.values()), class_names)) is not None:
        notes.append(small)
    notes += filter(None, [copies_left_out(found.values(), (labels for _, labels in parts.values()))])
    if kind == "features" and "test" in found:
        test, train = (rows.inputs[rows.rows] for rows in (parts["test"][0], parts["train"][0]))
        notes += filter(None, [copies_in_test(test, train)])
    record = TaskRecord(
        name=name,
        title=f"imported from {source.name}",
        source=f"imported from {source.name}",
        kind=kind,
        encoder=encoder or ("vision" if kind == "pixels" else "tabular"),
        class_names=class_names,
        parts=stored,
        ood=stored_ood,
        shifts=stored_shifts,
        notes=tuple(notes),
    )
    totals = np.bincount(np.concatenate([labels for _, labels in parts.values()]), minlength=len(class_names))
    class_rows = dict(zip(class_names, totals.tolist(), strict=True))
    return ImportReport(name, target, kind, class_names, counts, class_rows, writer.ranges, tuple(notes)), record


def _split(
    found: Mapping[str, SourceRows], source: Path, name: str, limits: Limits
) -> tuple[Array, tuple[str, ...], dict[str, tuple[SourceRows, NDArray[np.int64]]]]:
    """Return the classes, their names and the four parts with class numbers."""
    named = {("train" if part == "all" else part): rows for part, rows in found.items()}
    if "train" not in named:
        raise InputError(f"{source} has only {', '.join(named)}; a task needs a train split, or one set without splits")
    named = {part: rows.in_columns(named["train"].columns, f"{source} {part}") for part, rows in named.items()}
    classes = class_values(_labels(named["train"]), f"{source} train")
    if len(classes) > limits.n_classes:
        raise InputError(
            f"{source} has {len(classes):,} classes, the limit is {limits.n_classes:,} (--limit n_classes=...); "
            "is the label column the right one?"
        )
    names = tuple(str(value) for value in classes.tolist())
    numbers = {part: class_numbers(_labels(rows), classes, f"{source} {part}") for part, rows in named.items()}
    for part, rows in named.items():
        if not len(rows):
            raise InputError(f"{source} has no rows in {part}; fill it or leave the split out")
    needed = parts_of_train(named)
    check_class_sizes({"train": numbers["train"]}, names, needed)

    def copies_of(part: str) -> NDArray[np.int64] | None:
        inputs = named[part].inputs
        return copy_groups(inputs.reshape(len(inputs), -1), numbers[part], named[part].rows, n_parts=needed)

    drawn = complete_parts(numbers, rng(SPLIT_SEED, name, "splits"), str(source), copies_of)
    parts = {part: (named[origin].take(rows), numbers[origin][rows]) for part, (origin, rows) in drawn.items()}
    return classes, names, parts


def _labels(rows: SourceRows) -> Array:
    if rows.labels is None:
        raise InputError("the source has no labels; a task and its shifts need one a row")
    return rows.labels


def _one_part(parts: Mapping[str, SourceRows], source: Path) -> SourceRows:
    if "test" in parts:
        return parts["test"]
    if len(parts) == 1:
        return next(iter(parts.values()))
    raise InputError(f"{source} has the splits {', '.join(parts)}; expected one set, or one called test")


def _checked_names(
    ood: Mapping[str, Path | str], shifts: Mapping[str, Path | str], near: Collection[str]
) -> tuple[dict[str, Path], dict[str, Path]]:
    check_ood_names(ood, near)
    severe = with_severities(shifts)
    return {name: Path(path) for name, path in ood.items()}, {name: Path(path) for name, path in severe.items()}


def _scratch(temporary: Path, name: str) -> Path:
    folder = temporary / "scratch" / name
    folder.mkdir(parents=True)
    return folder
