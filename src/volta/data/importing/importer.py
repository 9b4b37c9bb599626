"""Own data → a task: an image folder or arrays with labels are checked, split and stored under a name."""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from volta.core.errors import InputError, StoreError
from volta.core.files import sync_folder, write_json
from volta.core.seeding import SPLIT_SEED, rng
from volta.core.types import Array, EncoderKind, InputKind
from volta.data.download.transfer import OnProgress
from volta.data.formats.feature_files import features_path
from volta.data.formats.image_decoding import Size
from volta.data.formats.image_folder import label_image_folder, read_image_folder, read_unlabelled_images
from volta.data.formats.labelled_arrays import holds_arrays, read_labelled_arrays
from volta.data.formats.source_rows import SourceRows
from volta.data.importing.array_writer import ArrayWriter
from volta.data.importing.imported_tasks import ARRAYS, SCHEMA, TASK_FILE, task_folder
from volta.data.importing.labels import check_class_sizes, class_numbers, class_values
from volta.data.options import data_root
from volta.data.splits import random_take, split_fit_rows, stratified_take
from volta.data.tasks import TASKS

_SET_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.]*")
_SHIFT_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.]*-\d+")
_FIFTH = 0.2


@dataclass(frozen=True)
class ImportReport:
    """What an import made: rows by set, and notes on what was left out or passed over."""

    name: str
    folder: Path
    kind: InputKind
    class_names: tuple[str, ...]
    rows: Mapping[str, int]
    notes: tuple[str, ...]


@dataclass(frozen=True)
class _Reader:
    """How sources are read in this import."""

    label: str | None
    image_size: Size | None
    skip_bad: bool
    progress: OnProgress | None

    def labelled(self, source: Path, scratch: Path) -> tuple[dict[str, SourceRows], list[str]]:
        if holds_arrays(source):
            return read_labelled_arrays(source, self.label), []
        return read_image_folder(source, scratch=scratch, **self._settings)

    def ood_set(self, source: Path, scratch: Path) -> tuple[SourceRows, list[str]]:
        if not holds_arrays(source):
            return read_unlabelled_images(source, scratch=scratch, **self._settings)
        return _one_part(read_labelled_arrays(source, self.label, labelled=False), source), []

    @property
    def _settings(self) -> dict[str, Any]:
        return {"size": self.image_size, "skip_bad": self.skip_bad, "progress": self.progress}


def import_task(
    source: Path | str,
    name: str,
    *,
    root: Path | None = None,
    ood: Mapping[str, Path | str] | None = None,
    shifts: Mapping[str, Path | str] | None = None,
    near: Collection[str] = (),
    label: str | None = None,
    image_size: Size | None = None,
    encoder: EncoderKind | None = None,
    skip_bad: bool = False,
    replace: bool = False,
    progress: OnProgress | None = None,
) -> ImportReport:
    """Make a task called ``name`` from an image folder (or a zip or tar of one) or a feature table.

    Splits the source names are kept. What is missing is drawn from the training rows, stratified, from the split
    seed: a fifth of all rows as test, a fifth for val and cal, so that one split alone gives 60/20/20; a lone ``val``
    is halved into val and cal. ``ood`` and ``shifts`` map names to further sources; a shift is called NAME-SEVERITY
    and needs labels, of sources with several splits the test split counts. ``near`` names the near OOD sets.
    ``label`` names a table's label column. ``image_size`` (height, width) scales images. ``skip_bad`` leaves out
    undecodable images and rows that hold NaN or infinities; otherwise they are an error. ``progress`` is called as
    images are decoded. An existing task stays unless ``replace``, which also removes its feature files. Nothing
    appears before all of it is written.
    """
    folder = data_root(root)
    target = task_folder(folder, name)
    if name in TASKS:
        raise InputError(f"name is {name!r}, which is a built-in task; choose another")
    if target.exists() and not replace:
        raise InputError(
            f"the task {name!r} exists already at {target}; choose another name or pass --force to replace it"
        )
    ood, shifts = _checked_names(dict(ood or {}), dict(shifts or {}), near)
    temporary = _make_folder(target.parent)
    try:
        reader = _Reader(label, image_size, skip_bad, progress)
        report, record = _write(Path(source), name, target, temporary, reader, ood, shifts, frozenset(near), encoder)
        write_json(temporary / TASK_FILE, record)
        shutil.rmtree(temporary / "scratch")
        temporary.chmod(0o755)
        # Features of the images that stood under this name before are no features of these.
        for what in ("", "ood", "shifts"):
            features_path(folder, name, what).unlink(missing_ok=True)
        _move(temporary, target)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return report


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
) -> tuple[ImportReport, dict[str, Any]]:
    if not holds_arrays(source):
        # Decoding can take long; what the paths alone give away is said first.
        _split(label_image_folder(source), source, name)
    scratch = _scratch(temporary, "task")
    found, notes = reader.labelled(source, scratch)
    writer = ArrayWriter(temporary / ARRAYS, reader.skip_bad)
    found = {part: writer.clean(rows, f"{source} {part}") for part, rows in found.items()}
    classes, class_names, parts = _split(found, source, name)
    first = next(iter(found.values())).inputs
    kind = writer.set_kind(first, str(source))
    record: dict[str, Any] = {
        "schema": SCHEMA,
        "name": name,
        "title": f"imported from {source.name}",
        "source": f"imported from {source.name}",
        "kind": kind,
        "encoder": encoder or ("vision" if kind == "pixels" else "tabular"),
        "class_names": list(class_names),
        "parts": {part: writer.labelled(rows, labels, f"{source} {part}") for part, (rows, labels) in parts.items()},
        "ood": {},
        "shifts": {},
    }
    counts = {part: len(rows) for part, (rows, _) in parts.items()}
    for key, path in ood.items():
        rows, more = reader.ood_set(path, _scratch(temporary, f"ood-{key}"))
        rows = writer.clean(rows, f"ood {key}")
        notes += more
        record["ood"][key] = {"inputs": writer.inputs(rows, f"ood {key}"), "near": key in near}
        counts[f"ood:{key}"] = len(rows)
    for key, path in shifts.items():
        sets, more = reader.labelled(path, _scratch(temporary, f"shift-{key}"))
        rows = writer.clean(_one_part(sets, path), f"shift {key}")
        notes += more
        labels = class_numbers(_labels(rows), classes, f"shift {key}")
        record["shifts"][key] = writer.labelled(rows, labels, f"shift {key}")
        counts[f"shift:{key}"] = len(rows)
    notes += writer.notes
    record["notes"] = notes
    return ImportReport(name, target, kind, class_names, counts, tuple(notes)), record


def _split(
    found: Mapping[str, SourceRows], source: Path, name: str
) -> tuple[Array, tuple[str, ...], dict[str, tuple[SourceRows, NDArray[np.int64]]]]:
    """Return the classes, their names and the four parts with class numbers."""
    named = {("train" if part == "all" else part): rows for part, rows in found.items()}
    if "train" not in named:
        raise InputError(f"{source} has only {', '.join(named)}; a task needs a train split, or one set without splits")
    classes = class_values(_labels(named["train"]), f"{source} train")
    names = tuple(str(value) for value in classes.tolist())
    numbers = {part: class_numbers(_labels(rows), classes, f"{source} {part}") for part, rows in named.items()}
    for part, rows in named.items():
        if not len(rows):
            raise InputError(f"{source} has no rows in {part}; fill it or leave the split out")
    check_class_sizes(
        {"train": numbers["train"]},
        names,
        1 + ("test" not in named) + ("val" not in named or "cal" not in named),
    )
    split_rng = rng(SPLIT_SEED, name, "splits")
    parts = {part: (rows, numbers[part]) for part, rows in named.items()}
    n_all = len(named["train"])

    def divide(origin: str, rows_of: Mapping[str, NDArray[np.int64]]) -> None:
        rows, labels = parts[origin]
        parts.update({part: (rows.take(taken), labels[taken]) for part, taken in rows_of.items()})

    share = max(1, round(n_all * _FIFTH))
    if "test" not in parts:
        test, rest = stratified_take(parts["train"][1], share, split_rng)
        divide("train", {"test": test, "train": rest})
    if "val" not in parts and "cal" not in parts:
        n_held_out = max(2, share)
        n_cal = n_held_out // 2
        divide("train", split_fit_rows(parts["train"][1], n_held_out - n_cal, n_cal, split_rng)._asdict())
    if "val" not in parts:
        val, rest = stratified_take(parts["train"][1], max(1, share // 2), split_rng)
        divide("train", {"val": val, "train": rest})
    if "cal" not in parts:
        if len(parts["val"][0]) < 2:
            raise InputError(
                f"{source} has {len(parts['val'][0])} val row, which cannot be halved into val and cal; give more"
            )
        n_val = len(parts["val"][0])
        cal, rest = random_take(n_val, n_val // 2, split_rng)
        divide("val", {"cal": cal, "val": rest})
    return classes, names, {part: parts[part] for part in ("train", "val", "cal", "test")}


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
    for name in ood:
        if not _SET_NAME.fullmatch(name):
            raise InputError(f"ood names a set {name!r}; use letters, digits, _ and .")
    if unknown := sorted(set(near) - set(ood)):
        raise InputError(f"near names {unknown[0]!r}, which is not among the ood sets: {', '.join(ood) or 'none'}")
    severe = {name if re.search(r"-\d+$", name) else f"{name}-1": path for name, path in shifts.items()}
    for name in severe:
        if not _SHIFT_NAME.fullmatch(name):
            raise InputError(
                f"shifts names a set {name!r}; use NAME-SEVERITY, such as fog-3, of letters, digits, _ and ."
            )
    return {name: Path(path) for name, path in ood.items()}, {name: Path(path) for name, path in severe.items()}


def _make_folder(parent: Path) -> Path:
    try:
        parent.mkdir(parents=True, exist_ok=True)
        return Path(tempfile.mkdtemp(prefix=".part-", dir=parent))
    except OSError as error:
        raise StoreError(
            f"{parent} cannot be written: {error.strerror or error}; name another folder with --data"
        ) from error


def _scratch(temporary: Path, name: str) -> Path:
    folder = temporary / "scratch" / name
    folder.mkdir(parents=True)
    return folder


def _move(temporary: Path, target: Path) -> None:
    if target.exists():
        aside = Path(tempfile.mkdtemp(prefix=".old-", dir=target.parent))
        target.rename(aside / target.name)
        temporary.rename(target)
        shutil.rmtree(aside, ignore_errors=True)
    else:
        temporary.rename(target)
    sync_folder(target.parent)
